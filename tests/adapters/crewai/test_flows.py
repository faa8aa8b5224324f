"""A flow of the framework's is code of the body: it begins again, and the crews in it are told what is recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from crewai.flow.flow import Flow, listen, or_, router, start

import outlast
from outlast import workflow
from outlast.crewai import durable
from tests.adapters.crewai.running import begun_again, one_task, saying


class Turns(Flow[dict[str, Any]]):
    """Has a crew work in turns, three times."""

    crew: Any = None
    said: list[str] = []  # noqa: RUF012 - a field of the framework's

    @start()
    def begin(self) -> None:
        """Begin."""
        self.said = []

    @router(or_("begin", "again"))
    async def turn(self) -> str:
        """Have the crew work once."""
        self.said.append((await self.crew.akickoff({"n": len(self.said)})).raw)
        return "go_on" if len(self.said) < 3 else "over"

    @listen("go_on")
    def again(self) -> None:
        """Go on."""


async def _turns(crew: Any) -> list[str]:
    flow = Turns(suppress_flow_events=True)
    flow.crew = crew
    await flow.kickoff_async()
    return flow.said


PASSES: list[list[str]] = []


@workflow(loop="native")
async def in_turns(url: str) -> list[str]:
    """Have a flow do its turns."""
    PASSES.append(await _turns(durable(one_task(url, "SAY turn {n}"))))
    await outlast.approve("Go on?")
    return PASSES[-1]


def test_a_flow_that_loops_does_all_its_turns_each_time(tmp_path: Path) -> None:
    with saying(tmp_path) as stand_in:
        bare = asyncio.run(_turns(one_task(stand_in.url, "SAY turn {n}")))
        assert bare == ["turn 0 []", "turn 1 []", "turn 2 []"]
        result = asyncio.run(begun_again(f"sqlite:///{tmp_path / 'a.db'}", in_turns(stand_in.url)))
        assert len(stand_in.asked()) == 6
    assert result == bare
    assert [bare, bare] == PASSES
