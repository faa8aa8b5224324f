"""A process is killed before, in and after each call of a tool; another one finishes its run."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import App, RunNotFound
from tests.adapters.mcp import desk
from tests.adapters.mcp.server import Shop, serving

KILLED = -9
DEEDS = Counter(look=2, note=2, pay=1)
CLIENT_POINTS = [
    *(f"{side} {tool} {n}" for side in ("before", "after") for tool, n in (("look", 1), ("look", 2), ("note", 1))),
    *(f"{side} pay {n}" for side in ("before", "after") for n in (1, 2)),
]
SERVER_POINTS = [("look", 1), ("look", 2), ("note", 2), ("asked", 1), ("pay", 1)]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("point", [*CLIENT_POINTS, *SERVER_POINTS], ids=str)
def test_whichever_call_a_process_dies_at_another_one_finishes(
    point: str | tuple[str, int], mode: str, tmp_path: Path
) -> None:
    with serving(tmp_path / "ledger") as shop:
        desk.set_up(tmp_path, shop.url)
        _killed_at(point, mode, shop)
        recorded = asyncio.run(_recorded())
        before = {what: len(shop.done(what)) for what in DEEDS}

        assert asyncio.run(_finish(mode)) == desk.ANSWER

        for what in DEEDS:
            again = len(shop.done(what)) - before[what]
            assert again <= DEEDS[what] - recorded[what]  # none that is recorded is done again
            assert len({deed["key"] for deed in shop.done(what)}) == DEEDS[what]  # who repeats uses the same key
        assert len(shop.done("pay")) == 1
        keys = {deed["key"] for what in (*DEEDS, "asked") for deed in shop.done(what)}
        assert len(keys) == 6  # each request has its own, and keeps it
        assert "" not in keys


def test_an_undisturbed_run_asks_people_once(tmp_path: Path) -> None:
    with serving(tmp_path / "ledger") as shop:
        desk.set_up(tmp_path, shop.url)
        assert asyncio.run(_finish("auto")) == desk.ANSWER
        assert asyncio.run(_asked()) == ["Pay 5?"]
        assert len(shop.done("asked")) == 1


def _killed_at(point: str | tuple[str, int], mode: str, shop: Shop) -> None:
    command = [sys.executable, "-m", "tests.adapters.mcp.desk", str(desk.scene.folder), shop.url, "one", mode]
    if isinstance(point, tuple):
        shop.kills = point
    child = subprocess.Popen([*command, *([point] if isinstance(point, str) else [])])
    shop.victim = child.pid
    try:
        asyncio.run(_approve_all(lambda: child.poll() is None))
        assert child.wait(60) == KILLED
    finally:
        shop.victim = 0
        child.kill()
        child.wait()


async def _approve_all(alive: Callable[[], bool]) -> None:
    async with App(desk.scene.store, worker=False) as app:
        while alive():
            await _approve(app)
            await asyncio.sleep(0.02)


async def _approve(app: App) -> None:
    for waiting in await app.approvals():
        await app.approve(waiting.id, by="ada", form={"sure": True, "limit": 7})


async def _finish(mode: str) -> list[str]:
    async with App(desk.scene.store, park_after=0.2) as app:
        run = await app.start(desk.desk(mode), id="one")
        answering = asyncio.create_task(_approve_while_running(app))
        try:
            return await run.result(timeout=60)
        finally:
            answering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await answering


async def _approve_while_running(app: App) -> None:
    while True:
        await _approve(app)
        await asyncio.sleep(0.02)


async def _asked() -> list[str]:
    async with App(desk.scene.store, worker=False) as app:
        return [approval.question for approval in await app.approvals(status=None)]


async def _recorded() -> Counter[str]:
    """Return how many steps of each name have an outcome that is a result."""
    async with App(desk.scene.store, worker=False) as app:
        try:
            steps = await (await app.get("one")).steps()
        except RunNotFound:
            return Counter()
    return Counter(step.name for step in steps if step.state == "done" and "content" in (step.value or {}))
