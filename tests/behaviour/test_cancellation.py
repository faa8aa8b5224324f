"""Cancelling a run, from anywhere and in any state: its body and its steps are told, and then it ends."""

from __future__ import annotations

import asyncio

import pytest

import outlast
from outlast import RunCancelled, RunEnded, step, workflow
from tests.behaviour.flows import executed, note, sleeping, waiting_at
from tests.behaviour.stage import Door, Ears, OpenApp, failure, reaches, stuck


async def test_a_run_that_nobody_has_begun_ends_at_once(open_app: OpenApp) -> None:
    async with open_app(worker=False) as client:
        run = await client.start(sleeping())
        await run.cancel()
        assert await run.status() == "cancelled"
        async with open_app():
            assert isinstance(await failure(run), RunCancelled)
    assert executed == []


async def test_a_running_run_ends_and_its_step_is_cancelled(open_app: OpenApp) -> None:
    door = Door()
    async with open_app() as app:
        run = await app.start(waiting_at(door, executed)(), id="one")
        await door.reached()
        await run.cancel()
        back = await failure(run)
        assert isinstance(back, RunCancelled)
        assert await run.status() == "cancelled"
        assert (await run.info()).error == "RunCancelled: run one was cancelled"
    assert executed == ["step cancelled"]


async def test_cancellation_is_no_outcome_of_the_step_that_was_waiting(open_app: OpenApp) -> None:
    door = Door()
    async with open_app() as app:
        run = await app.start(waiting_at(door, executed)(), id="one")
        await door.reached()
        await run.cancel()
        await failure(run)
        assert [s.kind for s in await run.steps()] == ["cancel"]


async def test_a_sleeping_run_is_woken_and_cleans_up(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(sleeping())
        await reaches(run, "waiting")
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        assert [s.id for s in await run.steps() if s.kind == "step"] == ["main/note#1"]
    assert executed == ["cleaned up"]


async def test_a_sleeping_run_is_cancelled_from_another_process(open_app: OpenApp) -> None:
    async with open_app(worker=False) as client, open_app() as app:
        run = await app.start(sleeping(), id="one")
        await reaches(run, "waiting")
        await client.cancel("one")
        assert isinstance(await failure(await client.get("one")), RunCancelled)
    assert executed == ["cleaned up"]


async def test_a_running_run_is_cancelled_from_another_process(open_app: OpenApp) -> None:
    door = Door()
    async with open_app(worker=False) as client, open_app() as app:
        await app.start(waiting_at(door, executed)(), id="one")
        await door.reached()
        await client.cancel("one")
        assert isinstance(await failure(await client.get("one")), RunCancelled)
    assert executed == ["step cancelled"]


async def test_a_run_cancelled_while_no_worker_lives_ends_when_one_comes(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(sleeping(), id="one")
        await reaches(run, "waiting")
    async with open_app(worker=False) as client:
        await client.cancel("one")
        assert await (await client.get("one")).status() == "waiting"
        async with open_app():
            assert isinstance(await failure(await client.get("one")), RunCancelled)
    assert executed == ["cleaned up"]


async def test_cancelling_twice_changes_nothing(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def slow_cleaning() -> None:
        executed.append("begun")
        await door.passed()
        executed.append("ended")

    @workflow
    async def flow() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await slow_cleaning()

    async with open_app() as app:
        run = await app.start(flow())
        await run.cancel()
        await door.reached()
        await run.cancel()
        await run.cancel()
        await note.fn("between")
        door.open()
        assert isinstance(await failure(run), RunCancelled)
        await run.cancel()  # it has ended so already
        assert await run.status() == "cancelled"
        assert len([s for s in await run.steps() if s.kind == "cancel"]) == 1
    assert executed == ["begun", "between", "ended"]


async def test_a_run_that_has_ended_otherwise_cannot_be_cancelled(open_app: OpenApp) -> None:
    @workflow
    async def failing() -> None:
        raise ValueError

    async with open_app() as app:
        succeeded = await app.start(sleeping(0), id="s")
        await succeeded.result()
        failed = await app.start(failing(), id="f")
        await failure(failed)
        for run, status in ((succeeded, "succeeded"), (failed, "failed")):
            with pytest.raises(RunEnded, match=f"cannot be cancelled: run '{run.id}' has {status}"):
                await run.cancel()
            assert await run.status() == status


async def test_a_cancelled_timer_is_withdrawn_and_wakes_nobody(open_app: OpenApp, ears: Ears) -> None:
    @workflow
    async def flow() -> str:
        timer = asyncio.create_task(asyncio.sleep(0.05))
        await asyncio.sleep(0)
        timer.cancel()
        await asyncio.wait([timer])
        await asyncio.sleep(3600)
        return ""

    async with open_app(on_event=ears, park_after=0) as app:
        run = await app.start(flow(), id="one")
        parked = await ears.hear("run.parked", run="one")
        assert parked.data["due"] > (await run.info()).created + 3000
        assert await run.steps() == []


async def test_a_cancellation_asked_for_while_a_run_gets_stuck_is_kept(open_app: OpenApp) -> None:
    door = Door()

    @step(effect="once")
    async def pay() -> None:
        raise TimeoutError

    @step
    async def beside() -> None:
        await door.passed()

    @workflow
    async def flow() -> None:
        await asyncio.gather(pay(), beside())
        await note("after")

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await door.reached()
        await run.cancel()
        door.open()
        assert (await stuck(run)).reason == "in_doubt"
        await app.resolve("one", "pay", outlast.Happened(None))
        assert isinstance(await failure(run), RunCancelled)
    assert executed == []
