"""The deadline of a run cancels its body once, whoever has the run by then, and the run fails with RunTimeout."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

import outlast
from outlast import RunTimeout, WrongUse, step, workflow
from tests.behaviour.stage import Door, OpenApp, eventually, failed_with, reaches

LATER = 3600.0


@step(effect="pure")
async def tidy(what: str) -> str:
    return f"tidied {what}"


@workflow
async def sleeper() -> str:
    try:
        await asyncio.sleep(LATER)
    except asyncio.CancelledError:
        await tidy("up")
        raise
    return "woke"


@workflow
async def tidying(what: str) -> str:
    return await tidy(what)


@workflow
async def stubborn() -> str:
    try:
        await asyncio.sleep(LATER)
    except asyncio.CancelledError:
        return await tidy("and done")
    return "woke"


@workflow
def sync_sleeper() -> str:
    outlast.sync.sleep(LATER)
    return "woke"


@workflow
async def parent() -> str:
    try:
        return await sleeper.options(timeout=0.2)()
    except RunTimeout as late:
        return f"child: {type(late).__name__}, {isinstance(late, TimeoutError)}"


async def test_it_cancels_the_body_which_cleans_up_and_the_run_fails(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(sleeper(), id="r", deadline=0.1)
        error = await failed_with(run, RunTimeout)
        info = await run.info()
        assert info.status == "failed"
        assert info.ended is not None
        assert info.deadline is not None
        assert info.ended >= info.deadline
        assert isinstance(error, TimeoutError)
        assert error.deadline == dt.datetime.fromtimestamp(info.deadline, dt.UTC)
        assert "run r (sleeper) had not ended by its deadline" in str(error)
        assert [(s.kind, s.name) for s in await run.steps()] == [("cancel", "deadline"), ("step", "tidy")]


async def test_it_is_a_moment_or_seconds_from_the_start(open_app: OpenApp) -> None:
    async with open_app() as app:
        moment = outlast.now() + dt.timedelta(hours=1)
        by_moment = await app.start(sleeper(), deadline=moment)
        assert (await by_moment.info()).deadline == pytest.approx(moment.timestamp(), abs=1e-3)
        for run in (
            await app.start(sleeper(), deadline=LATER),
            await app.start(sleeper.options(timeout=LATER)()),
            await app.start(sleeper.options(timeout=LATER)(), deadline=2 * LATER),
        ):
            info = await run.info()
            assert (info.deadline or 0) - info.created == pytest.approx(LATER, abs=1.0)


@pytest.mark.parametrize(
    "bad", [dt.datetime.fromisoformat("2030-01-01T00:00"), 0, -1.0, float("nan"), float("inf"), "soon", True]
)
async def test_a_deadline_that_makes_no_sense_is_refused(open_app: OpenApp, bad: object) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse):
            await app.start(sleeper(), deadline=bad)  # type: ignore[arg-type]
        assert await app.runs() == []
    with pytest.raises(WrongUse, match="timeout=0"):
        sleeper.options(timeout=0)


async def test_the_year_9999_is_no_wait_that_overflows(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(sleeper(), deadline=dt.datetime.max.replace(tzinfo=dt.UTC))
        await reaches(run, "waiting")


async def test_a_parked_run_wakes_at_its_deadline(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(sleeper(), deadline=0.3)
        await reaches(run, "waiting")
        info = await run.info()
        assert (info.due, info.detail) == (info.deadline, "timer main/timer#1; its deadline")
        await failed_with(run, RunTimeout)


async def test_it_holds_across_a_restart(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(sleeper(), id="r", deadline=0.4)
        before = await run.info()
    async with open_app() as app:
        run = await app.get("r")
        await failed_with(run, RunTimeout)
        assert (await run.info()).deadline == before.deadline


async def test_one_that_passed_while_nobody_was_there_fires_at_once(open_app: OpenApp) -> None:
    async with open_app() as app:
        await app.start(sleeper(), id="r", deadline=0.05)
        await app.drain()
    await asyncio.sleep(0.1)
    async with open_app() as app:
        await failed_with(await app.get("r"), RunTimeout)


async def test_a_run_that_ends_in_time_is_not_touched(open_app: OpenApp) -> None:
    @workflow
    async def quick() -> str:
        return await tidy("quickly")

    async with open_app() as app:
        assert await (await app.start(quick(), deadline=LATER)).result() == "tidied quickly"


async def test_a_body_that_returns_all_the_same_has_succeeded(open_app: OpenApp) -> None:
    async with open_app() as app:
        assert await (await app.start(stubborn(), deadline=0.1)).result() == "tidied and done"


async def test_a_sync_workflow_is_cancelled_too(open_app: OpenApp) -> None:
    async with open_app() as app:
        await failed_with(await app.start(sync_sleeper(), deadline=0.1), RunTimeout)


async def test_a_run_that_is_cancelled_first_ends_as_cancelled(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def clean_up() -> None:
        await door.passed()

    @workflow
    async def slow_to_end() -> None:
        try:
            await asyncio.sleep(LATER)
        finally:
            await clean_up()

    async with open_app() as app:
        run = await app.start(slow_to_end(), deadline=0.3)
        await run.cancel()
        await door.reached()
        await asyncio.sleep(0.35)  # its deadline passes while it cleans up
        door.open()
        await reaches(run, "cancelled")


async def test_a_once_attempt_comes_to_its_outcome_first(open_app: OpenApp) -> None:
    door = Door()

    @step(effect="once")
    async def pay() -> str:
        await door.passed()
        return "paid"

    @workflow
    async def paying() -> str:
        return await pay()

    async with open_app() as app:
        run = await app.start(paying(), deadline=0.1)
        await door.reached()
        await eventually(lambda: _has(run, "cancel"))
        door.open()
        await failed_with(run, RunTimeout)
        assert {(s.kind, s.state, s.value) for s in await run.steps()} == {
            ("cancel", "done", None),
            ("step", "done", "paid"),
        }


async def _has(run: outlast.Run[object], kind: str) -> bool:
    return any(s.kind == kind for s in await run.steps())


async def test_the_parent_of_a_late_child_gets_its_error(open_app: OpenApp) -> None:
    async with open_app() as app:
        assert await (await app.start(parent())).result() == "child: RunTimeout, True"


async def test_a_child_ends_with_its_parent_at_the_parents_deadline(open_app: OpenApp) -> None:
    @workflow
    async def waits() -> str:
        return await sleeper.options(timeout=LATER)()

    async with open_app() as app:
        await failed_with(await app.start(waits(), deadline=0.2), RunTimeout)
        (child,) = await app.runs(workflow="sleeper")
        await reaches(await app.get(child.id), "cancelled")


async def test_a_child_that_no_worker_begins_by_its_deadline_fails_and_its_parent_hears_it(open_app: OpenApp) -> None:
    """Nobody is free to run the child, so nobody could cancel it either."""
    async with open_app(worker_concurrency=1, park_after=60.0) as app:
        run = await app.start(parent())
        assert await run.result() == "child: RunTimeout, True"
        (child,) = await app.runs(workflow="sleeper")
        assert child.started is None
        assert "had not begun by its deadline" in child.error
        assert "(no worker was free for it)" in child.error


@pytest.mark.parametrize("options", [{}, {"delay": LATER}], ids=["due", "put off"])
async def test_whoever_waits_is_told_of_a_deadline_though_no_worker_is_alive(
    open_app: OpenApp, options: dict[str, float]
) -> None:
    async with open_app(worker=False) as client:
        run = await client.start(sleeper.options(**options)(), deadline=0.1)
        await failed_with(run, RunTimeout)
        info = await run.info()
        assert (info.status, info.started) == ("failed", None)
        assert ("it was put off until" if options else "no worker is alive") in info.error


alone = outlast.queue("alone", concurrency=1)
waits_on_a_queue = sleeper.options(queue=alone, timeout=0.3)
tidied_on_a_queue = tidying.options(queue=alone)


async def test_a_run_that_its_queue_kept_until_its_deadline_says_so(open_app: OpenApp) -> None:
    async with open_app(park_after=60) as app:
        first = await app.start(sleeper.options(queue=alone)())
        await reaches(first, "running")
        late = await failed_with(await app.start(waits_on_a_queue()), RunTimeout)
        assert "had not begun by its deadline" in str(late)
        assert "(queue alone is at its limit of 1); start it again" in str(late)
        await app.pause_queue("alone", by="ada")
        late = await failed_with(await app.start(waits_on_a_queue()), RunTimeout)
        assert "(queue alone is paused by ada)" in str(late)
        await first.cancel()


async def test_who_waits_for_a_run_on_a_paused_queue_is_told_what_it_waits_for(open_app: OpenApp) -> None:
    async with open_app() as app:
        await (await app.start(tidied_on_a_queue("up"))).result()
        await app.pause_queue("alone", by="ada")
        run = await app.start(tidied_on_a_queue("down"))
        with pytest.raises(TimeoutError, match=r"it is pending, and queue alone is paused by ada$"):
            await run.result(0.05)
        await app.hold(run.id)
        with pytest.raises(TimeoutError, match=rf"and it is held back, until: outlast release {run.id}$"):
            await run.result(0.05)


async def test_resuming_a_run_that_its_deadline_ended_lifts_the_deadline(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(sleeper(), deadline=0.1)
        await failed_with(run, RunTimeout)
        await app.resume(run.id)
        await reaches(run, "waiting")
        assert (await run.info()).deadline is None
        assert await run.steps() == []


async def test_what_the_clean_up_did_to_the_world_stands_against_resuming(open_app: OpenApp) -> None:
    @step
    async def refund() -> None: ...

    @workflow
    async def careful() -> None:
        try:
            await asyncio.sleep(LATER)
        finally:
            await refund()

    async with open_app() as app:
        run = await app.start(careful(), deadline=0.1)
        await failed_with(run, RunTimeout)
        with pytest.raises(outlast.NotResumable, match="came to its deadline, and cleanup step main/refund#1"):
            await app.resume(run.id)


async def test_an_existing_run_keeps_its_deadline(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(sleeper(), id="r", deadline=LATER)
        again = await app.start(sleeper(), id="r", deadline=2 * LATER)
        assert (await again.info()).deadline == (await run.info()).deadline
