"""Installing: once or again, over the SDK that is known, and without a trace elsewhere than in runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from agents.run import get_default_agent_runner, set_default_agent_runner
from agents.run_internal import run_loop, tool_execution

from outlast import App, WrongUse
from outlast.openai_agents import DurableRunner, install
from tests.adapters.openai_agents.scenes import asked, durably
from tests.adapters.stand_in import Asked, Reply


def hello(asked: Asked) -> Reply:
    """Say hello."""
    return Reply("hello")


def test_installing_again_replaces_nothing_twice_and_has_the_last_settings() -> None:
    seam = run_loop.get_model
    first, second = install(), install(tokens=None)
    assert run_loop.get_model is seam
    assert get_default_agent_runner() is second is not first


def test_an_sdk_that_is_built_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(function_tool: Any, context: Any) -> None:
        pass

    monkeypatch.setattr(tool_execution, "_invoke_function_tool_with_metadata", other)
    with pytest.raises(WrongUse, match=r"has no agents\.run_internal\.tool_execution\._invoke_function_tool_with"):
        install()
    monkeypatch.delattr(run_loop, "get_model")
    with pytest.raises(WrongUse, match=r"pip install 'outlast\[openai-agents\]'"):
        install()


def test_a_runner_that_is_not_the_default_is_refused_in_a_run(tmp_path: Path) -> None:
    runner = DurableRunner()
    set_default_agent_runner(None)

    async def main() -> None:
        async with asked(hello, tmp_path) as (model, _):

            async def body() -> None:
                await runner.run(Agent("helper", model=model), "hi")

            with pytest.raises(WrongUse, match=r"install\(\)"):
                await durably(body, tmp_path)
            plain = await runner.run(Agent("helper", model=model), "hi")  # elsewhere it is the SDK's
            assert plain.final_output == "hello"

    asyncio.run(main())


def test_a_runner_of_its_own_settings_is_used_beside_the_default(tmp_path: Path) -> None:
    runner = DurableRunner(tokens="words")

    async def main() -> None:
        async with asked(hello, tmp_path) as (model, _):

            async def body() -> None:
                result = runner.run_streamed(Agent("helper", model=model), "hi")
                async for _ in result.stream_events():
                    pass

            await durably(body, tmp_path)
            async with App(f"sqlite:///{tmp_path}/runs.db", worker=False) as app:
                run = await app.get("scene")
                assert [item.value async for item in run.stream("words")] == ["hello"]

    asyncio.run(main())


def test_the_model_that_is_recorded_passes_for_that_of_the_user(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def main() -> None:
        async with asked(hello, tmp_path) as (model, _):
            agent = Agent("helper", model=model)
            original = run_loop.model_run_context

            def watched(tracker: Any) -> Any:
                seen.extend(tracker.models)
                return original(tracker)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(run_loop, "model_run_context", watched)

                async def body() -> None:
                    await Runner.run(agent, "hi")

                await durably(body, tmp_path)
            assert isinstance(seen[0], OpenAIChatCompletionsModel)
            assert seen[0] is not model
            assert seen[0].model == "stand-in"

    asyncio.run(main())
