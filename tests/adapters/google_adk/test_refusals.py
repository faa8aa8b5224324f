"""What cannot be kept across a crash is refused, by name, before anything is done."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent, RunConfig, SequentialAgent
from google.adk.apps.app import App as AgentApp
from google.adk.apps.app import EventsCompactionConfig
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.tools.agent_tool import AgentTool

import outlast
from outlast import App, WrongUse, workflow
from outlast.google_adk import Plugin
from tests.adapters.google_adk.program import message_of, model, runner_of
from tests.adapters.google_adk.running import saying
from tests.adapters.stand_in import Reply

pytestmark = pytest.mark.filterwarnings("default")  # the framework says that much of it is experimental

SHARED = InMemorySessionService()


async def pieces() -> AsyncIterator[str]:
    """Say something, piece by piece."""
    yield "one"


def _agent(url: str, **fields: Any) -> LlmAgent:
    return LlmAgent(**{"name": "main", "model": model(url)} | fields)


def _with(**fields: Any) -> Callable[[str], Runner]:
    return lambda url: runner_of(_agent(url, **fields), plugins=[Plugin()])


def _compacting(url: str) -> Runner:
    config = EventsCompactionConfig(compaction_interval=2, overlap_size=1)
    app = AgentApp(name="desk", root_agent=_agent(url), plugins=[Plugin()], events_compaction_config=config)
    return Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)


def _stored(url: str) -> Runner:
    service = DatabaseSessionService("sqlite+aiosqlite://")
    return runner_of(_agent(url), plugins=[Plugin()], sessions=service)


REFUSED: dict[str, Callable[[str], Runner]] = {
    "the tool pieces is a generator": _with(tools=[pieces]),
    "executes code by a UnsafeLocalCodeExecutor": _with(code_executor=UnsafeLocalCodeExecutor()),
    "called as a tool with include_plugins=False": lambda url: runner_of(
        _agent(url, tools=[AgentTool(_agent(url, name="sub"), include_plugins=False)]), plugins=[Plugin()]
    ),
    "events_compaction_config": _compacting,
    "DatabaseSessionService stores events as they come": _stored,
}


async def _go(runner: Runner) -> str:
    async for _ in runner.run_async(user_id="u", session_id="s", new_message=message_of("go")):
        pass
    return "done"


@workflow(loop="native")
async def refused(which: str, url: str) -> str:
    """Run what is refused."""
    return await _go(REFUSED[which](url))


@pytest.mark.parametrize("which", REFUSED)
def test_it_is_refused_by_name(which: str, tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with App("memory://") as app:
            with pytest.raises((WrongUse, RuntimeError), match=which):
                await (await app.start(refused(which, url))).result()

    with saying(lambda asked: Reply(text="hello"), tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
        assert stand_in.asked() == []


@workflow(loop="native")
async def live(url: str) -> str:
    """Ask for what is served by a live connection."""
    runner = runner_of(_agent(url), plugins=[Plugin()])
    async for _ in runner.run_async(
        user_id="u", session_id="s", new_message=message_of("go"), run_config=RunConfig(support_cfc=True)
    ):
        pass
    return "done"


def test_live_connections_are_refused(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with App("memory://") as app:
            with pytest.raises((WrongUse, RuntimeError, ValueError), match=r"support_cfc|CFC"):
                await (await app.start(live(url))).result()

    with saying(lambda asked: Reply(text="hello"), tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
        assert stand_in.asked() == []


@workflow(loop="native")
async def in_shared_session(url: str) -> str:
    """Use a session service that outlives this execution."""
    return await _go(runner_of(_agent(url), plugins=[Plugin()], sessions=SHARED))


def test_a_session_in_memory_that_another_execution_wrote_is_refused(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with App("memory://") as app:
            assert await (await app.start(in_shared_session(url))).result() == "done"
            with pytest.raises((WrongUse, RuntimeError), match="holds what another execution wrote"):
                await (await app.start(in_shared_session(url))).result()

    with saying(lambda asked: Reply(text="hello"), tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
        assert len(stand_in.asked()) == 1


@workflow(loop="native")
async def side_by_side(url: str, scoped: bool, at_once: bool) -> list[str]:
    """Run an agent twice in tasks, at once or one when the other is over."""
    left_is_over = asyncio.Event()

    async def one(name: str) -> str:
        if name == "right" and not at_once:
            await left_is_over.wait()
        with outlast.scope(name) if scoped else contextlib.nullcontext():
            said = await _go(runner_of(_agent(url), plugins=[Plugin()]))
        left_is_over.set()
        return said

    return list(await asyncio.gather(one("left"), one("right")))


@workflow(loop="native")
async def shared(url: str) -> list[str]:
    """Run two agents at once that both hand the work to one."""

    async def one(name: str) -> str:
        return await _go(runner_of(SequentialAgent(name=name, sub_agents=[_agent(url)]), plugins=[Plugin()]))

    return list(await asyncio.gather(one("left"), one("right")))


@workflow(loop="native")
async def one_after_another(url: str) -> list[str]:
    """Run an agent again and again, in tasks, too, and when an error ended it, or nobody read on."""
    runner = runner_of(_agent(url), plugins=[Plugin()])
    said = [await _go(runner), await asyncio.create_task(_go(runner)), await asyncio.create_task(_go(runner))]
    async for _ in runner.run_async(user_id="u", session_id="s", new_message=message_of("go")):
        break
    failing = asyncio.create_task(_go(runner_of(_agent(url, before_agent_callback=_fail), plugins=[Plugin()])))
    with contextlib.suppress(ConnectionError):
        await failing
    return [*said, await _go(runner)]


def _fail(callback_context: Any) -> None:
    raise ConnectionError


def test_runs_of_an_agent_one_after_another_need_no_scopes(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with App("memory://") as app:
            assert await (await app.start(one_after_another(url))).result() == ["done"] * 4

    with saying(lambda asked: Reply(text="hello"), tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "in some order"])
def test_an_agent_runs_in_tasks_side_by_side_in_scopes_and_not_without(at_once: bool, tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with App("memory://") as app:
            with pytest.raises((WrongUse, RuntimeError), match=r"the agent main runs twice.*outlast\.scope"):
                await (await app.start(side_by_side(url, False, at_once))).result()
            assert await (await app.start(side_by_side(url, True, at_once))).result() == ["done", "done"]

    with saying(lambda asked: Reply(text="hello"), tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))


def test_agents_that_run_at_once_share_none_below_them(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with App("memory://") as app:
            with pytest.raises(WrongUse, match=r"main asks its model twice at the same time.*outlast\.scope"):
                await (await app.start(shared(url))).result()

    with saying(lambda asked: Reply(text="hello"), tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
