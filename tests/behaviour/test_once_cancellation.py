"""Once the intent of a step is written its call is not cancelled: the attempt comes to an outcome first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast import Happened, Retry, RunCancelled, step, workflow
from tests.behaviour.stage import Door, OpenApp, failure, has_recorded, reaches, stuck

sent: list[Any] = []


class ConnectError(Exception):
    pass


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


async def test_a_cancellation_waits_for_an_attempt_in_flight_and_its_outcome_is_recorded(open_app: OpenApp) -> None:
    door, cleaned = Door(), []

    @step(effect="once")
    async def pay(cents: int) -> str:
        await door.passed()
        sent.append(cents)
        return "receipt"

    @workflow
    async def flow() -> str:
        try:
            return await pay(5)
        except asyncio.CancelledError:
            cleaned.append("cancelled")
            raise

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await door.reached()
        await run.cancel()
        await has_recorded(run, "cancel")
        assert await run.status() == "running"
        assert cleaned == []
        door.open()
        assert isinstance(await failure(run), RunCancelled)
        (record,) = [s for s in await run.steps() if s.name == "pay"]
        assert (record.state, record.value) == ("done", "receipt")
    assert (sent, cleaned) == ([5], ["cancelled"])


async def test_a_cancellation_that_waited_is_delivered_after_a_doubt_is_decided(open_app: OpenApp) -> None:
    door = Door()

    @step(effect="once")
    async def pay(cents: int) -> str:
        sent.append(cents)
        await door.passed()
        raise TimeoutError

    @step
    async def after() -> None:
        sent.append("after")

    @workflow
    async def flow() -> None:
        await pay(5)
        await after()

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await door.reached()
        await run.cancel()
        await has_recorded(run, "cancel")
        door.open()
        assert (await stuck(run)).reason == "in_doubt"
        await app.resolve("one", "pay", Happened("receipt"))
        assert isinstance(await failure(run), RunCancelled)
    assert sent == [5]


async def test_a_cancellation_that_waited_stops_a_retry(open_app: OpenApp) -> None:
    door = Door()

    @step(effect="once", retry=Retry(attempts=3, initial=0, on=ConnectError))
    async def pay(cents: int) -> None:
        sent.append(cents)
        await door.passed()
        raise ConnectError

    @workflow
    async def flow() -> None:
        await pay(5)

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await door.reached()
        await run.cancel()
        await has_recorded(run, "cancel")
        door.open()
        assert isinstance(await failure(run), RunCancelled)
    assert sent == [5]


async def test_a_timeout_in_the_body_waits_for_the_outcome_too(open_app: OpenApp) -> None:
    door = Door()

    @step(effect="once")
    async def pay(cents: int) -> str:
        await door.passed()
        sent.append(cents)
        return "receipt"

    @workflow
    async def flow() -> str:
        try:
            async with asyncio.timeout(0.02):
                return await pay(5)
        except TimeoutError:
            return "too late for me"

    async with open_app() as app:
        run = await app.start(flow())
        await door.reached()
        await has_recorded(run, "timer")
        door.open()
        assert await run.result() == "too late for me"
        assert [s.state for s in await run.steps() if s.name == "pay"] == ["done"]
    assert sent == [5]


async def test_a_body_that_ends_waits_for_the_outcome_of_what_it_left_behind(open_app: OpenApp) -> None:
    door = Door()

    @step(effect="once")
    async def pay(cents: int) -> str:
        await door.passed()
        sent.append(cents)
        return "receipt"

    @step
    async def started() -> None:
        await door.reached()

    @workflow
    async def flow() -> str:
        task = asyncio.create_task(pay(5))
        await started()
        return f"ended, {task.done()}"

    async with open_app() as app:
        run = await app.start(flow())
        await door.reached()
        await reaches(run, "running")
        door.open()
        assert await run.result() == "ended, False"
        assert [s.value for s in await run.steps() if s.name == "pay"] == ["receipt"]
    assert sent == [5]


async def test_a_call_cancelled_before_its_intent_never_starts(open_app: OpenApp) -> None:
    @step(effect="once")
    async def pay(cents: int) -> None:
        sent.append(cents)

    @workflow
    async def flow() -> str:
        task = asyncio.create_task(pay(5))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return "never"

    async with open_app() as app:
        run = await app.start(flow())
        assert await run.result() == "never"
        assert await run.steps() == []
    assert sent == []
