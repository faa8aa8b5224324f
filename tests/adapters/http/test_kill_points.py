"""A process is killed before, in and after each call of a model and of a tool; another one finishes its run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from outlast import App, Run, RunNotFound, StreamItem, StreamReset
from tests.adapters.http import desk
from tests.adapters.stand_in import StandIn, serving

POINTS = {"whole": 20, "streamed": 20}
"""How many points a run passes that nobody disturbs."""
TOOLS = Counter(weather=2, look_up=1, pay=1)
MODELS = 4
KILLED = -9
SECRET = b"a secret"


@dataclass
class Undisturbed:
    """What a run leaves behind that nobody disturbs."""

    points: int
    answer: str
    conversations: set[str]
    events: list[Any]


@pytest.fixture(scope="module", params=POINTS)
def kind(request: pytest.FixtureRequest) -> str:
    """Whether answers are streamed."""
    return str(request.param)


@pytest.fixture(scope="module")
def undisturbed(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """A run of this kind that nobody disturbs."""
    folder = tmp_path_factory.mktemp(kind)
    with serving(desk.says, folder / "asked") as stand_in:
        scene = desk.set_up(folder, stand_in.url)
        answer, events = asyncio.run(_finish(kind))
        return Undisturbed(len(scene.done("point")), answer, _conversations(stand_in), events)


def test_an_undisturbed_run_passes_all_points(kind: str, undisturbed: Undisturbed) -> None:
    assert undisturbed.answer == desk.ANSWER
    assert undisturbed.points == POINTS[kind]
    assert len(undisturbed.conversations) == MODELS
    assert bool(undisturbed.events) == (kind == "streamed")


@pytest.mark.parametrize("number", range(max(POINTS.values())))
def test_whichever_point_a_process_dies_at_another_one_finishes(
    kind: str, number: int, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    with serving(desk.says, tmp_path / "asked") as stand_in:
        scene = desk.set_up(tmp_path, stand_in.url)
        _killed_at(number, kind, stand_in)
        recorded = asyncio.run(_recorded())
        before = Counter(line["what"] for line in scene.lines())
        asked = len(stand_in.asked())

        answer, events = asyncio.run(_finish(kind))

        assert answer == desk.ANSWER
        assert len(stand_in.asked()) - asked == MODELS - recorded["http_127_0_0_1"]  # none that is recorded again
        assert _conversations(stand_in) == undisturbed.conversations  # what a model is told is the same
        assert _sorted(events) == _sorted(undisturbed.events)  # who reads the stream has each event once
    done = Counter(line["what"] for line in scene.lines())
    for tool in TOOLS:
        assert done[tool] - before[tool] <= TOOLS[tool] - recorded[tool]
        assert len({line["key"] for line in scene.done(tool)}) == TOOLS[tool]  # who repeats uses the same key
    assert done["pay"] == 1
    assert SECRET not in b"".join(path.read_bytes() for path in tmp_path.glob("runs.db*") if path.is_file())


def _killed_at(number: int, kind: str, stand_in: StandIn) -> None:
    """Run the desk in a process that dies at a point. Those behind the approval need somebody who answers."""
    command = [sys.executable, "-m", "tests.adapters.http.desk"]
    child = subprocess.Popen([*command, str(desk.scene.folder), stand_in.url, "desk-1", kind, str(number)])
    try:
        asyncio.run(_approve_all(lambda: child.poll() is None))
        assert child.wait(60) == KILLED
    finally:
        child.kill()
        child.wait()


async def _approve_all(alive: Callable[[], bool]) -> None:
    """Say yes to whatever is asked, as long as there is somebody who asks."""
    async with App(desk.scene.store, worker=False) as app:
        while alive():
            await _approve(app)
            await asyncio.sleep(0.02)


async def _approve(app: App) -> None:
    for waiting in await app.approvals():
        await app.approve(waiting.id, by="ada")


async def _finish(kind: str) -> tuple[str, list[Any]]:
    """Bring the run to its end; return its result, and what somebody has of its stream who reads from the beginning."""
    async with App(desk.scene.store) as app:
        run = await app.start(desk.desk("help", kind == "streamed"), id="desk-1")
        answering = asyncio.create_task(_approve_while_running(app))
        try:
            return await run.result(timeout=60), await _read(run)
        finally:
            answering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await answering


async def _approve_while_running(app: App) -> None:
    while True:
        await _approve(app)
        await asyncio.sleep(0.02)


async def _read(run: Run[Any]) -> list[Any]:
    items: list[StreamItem[Any]] = []
    async for item in run.stream("events"):
        if isinstance(item, StreamReset):
            items = [kept for kept in items if kept.position <= item.position]
        else:
            items.append(item)
    return [item.value for item in items]


async def _recorded() -> Counter[str]:
    """Return how many steps of each name have an outcome."""
    async with App(desk.scene.store, worker=False) as app:
        try:
            steps = await (await app.get("desk-1")).steps()
        except RunNotFound:
            return Counter()
    return Counter(step.name for step in steps if step.state == "done")


def _conversations(stand_in: StandIn) -> set[str]:
    return {json.dumps(body, sort_keys=True) for body in stand_in.asked()}


def _sorted(events: list[Any]) -> list[str]:
    return sorted(json.dumps(event, sort_keys=True) for event in events)
