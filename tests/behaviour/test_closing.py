"""An App that is being opened or closed when its task is cancelled leaves nothing behind that keeps its runs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import outlast
from outlast import step, workflow
from tests.behaviour.flows import waiting_at
from tests.behaviour.stage import Door, OpenApp, eventually


@step
async def add_one(n: int) -> int:
    return n + 1


@workflow
async def added(n: int) -> int:
    return await add_one(n)


def ours() -> set[threading.Thread]:
    """Return the threads of Apps that are open."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("outlast")}


async def cancelled_after(turns: int, work: Any) -> None:
    """Cancel a task after so many turns of the loop."""
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("turns", range(1, 12))
async def test_a_close_that_is_cancelled_still_closes(open_app: OpenApp, turns: int) -> None:
    before = ours()
    app = open_app()
    await app.__aenter__()
    await (await app.start(added(1))).result()
    await cancelled_after(turns, app.__aexit__(None, None, None))
    await eventually(lambda: ours() <= before)
    with pytest.raises(outlast.WrongUse, match="not open"):
        await app.start(added(1))
    async with app:
        assert await (await app.start(added(2))).result() == 3


async def test_a_close_that_is_cancelled_again_and_again_is_told_so_at_its_end(open_app: OpenApp) -> None:
    before = ours()
    app = await open_app().__aenter__()
    closing = asyncio.ensure_future(app.close())
    while not closing.done():
        await asyncio.sleep(0)
        closing.cancel()
    assert closing.cancelled()
    assert ours() <= before


async def test_runs_of_a_cancelled_drain_go_on_elsewhere_at_once(open_app: OpenApp) -> None:
    """Were its lease still beaten, nobody would take them."""
    door = Door()

    app = await open_app(grace=3600.0).__aenter__()
    run = await app.start(waiting_at(door)())
    await door.reached()
    await cancelled_after(5, app.__aexit__(None, None, None))
    door.open()
    async with open_app() as other:
        assert await (await other.get(run.id)).result() == "passed"
    assert door.arrived == 2


async def test_an_app_whose_opening_is_cancelled_can_be_opened(open_app: OpenApp) -> None:
    before = ours()
    app = open_app()
    for turns in range(1, 6):
        opening = asyncio.ensure_future(app.__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        (came,) = await asyncio.gather(opening, return_exceptions=True)
        if came is app:
            await app.close()
        await eventually(lambda: ours() <= before)
    async with app:
        assert await (await app.start(added(1))).result() == 2
