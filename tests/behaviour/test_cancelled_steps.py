"""A step that is cancelled sees CancelledError where it waits, cleans up, and its run has ended when it has."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast
from outlast import App, Run, RunCancelled, step, workflow
from tests.behaviour.flows import executed, step_at
from tests.behaviour.stage import Door, OpenApp, Signal, failure, has_recorded


async def wait_for_a_door(door: Door) -> None:
    await door.passed()


async def yield_for_ever(door: Door) -> None:
    door.open()
    await door.passed()
    while True:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def wait_for_others(door: Door) -> None:
    door_of_others = Door()
    door.open()
    await door.passed()
    async with asyncio.TaskGroup() as group:
        group.create_task(door_of_others.passed())
        group.create_task(asyncio.to_thread(lambda: None))


async def cancelled_within(work: Any, door: Door, app: App) -> Run[Any]:
    """Return a run that was cancelled when its one step had come to the door, and has ended."""

    @workflow
    async def flow() -> None:
        await work()

    run = await app.start(flow())
    await door.reached()
    await run.cancel()
    assert isinstance(await failure(run), RunCancelled)
    return run


@pytest.mark.parametrize("waiting", [wait_for_a_door, yield_for_ever, wait_for_others])
async def test_it_cleans_up_before_its_run_has_ended(open_app: OpenApp, waiting: Any) -> None:
    door = Door()
    seen: list[str] = []

    @step
    async def work() -> None:
        try:
            await waiting(door)
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0.01)
            seen.append("cleaned up")
            raise
        finally:
            seen.append("finally")

    async with open_app() as app:
        run = await cancelled_within(work, door, app)
        assert seen == ["cancelled", "cleaned up", "finally"]
        assert await run.status() == "cancelled"
        assert [shown.kind for shown in await run.steps()] == ["cancel"]


async def test_a_thread_that_asks_learns_of_it_by_its_heartbeat(open_app: OpenApp) -> None:
    seen: list[str] = []
    signal = Signal()

    @step
    def work() -> None:
        signal.change(lambda: seen.append("begun"))
        try:
            while True:
                outlast.heartbeat()
        except asyncio.CancelledError:
            signal.change(lambda: seen.append("cancelled"))
            raise

    @workflow
    async def flow() -> None:
        await work.call()

    async with open_app() as app:
        run = await app.start(flow())
        await signal.until(lambda: "begun" in seen)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
        await signal.until(lambda: "cancelled" in seen)
        assert await run.status() == "cancelled"


async def test_what_it_raises_instead_does_not_make_a_failure_of_the_cancellation(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def work() -> None:
        try:
            await door.passed()
        finally:
            raise ConnectionError("while it cleaned up")

    async with open_app() as app:
        run = await cancelled_within(work, door, app)
        assert await run.status() == "cancelled"


async def test_a_task_cancelled_by_the_body_gives_its_step_up(open_app: OpenApp) -> None:
    door = Door()
    wait = step_at(door, executed)

    @step
    async def begun() -> None:
        await door.reached()

    @workflow
    async def flow() -> str:
        task = asyncio.create_task(wait())
        await begun()
        task.cancel("not needed")
        try:
            await task
        except asyncio.CancelledError as cancelled:
            return f"went on, {cancelled}"
        return ""

    async with open_app() as app:
        run = await app.start(flow())
        assert "went on" in await run.result()
        assert await run.status() == "succeeded"
    assert executed == ["step cancelled"]


async def test_a_step_that_ignores_its_cancellation_holds_up_the_end(open_app: OpenApp) -> None:
    door = Door()
    seen: list[str] = []

    @step
    async def stubborn() -> str:
        while True:
            try:
                await door.passed()
            except asyncio.CancelledError:
                continue
            seen.append("ended")
            return "late"

    @workflow
    async def flow() -> str:
        return await stubborn()

    async with open_app() as app:
        run = await app.start(flow())
        await door.reached()
        await run.cancel()
        await has_recorded(run, "cancel")
        await door.reached(2)
        assert await run.status() == "running"
        door.open()
        assert isinstance(await failure(run), RunCancelled)
        assert [(s.state, s.value) for s in await run.steps() if s.name == "stubborn"] == [("late", "late")]
    assert seen == ["ended"]
