"""Tools in a workflow: their effects, what they do to the session, what they raise, and what they ask people."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.tools import BaseTool, FunctionTool, ToolContext
from google.adk.tools.agent_tool import AgentTool

import outlast
from outlast import App, EncodingError, workflow
from outlast.adapters.google_adk.tools import settings_of
from outlast.google_adk import Plugin
from tests.adapters.google_adk.program import message_of, model, runner_of
from tests.adapters.google_adk.running import answer_next, begun_again, converse, said_by, saying
from tests.adapters.stand_in import Asked, Reply, ToolCall

pytestmark = pytest.mark.filterwarnings("default")  # the framework says that much of it is experimental

did: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    did.clear()


def calls(*names: str) -> Any:
    """Return a script: all these tools are called at once, then the model says what they answered."""

    def script(asked: Asked) -> Reply:
        answers = asked.results()
        if not answers:
            return Reply(calls=tuple(ToolCall("", name, {}) for name in names))
        return Reply(text=str(sorted(answers.items())))

    return script


def an_agent(url: str, *tools: Any, **fields: Any) -> LlmAgent:
    """Return an agent with these tools."""
    return LlmAgent(**{"name": "main", "model": model(url), "tools": list(tools)} | fields)


@outlast.effect("once", confirm=lambda key: outlast.Unknown())
def marked() -> str:
    """Do."""
    did["marked"] += 1
    return outlast.idempotency_key()


def plain() -> str:
    """Do."""
    return "plain"


def hinted(**hints: bool) -> BaseTool:
    """Return a tool as that of an MCP server is."""
    tool = BaseTool(name="hinted", description="d")
    tool.raw_mcp_tool = SimpleNamespace(annotations=SimpleNamespace(**hints))  # type: ignore[attr-defined]
    return tool


def test_a_tool_says_its_effect_in_one_of_several_ways() -> None:
    def effect(tool: BaseTool, **given: Any) -> str:
        return settings_of(tool, given).effect.value

    assert effect(FunctionTool(marked)) == "once"
    assert effect(FunctionTool(plain)) == "idempotent"
    assert effect(FunctionTool(plain), plain="pure") == "pure"
    assert effect(FunctionTool(marked), marked={"effect": "idempotent"}) == "idempotent"
    assert settings_of(FunctionTool(plain), {"plain": {"effect": "once", "timeout": 5}}).timeout == 5
    assert effect(hinted(readOnlyHint=True)) == "pure"
    assert effect(hinted(idempotentHint=False)) == "once"
    assert effect(hinted(idempotentHint=True)) == "idempotent"
    assert effect(hinted(readOnlyHint=True), hinted="once") == "once"
    with pytest.raises(outlast.WrongUse, match="effect='twice'"):
        effect(FunctionTool(plain), plain="twice")


def test_a_tool_runs_in_its_step_with_its_effect_and_key(tmp_path: Path) -> None:
    @workflow(loop="native")
    async def one(url: str) -> str:
        return said_by(await converse(runner_of(an_agent(url, marked), plugins=[Plugin()]), "go"))

    async def main(url: str) -> None:
        async with App("memory://") as app:
            run = await app.start(one(url))
            assert "marked-1" in await run.result()
            (step,) = [step for step in await run.steps() if step.name == "marked"]
            assert (step.effect, step.state) == ("once", "done")
            assert (await run.usage()).spent.total == 30  # two answers of the stand-in

    with saying(calls("marked"), tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))


def test_what_a_tool_raises_reaches_callbacks_and_the_caller_and_is_recorded(tmp_path: Path) -> None:
    def broken() -> str:
        """Fail."""
        did["broken"] += 1
        raise LookupError("no such thing")

    heard: list[str] = []

    def recover(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, Any] | None:
        heard.append(f"{type(error).__name__}: {error}")
        return {"recovered": True} if tool_context.state.get("recover") else None

    @workflow(loop="native")
    async def failing(url: str) -> str:
        runner = runner_of(an_agent(url, broken, on_tool_error_callback=recover), plugins=[Plugin()])
        try:
            await converse(runner, "go")
        except LookupError as error:
            first = str(error)
        else:
            first = ""
        await outlast.approve("Go on?")
        events = await converse(runner, "go", "other", state_delta={"recover": True})
        return f"{first}; {said_by(events)}"

    with saying(calls("broken"), tmp_path) as stand_in:
        result = asyncio.run(begun_again(f"sqlite:///{tmp_path / 'a.db'}", failing(stand_in.url)))
    assert result == "no such thing; [('broken-1', '{\"recovered\": true}')]"
    assert did["broken"] == 2
    assert heard == ["LookupError: no such thing"] * 3


def test_a_result_that_no_journal_can_keep_fails_its_step_once_with_its_place(tmp_path: Path) -> None:
    def odd() -> dict[str, Any]:
        """Return what cannot be kept."""
        did["odd"] += 1
        return {"socket": object()}

    @workflow(loop="native")
    async def odd_one(url: str) -> str:
        return said_by(await converse(runner_of(an_agent(url, odd), plugins=[Plugin()]), "go"))

    async def main(url: str) -> None:
        async with App("memory://") as app:
            with pytest.raises(EncodingError, match="socket"):
                await (await app.start(odd_one(url))).result()

    with saying(calls("odd"), tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
    assert did["odd"] == 1


def test_what_parallel_tools_write_to_the_state_is_the_same_when_it_is_told(tmp_path: Path) -> None:
    """The one that wrote first ends last: what it wrote is not the latest, live or told."""
    second_wrote = asyncio.Event()

    async def first(tool_context: ToolContext) -> str:
        """Write."""
        tool_context.state["seen"] = [*tool_context.state.get("seen", []), "first"]
        tool_context.state["mine"] = {"n": 1}
        await second_wrote.wait()
        await asyncio.sleep(0.05)
        return "first"

    async def second(tool_context: ToolContext) -> str:
        """Write after the first."""
        tool_context.state["seen"] = [*tool_context.state["seen"], "second"]
        second_wrote.set()
        return "second"

    seen: list[Any] = []

    @workflow(loop="native")
    async def writing(url: str) -> dict[str, Any]:
        runner = runner_of(an_agent(url, first, second), plugins=[Plugin()])
        await converse(runner, "go")
        session = await runner.session_service.get_session(app_name="desk", user_id="u", session_id="s")
        assert session is not None
        seen.append(dict(session.state))
        await outlast.approve("Go on?")
        return dict(session.state)

    with saying(calls("first", "second"), tmp_path) as stand_in:
        result = asyncio.run(begun_again(f"sqlite:///{tmp_path / 'a.db'}", writing(stand_in.url)))
    assert seen == [{"seen": ["first", "second"], "mine": {"n": 1}}] * 2
    assert result == seen[0]


def test_a_tool_asks_people_three_times_in_a_sub_agent_each_time_once(tmp_path: Path) -> None:
    def careful(tool_context: ToolContext) -> dict[str, Any]:
        """Ask, and do something once people have said yes."""
        did["careful"] += 1
        if not tool_context.tool_confirmation:
            tool_context.request_confirmation(hint="Sure?", payload={"cents": 5})
            tool_context.actions.skip_summarization = True  # the model is not to be asked before people have answered
            return {"error": "ask people"}
        did["confirmed"] += tool_context.tool_confirmation.confirmed
        return {"confirmed": tool_context.tool_confirmation.confirmed}

    def script(asked: Asked) -> Reply:
        answers = asked.results()
        if '"main"' in asked.said(0):
            return Reply(calls=(ToolCall("", "transfer_to_agent", {"agent_name": "sub"}),))
        if sum("confirmed" in answer for answer in answers.values()) < 3:
            return Reply(calls=(ToolCall("", "careful", {}),))
        return Reply(text="done thrice")

    @workflow(loop="native")
    async def nested(url: str) -> str:
        sub = an_agent(url, careful, name="sub", description="Careful.")
        return said_by(await converse(runner_of(an_agent(url, sub_agents=[sub]), plugins=[Plugin()]), "go"))

    async def main(url: str) -> None:
        async with App("memory://") as app:
            run = await app.start(nested(url))
            data = [await answer_next(app) for _ in range(3)]
            assert await run.result() == "done thrice"
            assert len({each["tool_call_id"] for each in data}) == 3
            assert data[0]["hint"] == "Sure?"
            assert data[0]["payload"] == {"cents": 5}

    with saying(script, tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
    assert did == {"careful": 6, "confirmed": 3}


def test_a_call_that_people_reject_is_not_made_and_the_model_is_told(tmp_path: Path) -> None:
    @workflow(loop="native")
    async def rejected(url: str) -> str:
        agent = an_agent(url, FunctionTool(marked, require_confirmation=True))
        return said_by(await converse(runner_of(agent, plugins=[Plugin()]), "go"))

    async def main(url: str) -> None:
        async with App("memory://") as app:
            run = await app.start(rejected(url))
            await answer_next(app, approve=False)
            assert "rejected" in await run.result()

    with saying(calls("marked"), tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
    assert did["marked"] == 0


def test_an_agent_and_its_tools_are_left_as_they_were(tmp_path: Path) -> None:
    tool = FunctionTool(plain)
    agent_made: list[LlmAgent] = []

    @workflow(loop="native")
    async def once(url: str) -> str:
        agent_made.append(an_agent(url, tool, AgentTool(an_agent(url, name="sub"))))
        return said_by(await converse(runner_of(agent_made[0], plugins=[Plugin()]), "go"))

    async def main(url: str) -> None:
        async with App("memory://") as app:
            await (await app.start(once(url))).result()
        (agent,) = agent_made
        assert agent.tools[0] is tool
        assert type(tool) is FunctionTool
        assert "outlast_said" not in vars(tool)
        assert "canonical_model_async" not in vars(agent)
        # Outside of a run the plugin changes nothing.
        assert "plain" in said_by([event async for event in _events(agent)])

    async def _events(agent: LlmAgent) -> Any:
        runner = runner_of(agent, plugins=[Plugin()])
        async for event in runner.run_async(user_id="u", session_id="s", new_message=message_of("go")):
            yield event

    with saying(calls("plain"), tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
