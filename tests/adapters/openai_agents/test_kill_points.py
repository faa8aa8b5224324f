"""A process is killed before, in and after each call of a model and of a tool; another one finishes its run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession

from outlast import App, Run
from tests.adapters.openai_agents import desk
from tests.adapters.openai_agents.scenes import processes
from tests.adapters.stand_in import StandIn, serving

POINTS = {"whole": 30, "streamed": 33}
"""How many points a run passes that nobody disturbs."""

TOOLS = Counter(weather=2, look_up=1, pay=1, notify=1)
MODELS = 5
TOOL_STEPS = ("weather", "look_up", "pay", "notify")


@dataclass
class Undisturbed:
    """What a run leaves behind that nobody disturbs."""

    points: int
    answer: str
    conversations: set[str]
    session: list[Any]


@pytest.fixture(scope="module")
def kind(request: pytest.FixtureRequest) -> str:
    """Whether answers are streamed."""
    return str(request.param)


@pytest.fixture(scope="module")
def undisturbed(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """A run of this kind that nobody disturbs."""
    folder = tmp_path_factory.mktemp(kind)
    with serving(desk.says, folder / "asked") as stand_in:
        scene = desk.set_up(folder, stand_in.url)
        answer = asyncio.run(_finish(kind))
        session = asyncio.run(_session(folder))
        return Undisturbed(len(scene.done("point")), answer, _conversations(stand_in), session)


@pytest.mark.parametrize("kind", POINTS, indirect=True)
def test_an_undisturbed_run_passes_all_points(kind: str, undisturbed: Undisturbed) -> None:
    assert undisturbed.answer == desk.ANSWER
    assert undisturbed.points == POINTS[kind]
    assert len(undisturbed.conversations) == MODELS
    assert len(undisturbed.session) == 14


@pytest.mark.parametrize(
    ("kind", "number"), [(kind, n) for kind, most in POINTS.items() for n in range(most)], indirect=["kind"]
)
def test_whichever_point_a_process_dies_at_another_one_finishes(
    kind: str, number: int, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    with serving(desk.says, tmp_path / "asked") as stand_in:
        scene = desk.set_up(tmp_path, stand_in.url)
        _killed_at(number, kind, stand_in)
        recorded = asyncio.run(_recorded())
        before = Counter(line["what"] for line in scene.lines())
        asked = len(stand_in.asked())

        assert asyncio.run(_finish(kind)) == desk.ANSWER

        assert len(stand_in.asked()) - asked == MODELS - recorded["model"]  # none that was recorded is asked again
        assert _conversations(stand_in) == undisturbed.conversations  # what a model is told is the same
    done = Counter(line["what"] for line in scene.lines())
    for tool in TOOL_STEPS:
        assert done[tool] - before[tool] <= TOOLS[tool] - recorded[tool]
        assert len({line["key"] for line in scene.done(tool)}) == TOOLS[tool]  # who repeats uses the same key
    assert done["pay"] == 1
    assert asyncio.run(_session(tmp_path)) == undisturbed.session


def _killed_at(number: int, kind: str, stand_in: StandIn) -> None:
    """Run the desk in a process that dies at a point. Those behind the approvals need somebody who answers."""
    work = (desk.scene.folder, stand_in.url, kind == "streamed", number)
    child = processes.Process(target=desk.work_until_killed, args=work)
    child.start()
    try:
        asyncio.run(_approve_all(child.is_alive))
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
    finally:
        child.kill()


async def _approve_all(alive: Any) -> None:
    """Say yes to whatever is asked, as long as there is somebody who asks."""
    async with App(desk.scene.store, worker=False) as app:
        while alive():
            await _approve(app)
            await asyncio.sleep(0.02)


async def _approve(app: App) -> None:
    for waiting in await app.approvals():
        await app.approve(waiting.id, by="ada")


async def _finish(kind: str) -> str:
    assert desk.scene.client is not None
    async with desk.scene.client, App(desk.scene.store) as app:
        run = await app.start(desk.desk("help", kind == "streamed"), id=desk.RUN)
        answering = asyncio.create_task(_approve_while_running(app, run))
        try:
            return await run.result(timeout=60)
        finally:
            answering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await answering


async def _approve_while_running(app: App, run: Run[Any]) -> None:
    while True:
        await _approve(app)
        await asyncio.sleep(0.02)


async def _recorded() -> Counter[str]:
    """Return how many steps of each name have an outcome."""
    async with App(desk.scene.store, worker=False) as app:
        steps = await (await app.get(desk.RUN)).steps()  # no point comes before the run is started
    return Counter(step.name for step in steps if step.state == "done")


async def _session(folder: Path) -> list[Any]:
    session = SQLiteSession("desk", folder / "sessions.db")
    try:
        return list(await session.get_items())
    finally:
        session.close()


def _conversations(stand_in: StandIn) -> set[str]:
    return {json.dumps(body, sort_keys=True) for body in stand_in.asked()}
