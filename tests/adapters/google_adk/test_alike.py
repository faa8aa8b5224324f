"""Agents do the same in a workflow as without Outlast: what is said, what it leaves in the session, what is raised."""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, RunConfig, SequentialAgent
from google.adk.agents.run_config import StreamingMode
from google.adk.tools import ToolContext, exit_loop
from google.adk.tools.agent_tool import AgentTool

from outlast import App, workflow
from outlast.google_adk import Plugin
from tests.adapters.google_adk.gemini import GeminiStandIn
from tests.adapters.google_adk.program import message_of, model, runner_of, told
from tests.adapters.stand_in import Asked, Reply, StandIn, ToolCall, serving

pytestmark = pytest.mark.filterwarnings("default")  # the framework says that much of it is experimental


def says(asked: Asked) -> Reply:
    """Let each agent do what its instruction says, once; then speak."""
    done = asked.results()
    system = asked.said(0)
    for line in system.splitlines():
        verb, _, rest = line.strip().partition(" ")
        if verb == "CALL":
            name, _, argument = rest.partition(" ")
            if not any(call.startswith(f"{name}-") for call in done):
                calls = [ToolCall("", name, dict([each.split("=")])) for each in argument.split(";")]
                return Reply(text="Let me see.", calls=tuple(calls))
        if verb == "FAIL":
            return Reply(status=400, text="no such model")
        if verb == "SAY":
            return Reply(text=f"{rest} {sorted(done.items())}")
    return Reply(text=f"nothing to do in {len(asked.messages)} messages")


async def weather(city: str, tool_context: ToolContext) -> dict[str, Any]:
    """Tell the weather."""
    seen = [*tool_context.state.get("seen", []), city]
    await asyncio.sleep(0.02 if city == "Rome" else 0)
    tool_context.state["seen"] = seen
    return {"city": city}


def broken(city: str) -> str:
    """Fail."""
    raise LookupError(f"no {city}")


def _one(url: str) -> Any:
    return LlmAgent(
        name="one", model=model(url), instruction="CALL weather city=Rome;city=Oslo\nSAY sunny", tools=[weather]
    )


def _called(url: str) -> Any:
    sub = LlmAgent(name="sub", model=model(url), instruction="CALL weather city=Bonn\nSAY told", tools=[weather])
    return LlmAgent(
        name="main", model=model(url), instruction="CALL sub request=a;request=b\nSAY all", tools=[AgentTool(sub)]
    )


def _in_order(url: str) -> Any:
    side = [
        LlmAgent(name=f"side{n}", model=model(url), instruction=f"SAY side {n}", output_key=f"k{n}") for n in (1, 2)
    ]
    again = LlmAgent(name="again", model=model(url), instruction="CALL exit_loop a=1\nSAY out", tools=[exit_loop])
    return SequentialAgent(
        name="team",
        sub_agents=[
            _one(url),
            ParallelAgent(name="both", sub_agents=side),
            LoopAgent(name="loop", sub_agents=[LlmAgent(name="turn", model=model(url), instruction="SAY turn"), again]),
        ],
    )


def _handed_over(url: str) -> Any:
    other = LlmAgent(name="other", model=model(url), description="Knows more.", instruction="SAY other")
    return LlmAgent(
        name="first",
        model=model(url),
        instruction="CALL transfer_to_agent agent_name=other\nSAY first",
        sub_agents=[other],
    )


def _delegated(mode: str) -> Callable[[str], Any]:
    def make(url: str) -> Any:
        ends = "CALL finish_task result=done\n" if mode == "task" else ""
        sub = LlmAgent(
            name="worker", model=model(url), description="Works.", mode=mode, instruction=f"{ends}SAY worked"
        )
        return LlmAgent(
            name="boss", model=model(url), instruction="CALL worker request=dig\nSAY boss", sub_agents=[sub]
        )

    return make


AGENTS: dict[str, Callable[[str], Any]] = {
    "parallel tools": _one,
    "agents as tools": _called,
    "sequence, parallel, loop": _in_order,
    "transfer": _handed_over,
    "task": _delegated("task"),
    "single turn": _delegated("single_turn"),
}


async def _run(agent: Any, *, resumable: bool, mode: str, durable: bool) -> list[Any]:
    runner = runner_of(agent, resumable=resumable, plugins=[Plugin()] if durable else [])
    events = [
        event
        async for event in runner.run_async(
            user_id="u",
            session_id="s",
            new_message=message_of("go"),
            run_config=RunConfig(streaming_mode=StreamingMode[mode]),
        )
    ]
    session = await runner.session_service.get_session(app_name="desk", user_id="u", session_id="s")
    assert session is not None
    return [[[bool(event.partial), *told(event)] for event in events], dict(session.state)]


@workflow(loop="native")
async def agents(which: str, url: str, resumable: bool, mode: str) -> list[Any]:
    """Run one of the agents."""
    return await _run(AGENTS[which](url), resumable=resumable, mode=mode, durable=True)


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    with serving(says, tmp_path / "asked", GeminiStandIn) as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield made


@pytest.mark.parametrize("mode", ["NONE", "SSE"])
@pytest.mark.parametrize("resumable", [False, True])
@pytest.mark.parametrize("which", AGENTS)
def test_agents_say_and_leave_the_same(which: str, resumable: bool, mode: str, stand_in: StandIn) -> None:
    async def both() -> tuple[Any, Any, int]:
        bare = await _run(AGENTS[which](stand_in.url), resumable=resumable, mode=mode, durable=False)
        asked = len(stand_in.asked())
        async with App("memory://") as app:
            durable = await (await app.start(agents(which, stand_in.url, resumable, mode))).result()
        return bare, durable, asked

    bare, durable, asked = asyncio.run(both())
    assert len(bare[0]) > 2
    assert _sorted(durable) == _sorted(bare)
    conversations = [sorted(map(str, body["messages"])) for body in stand_in.asked()]
    assert sorted(conversations[:asked]) == sorted(conversations[asked:])


def _sorted(said: Any) -> Any:
    """Agents that run side by side say things in no order, and ids that are drawn differ."""
    return sorted(re.sub(r"@adk-[\w-]+", "@call", str(event)) for event in said[0]), {
        key: value for key, value in said[1].items() if key != "seen"
    }
