"""What a tool does to the world, and what becomes of it in a crash or an error."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunContextWrapper, Runner, function_tool
from agents.mcp import MCPServerStdio

import outlast
from outlast import App, Happened, Retry, WrongUse
from outlast.openai_agents import install
from tests.adapters.openai_agents import scenes
from tests.adapters.openai_agents.scenes import again, asked, durably
from tests.adapters.stand_in import Asked, Reply, Script, ToolCall


class Declined(Exception):
    """An answer."""


def calls(*wanted: tuple[str, dict[str, Any]]) -> Script:
    """Have the model call tools, all at once, and then say what they gave."""

    def says(asked: Asked) -> Reply:
        results = asked.results()
        if results:
            return Reply(json.dumps(results, sort_keys=True))
        return Reply(calls=tuple(ToolCall(f"c{n}", name, arguments) for n, (name, arguments) in enumerate(wanted)))

    return says


async def run(model: Any, *tools: Any) -> str:
    """Run an agent with these tools."""
    return str((await Runner.run(Agent("helper", model=model, tools=list(tools)), "help")).final_output)


async def stuck(folder: Path) -> outlast.RunInfo:
    """Start the scene, and wait until it is stuck."""
    async with App(f"sqlite:///{folder}/runs.db") as app:
        started = await app.start(scenes.scene(), id="scene")
        with pytest.raises(outlast.RunStuck):
            await started.result()
        return await started.info()


def test_a_once_tool_that_raises_is_in_doubt_and_its_model_is_told_nothing(tmp_path: Path) -> None:
    made: list[str] = []

    @function_tool
    @outlast.effect("once")
    async def pay() -> str:
        made.append(outlast.idempotency_key())
        raise TimeoutError("no answer")

    async def main() -> None:
        async with asked(calls(("pay", {})), tmp_path) as (model, stand_in):
            scenes.scenario = lambda: run(model, pay)
            info = await stuck(tmp_path)
            assert info.reason == "in_doubt"
            assert len(stand_in.asked()) == 1
            async with App(f"sqlite:///{tmp_path}/runs.db") as app:
                waiting = [step for step in await (await app.get("scene")).steps() if step.name == "pay"]
                await app.resolve("scene", waiting[0].id, Happened("paid 3"))
                assert await (await app.get("scene")).result() == '{"c0": "paid 3"}'
            assert len(made) == 1

    asyncio.run(main())


def test_an_error_that_is_an_answer_is_told_to_the_model(tmp_path: Path) -> None:
    @function_tool(failure_error_function=lambda context, error: f"{type(error).__name__}: {error}")
    @outlast.effect("once", definite=Declined)
    async def pay() -> str:
        raise Declined("no cover")

    async def main() -> None:
        async with asked(calls(("pay", {})), tmp_path) as (model, _):
            assert await durably(lambda: run(model, pay), tmp_path) == '{"c0": "Declined: no cover"}'

    asyncio.run(main())


@pytest.mark.parametrize("by_name", [False, True])
def test_a_tool_with_retries_is_tried_again_with_the_same_key(by_name: bool, tmp_path: Path) -> None:
    keys: list[str] = []
    retry = Retry(attempts=3, initial=0.01)

    def flaky() -> str:
        keys.append(outlast.idempotency_key())
        if len(keys) < 3:
            raise ConnectionError("not now")
        return "at last"

    tool = function_tool(flaky if by_name else outlast.effect("idempotent", retry=retry)(flaky))
    if by_name:
        install(effects={"flaky": {"effect": "idempotent", "retry": retry}})

    async def main() -> None:
        async with asked(calls(("flaky", {})), tmp_path) as (model, _):
            assert await durably(lambda: run(model, tool), tmp_path) == '{"c0": "at last"}'

    asyncio.run(main())
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_a_once_tool_with_a_timeout_of_the_sdk_is_refused(tmp_path: Path) -> None:
    @function_tool(timeout=5)
    @outlast.effect("once")
    async def pay() -> str:
        return "paid"

    async def main() -> None:
        async with asked(calls(("pay", {})), tmp_path) as (model, _):
            with pytest.raises(WrongUse, match=r"effect\('once', timeout="):
                await durably(lambda: run(model, pay), tmp_path)

    asyncio.run(main())


def test_an_effect_that_is_none_is_refused_when_it_is_said() -> None:
    with pytest.raises(WrongUse, match="must be 'pure', 'idempotent' or 'once'"):
        install(effects={"pay": "twice"})  # type: ignore[dict-item]


def test_a_step_works_in_a_tools_function(tmp_path: Path) -> None:
    @function_tool
    def work() -> str:
        outlast.annotate(rows=3)
        outlast.stream("progress").write("half")
        outlast.heartbeat()
        return "done"

    async def main() -> None:
        async with asked(calls(("work", {})), tmp_path) as (model, _):
            await durably(lambda: run(model, work), tmp_path)
            async with App(f"sqlite:///{tmp_path}/runs.db", worker=False) as app:
                done = await app.get("scene")
                assert [item.value async for item in done.stream("progress")] == ["half"]
                step = [step for step in await done.steps() if step.name == "work"]
                assert json.loads(step[0].note) == {"rows": 3}

    asyncio.run(main())


def test_a_tool_of_an_mcp_server_is_a_step_and_its_server_gets_the_key(tmp_path: Path) -> None:
    ledger = tmp_path / "orders"
    script = calls(("price", {"item": "tea"}), ("order", {"item": "tea"}), ("refuse", {}))
    params: Any = {"command": sys.executable, "args": ["-m", "tests.adapters.openai_agents.mcp_server", str(ledger)]}
    fails = [True]

    async def main() -> None:
        async with asked(script, tmp_path) as (model, stand_in), MCPServerStdio(params, name="shop") as server:

            async def body() -> Any:
                agent = Agent("helper", model=model, mcp_servers=[server])
                answer = (await Runner.run(agent, "help")).final_output
                if fails:
                    raise RuntimeError("once more")
                return answer

            plain = await Runner.run(Agent("helper", model=model, mcp_servers=[server]), "help")
            before = len(_lines(ledger))
            with pytest.raises(RuntimeError, match="once more"):
                await durably(body, tmp_path)
            fails.clear()
            assert await again(tmp_path) == plain.final_output
            assert len(stand_in.asked()) == 4
            made = _lines(ledger)[before:]
            assert sorted(line["what"] for line in made) == ["order", "price", "refuse"]
            assert len({line["key"] for line in made} - {None}) == 3
            async with App(f"sqlite:///{tmp_path}/runs.db", worker=False) as app:
                effects = {step.name: step.effect for step in await (await app.get("scene")).steps()}
            assert (effects["price"], effects["order"]) == ("pure", "idempotent")

    asyncio.run(main())


def _lines(ledger: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()]


@dataclass
class Desk:
    """What tools share. A lock is what no journal keeps."""

    customer: str = ""
    notes: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)


@function_tool
async def greet(context: RunContextWrapper[Any], name: str) -> str:
    """Note who is here."""
    shared = context.context
    if isinstance(shared, dict):
        shared["customer"] = name
        shared.setdefault("notes", []).append(f"{name} came")
        shared.pop("nobody", None)
    else:
        with shared.lock:
            shared.customer = name
            shared.notes.append(f"{name} came")
    return f"hello {name}"


@pytest.mark.parametrize("make", [Desk, lambda: {"nobody": True}])
def test_what_tools_change_in_the_context_is_there_in_a_replay(make: Callable[[], Any], tmp_path: Path) -> None:
    seen: list[Any] = []
    fails = [True]

    def instructions(context: Any, agent: Any) -> str:
        shared = context.context
        return f"with {shared.get('customer') if isinstance(shared, dict) else shared.customer}"

    async def main() -> None:
        async with asked(calls(("greet", {"name": "ada"}), ("greet", {"name": "bob"})), tmp_path) as (model, stand_in):

            async def body() -> Any:
                shared = make()
                agent = Agent("helper", instructions=instructions, model=model, tools=[greet])
                await Runner.run(agent, "help", context=shared)
                if isinstance(shared, Desk):
                    seen.append((shared.customer, shared.notes, shared.lock.locked()))
                else:
                    seen.append(shared)
                if fails:
                    raise RuntimeError("once more")

            with pytest.raises(RuntimeError, match="once more"):
                await durably(body, tmp_path)
            fails.clear()
            await again(tmp_path)
            assert stand_in.asked()[1]["messages"][0]["content"] == "with bob"
            assert len(stand_in.asked()) == 2

    asyncio.run(main())
    assert seen[0] == seen[1]
    assert len(str(seen[0])) > 30


def test_a_sub_agent_is_a_scope_whose_failure_its_caller_is_told(tmp_path: Path) -> None:
    def says(asked: Asked) -> Reply:
        if asked.said(0) == "expert":
            return Reply("out of order", status=500)
        results = asked.results()
        return Reply(json.dumps(results)) if results else Reply(calls=(ToolCall("c0", "ask_expert", {"input": "why"}),))

    async def main() -> None:
        async with asked(says, tmp_path) as (model, _):
            expert = Agent[Any]("expert", instructions="expert", model=model)
            helper = Agent[Any](
                "helper", instructions="helper", model=model, tools=[expert.as_tool("ask_expert", "Ask.")]
            )
            plain = (await Runner.run(helper, "help")).final_output
            result = await durably(lambda: _final(helper), tmp_path)
            assert result == plain
            assert "An error occurred" in result

    asyncio.run(main())


async def _final(agent: Any) -> Any:
    return (await Runner.run(agent, "help")).final_output


@pytest.mark.parametrize("made_up", ["self", "key", "args", "kwargs", "name", "context", ""])
def test_an_argument_that_a_model_makes_up_is_left_to_the_sdk(made_up: str, tmp_path: Path) -> None:
    @function_tool(strict_mode=False)
    async def double(n: int = 1) -> int:
        return 2 * n

    async def main() -> None:
        async with asked(calls(("double", {"n": 2, made_up: "x"})), tmp_path) as (model, _):
            assert json.loads(await run(model, double)) == {"c0": "4"}
            assert json.loads(await durably(lambda: run(model, double), tmp_path)) == {"c0": "4"}

    asyncio.run(main())
