"""Cancellation in a sync workflow comes where its body waits, and to the calls that it leaves behind."""

from __future__ import annotations

import asyncio

from outlast import RunCancelled, step, workflow
from outlast.sync import sleep
from tests.behaviour.flows import add, executed, step_at
from tests.behaviour.stage import Door, OpenApp, eventually, failure, has_recorded, reaches


async def test_cancellation_comes_where_the_body_waits_and_it_cleans_up(open_app: OpenApp) -> None:
    @workflow
    def flow() -> str:
        try:
            sleep(3600)
        except asyncio.CancelledError:
            executed.append("cancelled")
            raise
        finally:
            add(0, 0)
        return ""

    async with open_app() as app:
        run = await app.start(flow())
        await reaches(run, "waiting")
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
    assert [x for x in executed if x != "cancelled"] == [(0, 0)]


async def test_cancellation_reaches_a_step_in_flight(open_app: OpenApp) -> None:
    door = Door()
    wait = step_at(door, executed)

    @workflow
    def flow() -> None:
        wait().result()

    async with open_app() as app:
        run = await app.start(flow())
        await door.reached()
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
    assert executed == ["step cancelled"]


async def test_cancellation_waits_for_a_once_attempt(open_app: OpenApp) -> None:
    door = Door()

    @step(effect="once")
    async def pay() -> str:
        await door.passed()
        executed.append("paid")
        return "receipt"

    @workflow
    def flow() -> None:
        pay().result()

    async with open_app() as app:
        run = await app.start(flow())
        await door.reached()
        await run.cancel()
        await has_recorded(run, "cancel")
        door.open()
        assert isinstance(await failure(run), RunCancelled)
        assert [s.value for s in await run.steps() if s.name == "pay"] == ["receipt"]


async def test_a_body_may_swallow_the_cancellation(open_app: OpenApp) -> None:
    @workflow
    def stubborn() -> str:
        try:
            sleep(3600)
        except asyncio.CancelledError:
            return f"went on: {add(1, 2)}"
        return ""

    async with open_app() as app:
        run = await app.start(stubborn())
        await reaches(run, "waiting")
        await run.cancel()
        assert await run.result() == "went on: 3"


async def test_a_call_that_is_not_waited_for_is_given_up_at_the_end(open_app: OpenApp) -> None:
    """As a task that an async body leaves behind."""
    door, finished = Door(), Door()
    left_behind = step_at(door, executed)

    @workflow
    def resting() -> None:
        sleep(3600)

    @step(effect="once")
    async def pay() -> str:
        await finished.passed()
        executed.append("paid")
        return "receipt"

    @step
    async def begun() -> None:
        await door.reached()
        await finished.reached()

    @workflow
    def flow() -> str:
        left_behind()
        pay()
        resting()
        begun().result()
        return "ended"

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await eventually(lambda: "step cancelled" in executed)
        assert await run.status() == "running"  # the `once` attempt comes to its outcome
        finished.open()
        assert await run.result() == "ended"
        assert [s.value for s in await run.steps() if s.name == "pay"] == ["receipt"]
        for child in await app.runs(workflow="resting"):
            assert isinstance(await failure(await app.get(child.id)), RunCancelled)
    assert executed[-2:] == ["step cancelled", "paid"]
