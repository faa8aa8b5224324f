"""Calls of models: their errors, their retries, what they use, and which are refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    CodeInterpreterTool,
    CustomTool,
    Model,
    ModelRetrySettings,
    ModelSettings,
    Runner,
    retry_policies,
)
from agents.run_config import SandboxRunConfig

from outlast import App, BudgetExceeded, Price, Retry, WrongUse, workflow
from outlast.openai_agents import install
from tests.adapters.openai_agents.scenes import again, asked, durably, streamed
from tests.adapters.stand_in import Asked, Reply, Script


def always(text: str, status: int = 200) -> Script:
    """Have the model say one thing."""
    return lambda _: Reply(text, status=status)


def test_an_error_of_the_provider_keeps_its_status_and_headers_in_a_replay(tmp_path: Path) -> None:
    seen: list[Any] = []
    fails = [True]

    async def main() -> None:
        async with asked(always("slow down", status=429), tmp_path) as (model, stand_in):

            async def body() -> None:
                try:
                    await Runner.run(Agent("helper", model=model), "help")
                except openai.RateLimitError as error:
                    seen.append(
                        (error.status_code, error.response.headers["content-type"], error.body, error.request.url)
                    )
                if fails:
                    raise RuntimeError("once more")

            with pytest.raises(RuntimeError, match="once more"):
                await durably(body, tmp_path)
            fails.clear()
            await again(tmp_path)
            assert len(stand_in.asked()) == 1

    asyncio.run(main())
    assert seen[0] == seen[1]
    assert seen[0][:2] == (429, "application/json")


def test_both_kinds_of_retries_ask_again(tmp_path: Path) -> None:
    failures = [500, 500]

    def says(_: Asked) -> Reply:
        return Reply("busy", status=failures.pop()) if failures else Reply("at last")

    async def main() -> None:
        async with asked(says, tmp_path) as (model, stand_in):
            settings = ModelSettings(
                retry=ModelRetrySettings(max_retries=3, policy=retry_policies.provider_suggested())
            )

            async def by_the_sdk() -> Any:
                return (await Runner.run(Agent("helper", model=model, model_settings=settings), "help")).final_output

            assert await durably(by_the_sdk, tmp_path) == "at last"
            failures.extend([500, 500])
            install(retry=Retry(attempts=3, initial=0.01))

            async def by_outlast() -> Any:
                return (await Runner.run(Agent("helper", model=model), "help")).final_output

            folder = tmp_path / "other"
            folder.mkdir()
            assert await durably(by_outlast, folder) == "at last"
            assert len(stand_in.asked()) == 6

    asyncio.run(main())


@pytest.mark.parametrize("pieces", [False, True])
def test_what_models_used_is_recorded_and_budgets_hold(pieces: bool, tmp_path: Path) -> None:
    @workflow(loop="native", max_tokens=20, name=f"spender_{pieces}")
    async def spender() -> None:
        agent = Agent[Any]("helper", model=models[0])
        for question in ("one", "two", "three"):
            await (streamed(agent, question) if pieces else Runner.run(agent, question))

    models: list[Model] = []

    async def main() -> None:
        async with asked(always("hello"), tmp_path) as (model, stand_in):
            models.append(model)
            async with App(f"sqlite:///{tmp_path}/runs.db", prices={"stand-in": Price(input=1, output=1)}) as app:
                run = await app.start(spender(), id="spends")
                with pytest.raises(BudgetExceeded):
                    await run.result()
                usage = await run.usage()
            assert usage.models["stand-in"].total == 30
            assert len(stand_in.asked()) == 2

    asyncio.run(main())


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        (ModelSettings(), {"include_usage": True}),
        (ModelSettings(include_usage=False), {"include_usage": False}),
        (ModelSettings(extra_body={"stream_options": {"include_usage": False}}), {"include_usage": False}),
        (ModelSettings(extra_args={"stream_options": {"include_usage": False}}), {"include_usage": False}),
    ],
    ids=["nothing", "no", "in_the_body", "in_the_arguments"],
)
def test_what_the_user_says_of_usage_stays_and_a_budget_is_not_kept_blindly(
    settings: ModelSettings, sent: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        async with asked(always("hello"), tmp_path) as (model, stand_in):
            agent = Agent[Any]("helper", model=model, model_settings=settings)

            @workflow(loop="native", max_tokens=1_000, name="speaker")
            async def speaker() -> None:
                for question in ("one", "two"):
                    await streamed(agent, question)

            async with App(f"sqlite:///{tmp_path}/runs.db") as app:
                run = await app.start(speaker(), id="speaks")
                if sent["include_usage"]:
                    await run.result()
                else:
                    with pytest.raises(BudgetExceeded, match=r"of the steps 'model' \(1\) have told nothing"):
                        await run.result()
                usage = await run.usage()
            told = sent["include_usage"]
            assert (usage.spent.total, usage.unknown) == ((30, {}) if told else (0, {"model": 1}))
            assert {str(body["stream_options"]) for body in stand_in.asked()} == {str(sent)}

    asyncio.run(main())


def test_what_cannot_be_recorded_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(always("hello"), tmp_path) as (model, stand_in):
            agent = Agent[Any]("helper", model=model)

            async def refused() -> list[str]:
                said = []
                for more in ({"conversation_id": "conv_1"}, {"run_config": {"sandbox": SandboxRunConfig()}}):
                    with pytest.raises(WrongUse) as error:
                        await Runner.run(agent, "help", **more)  # type: ignore[arg-type]
                    said.append(str(error.value))
                return said

            first, second = await durably(refused, tmp_path)
            assert "session=" in first
            assert "sandbox" in second
            assert stand_in.asked() == []

    asyncio.run(main())


def test_an_agent_in_a_workflow_with_a_loop_of_its_own_is_refused(tmp_path: Path) -> None:
    @workflow
    async def deterministic() -> None:
        await Runner.run(Agent("helper", model="gpt-5"), "help")

    async def main() -> None:
        async with App(f"sqlite:///{tmp_path}/runs.db") as app:
            run = await app.start(deterministic())
            with pytest.raises(WrongUse, match="loop='native'"):
                await run.result()

    asyncio.run(main())


def test_a_tool_that_works_on_this_machine_is_refused_and_one_of_the_provider_is_not(tmp_path: Path) -> None:
    custom = CustomTool(name="paint", description="paints", on_invoke_tool=lambda context, given: "painted")  # type: ignore[arg-type,return-value]
    hosted = CodeInterpreterTool(tool_config={"type": "code_interpreter", "container": {"type": "auto"}})

    async def main() -> None:
        async with asked(always("hello"), tmp_path) as (model, stand_in):

            async def body() -> Any:
                with pytest.raises(WrongUse, match="'paint', a CustomTool"):
                    await Runner.run(Agent("painter", model=model, tools=[custom]), "help")
                with pytest.raises(Exception, match="Hosted tools are not supported"):
                    await Runner.run(Agent("coder", model=model, tools=[hosted]), "help")

            await durably(body, tmp_path)
            assert stand_in.asked() == []

    asyncio.run(main())
