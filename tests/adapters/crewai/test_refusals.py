"""What cannot be kept across a crash is refused, by name, before anything is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crewai import Crew
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.state.checkpoint_config import CheckpointConfig

from outlast import App, WrongUse, workflow
from outlast.crewai import durable
from tests.adapters.crewai.running import a_task, an_agent, one_task, saying


class Foreign(BaseAgent):
    """An agent of another framework."""

    def execute_task(self, task: Any, context: str | None = None, tools: Any = None) -> str:
        return "done"

    async def aexecute_task(self, task: Any, context: str | None = None, tools: Any = None) -> str:
        return "done"

    def create_agent_executor(self, tools: Any = None, task: Any = None) -> None: ...

    def get_delegation_tools(self, agents: Any) -> list[Any]:
        return []

    def get_platform_tools(self, apps: Any) -> list[Any]:
        return []

    def get_mcp_tools(self, mcps: Any) -> list[Any]:
        return []

    def get_output_converter(self, *args: Any) -> Any: ...


def _crew(url: str, **fields: Any) -> Crew:
    crew = one_task(url, "SAY hello")
    for name, value in fields.items():
        crew.__dict__[name] = value
    return crew


def _agent(url: str, **fields: Any) -> Crew:
    crew = one_task(url, "SAY hello")
    for name, value in fields.items():
        crew.agents[0].__dict__[name] = value
    return crew


def _foreign(url: str) -> Crew:
    agent = Foreign(role="foreign", goal="g", backstory="b")
    return Crew(agents=[agent], tasks=[a_task(agent, "SAY hello")])  # type: ignore[arg-type]


def _remote(url: str) -> Crew:
    agent = an_agent(url, "remote")
    agent.__dict__["a2a"] = object()  # what makes the real one is an extra of the framework's
    return Crew(agents=[agent], tasks=[a_task(agent, "SAY hello")])


REFUSED: dict[str, tuple[Callable[[str], Crew], Callable[[Crew], Any]]] = {
    r"the crew crew has a memory": (lambda url: _crew(url, memory=object()), lambda crew: crew.akickoff()),
    r"the agent one has a memory": (lambda url: _agent(url, memory=object()), lambda crew: crew.kickoff_async()),
    r"the crew crew has max_rpm=9.*rate=": (lambda url: _crew(url, max_rpm=9), lambda crew: crew.akickoff()),
    r"the agent one has max_rpm=9": (lambda url: _agent(url, max_rpm=9), lambda crew: crew.akickoff()),
    r"has checkpoints of CrewAI's": (
        lambda url: _crew(url, checkpoint=CheckpointConfig()),
        lambda crew: crew.akickoff(),
    ),
    r"from_checkpoint cannot be used in a run": (
        _crew,
        lambda crew: crew.akickoff(from_checkpoint=CheckpointConfig()),
    ),
    r"the agent foreign is a Foreign": (_foreign, lambda crew: crew.akickoff()),
    r"the agent remote hands work to remote agents": (_remote, lambda crew: crew.akickoff()),
    r"crew\.kickoff\(\) would block.*await crew\.akickoff": (_crew, lambda crew: crew.kickoff()),
    r"crew\.kickoff_for_each\(\) would block": (_crew, lambda crew: crew.kickoff_for_each([{}])),
    r"crew\.replay\(\) cannot be used in a run": (_crew, lambda crew: crew.replay("1")),
    r"crew\.train\(\) cannot be used in a run": (_crew, lambda crew: crew.train(1, "t.pkl")),
    r"crew\.test\(\) cannot be used in a run": (_crew, lambda crew: crew.test(1, "gpt-4o")),
}


@workflow(loop="native")
async def refused(which: str, url: str) -> str:
    """Use a crew in a way that is refused."""
    make, use = REFUSED[which]
    return str((await use(durable(make(url)))).raw)


@pytest.mark.parametrize("which", REFUSED)
def test_it_is_refused_by_name(which: str, tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with App("memory://") as app:
            with pytest.raises(WrongUse, match=which):
                await (await app.start(refused(which, url))).result(timeout=30)

    with saying(tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
        assert stand_in.asked() == []


def test_a_crew_is_made_durable_once() -> None:
    with pytest.raises(WrongUse, match="the crew crew is durable already"):
        durable(durable(one_task("http://127.0.0.1:1", "SAY hello")), to="desk")


def test_one_name_is_no_list_of_names() -> None:
    with pytest.raises(WrongUse, match=r"such as \['pay'\]"):
        durable(one_task("http://127.0.0.1:1", "SAY hello"), approve="pay")


@workflow
async def not_native(url: str) -> str:
    """Use a crew in a body that can do no I/O."""
    return str((await durable(one_task(url, "SAY hello")).akickoff()).raw)


def test_a_body_that_is_not_native_is_told_so(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with App("memory://") as app:
            with pytest.raises(WrongUse, match=r"@workflow\(loop='native'\)"):
                await (await app.start(not_native(url))).result(timeout=30)

    with saying(tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
        assert stand_in.asked() == []


@workflow(loop="native")
async def asks_on_the_loop(url: str) -> str:
    """Ask a model of a crew without `await`."""
    crew = durable(one_task(url, "SAY hello"))
    return str(crew.agents[0].llm.call("hello"))  # type: ignore[union-attr]


def test_a_model_that_is_asked_on_the_workers_loop_says_what_to_write(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with App("memory://") as app:
            with pytest.raises(WrongUse, match=r"without `await` on the worker's event loop"):
                await (await app.start(asks_on_the_loop(url))).result(timeout=30)

    with saying(tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
        assert stand_in.asked() == []
