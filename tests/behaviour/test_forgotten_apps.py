"""An App that is never closed does no harm: it says so, its threads end, and other workers get its runs."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Coroutine
from typing import Any

import pytest

from outlast import App, workflow
from tests.behaviour.flows import waiting_at
from tests.behaviour.stage import Door, Ears, OpenApp, reaches


@workflow
async def napping() -> str:
    await asyncio.sleep(0.5)
    return "woke"


def run_and_forget(forget: Coroutine[Any, Any, None]) -> None:
    """Run what leaves an App open, and wait until that has given up."""
    before = set(threading.enumerate())
    asyncio.run(forget)
    for thread in set(threading.enumerate()) - before:
        if thread.name in ("outlast-writer", "outlast-watcher"):
            thread.join()
    gc.collect()


@pytest.mark.parametrize("worker", [True, False], ids=["worker", "client"])
def test_an_app_whose_loop_was_closed_warns_and_leaves_its_runs_to_others(
    open_app: OpenApp, ears: Ears, worker: bool
) -> None:
    async def forget() -> None:
        app = await open_app(worker=worker, lease=0.3, park_after=3600).__aenter__()
        run = await app.start(napping(), id="one")
        await reaches(run, "running" if worker else "pending")

    async def go_on() -> str:
        async with open_app(on_event=ears, lease=0.3) as app:
            return await (await app.get("one")).result()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_and_forget(forget())
    told = [warning for warning in caught if "an App was left open" in str(warning.message)]
    assert [warning.category for warning in told] == [ResourceWarning]
    assert asyncio.run(go_on()) == "woke"
    assert len(ears.heard("worker.took_over", evidence="its lease ran out")) == worker


def test_a_step_that_ends_with_its_loop_has_not_failed(open_app: OpenApp, ears: Ears) -> None:
    door = Door()

    async def forget() -> None:
        app = await open_app(lease=0.3).__aenter__()
        await app.start(waiting_at(door)(), id="one")
        await door.reached()

    async def go_on() -> str:
        async with open_app(on_event=ears, lease=0.3) as app:
            return await (await app.get("one")).result()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        run_and_forget(forget())
    door.open()
    assert asyncio.run(go_on()) == "passed"
    assert not ears.heard("step.failed")


def test_an_app_that_was_closed_warns_of_nothing(url: str) -> None:
    async def use() -> None:
        async with App(url):
            pass

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(use())
        gc.collect()
