"""anyio's cancel scopes work in a body: they cancel again and again, by messages of their own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from outlast.core.errors import LostRun
from tests.support.rig import Rig, a_step

anyio = pytest.importorskip("anyio")

fetch = a_step("fetch", effect="pure")
save = a_step("save")
charge = a_step("charge", effect="once")


def test_move_on_after_moves_on() -> None:
    async def body() -> bool:
        with anyio.move_on_after(1) as scope:
            await fetch()
        return bool(scope.cancelled_caught)

    rig = Rig(body).begin()
    rig.fire()
    assert rig.result is True
    rig.must_replay()


def test_a_scope_waits_for_a_once_step_without_spinning_for_ever() -> None:
    async def body() -> bool:
        with anyio.move_on_after(1) as scope:
            await charge()
        return bool(scope.cancelled_caught)

    rig = Rig(body).begin()
    rig.intend("main/charge#1")
    rig.fire()
    assert rig.waiting == ["main/charge#1"]
    rig.finish("main/charge#1", "receipt")
    assert rig.result is True
    rig.must_replay()


def test_a_shielded_scope_cleans_up_with_steps() -> None:
    async def body() -> str:
        try:
            with anyio.fail_after(1):
                try:
                    await fetch()
                finally:
                    with anyio.CancelScope(shield=True):
                        await save()
        except TimeoutError:
            return "timed out"
        return "in time"

    rig = Rig(body).begin()
    rig.fire()
    assert rig.waiting == ["main/save#1"]
    rig.finish("main/save#1")
    assert rig.result == "timed out"
    rig.must_replay()


def test_a_task_group_cancels_its_tasks() -> None:
    seen: list[str] = []

    async def work(name: str) -> None:
        try:
            await fetch(name)
        except asyncio.CancelledError:
            seen.append(name)
            raise

    async def body() -> str:
        async with anyio.create_task_group() as group:
            for name in "ab":
                group.start_soon(work, name)
            await anyio.sleep(1)
            group.cancel_scope.cancel()
        return "done"

    rig = Rig(body).begin()
    rig.fire()
    assert rig.result == "done"
    assert sorted(seen) == ["a", "b"]
    rig.must_replay()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_of_anyio_is_refused() -> None:
    async def body() -> Any:
        return await anyio.to_thread.run_sync(lambda: 5)

    rig = Rig(body)
    told = asyncio.Event()

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        rig.engine.loop.on_trespass = lambda: loop.call_soon_threadsafe(told.set)
        rig.begin()
        await told.wait()
        rig.engine.turned()

    asyncio.run(wait())
    for thread in threading.enumerate():
        if "AnyIO" in thread.name:
            thread.join()  # its error is its own
    with pytest.raises(LostRun, match="do the work in a step"):
        _ = rig.result
