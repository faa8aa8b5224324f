"""Schedules start runs: each slot once across the fleet, and what was missed by the schedule's own rule."""

from __future__ import annotations

import asyncio
import datetime as dt
from itertools import pairwise
from typing import Any

import pytest

import outlast
from outlast import App, RunConflict, Schedule, ScheduleInfo, ScheduleNotFound, WrongUse, step, workflow
from outlast.runtime.declared import DECLARED, row_of_schedule
from outlast.runtime.slots import spec_of
from outlast.stores.time_verbs import PutSchedule
from tests.behaviour.scheduled import has_started, runs_of
from tests.behaviour.stage import Ears, OpenApp, eventually

DAY = 24 * 3600.0
MINUTE = 60.0


@workflow
async def report(what: str) -> str:
    return what


@step
async def count(what: str) -> str:
    return what


async def missed_by(app: App, name: str, late: float, call: outlast.Call[Any], **settings: Any) -> Schedule:
    """Put a schedule of each minute whose last slot was used up so long ago, on whatever clock the store has."""
    given = {"catch_up": "one", "catch_up_limit": 100, "grace": 5.0, "overlap": "skip"} | settings
    rule = (given["catch_up"], given["catch_up_limit"], given["grace"], given["overlap"])
    now = app.store.now()
    row = row_of_schedule(name, call, spec_of(None, MINUTE, "UTC", *rule), app.codec, now - late)
    await app.ask(PutSchedule(schedule=row))
    return await app.get_schedule(name)


async def settled(schedule: Schedule) -> ScheduleInfo:
    """Return what is said of a schedule once the slots that had come are used up."""

    async def there() -> bool:
        upcoming = (await schedule.info()).next
        return upcoming is not None and upcoming > outlast.now()

    await eventually(there)
    return await schedule.info()


# -- slots ------------------------------------------------------------------------------


async def test_a_run_is_started_for_each_slot(open_app: OpenApp) -> None:
    async with open_app() as app:
        schedule = await app.schedule("s", report("hello"), every=0.2)
        await has_started(app, "s", 3)
        await schedule.pause()
        first, *_ = await runs_of(app, "s")
        assert await (await app.get(first.id)).result() == "hello"
        info = await schedule.info()
        assert (info.workflow, info.every, info.missed, info.paused, info.next) == ("report", 0.2, 0, True, None)
        assert info.started == len(await runs_of(app, "s"))


async def test_a_run_bears_the_name_of_its_slot_and_is_not_early(open_app: OpenApp) -> None:
    async with open_app() as app:
        await app.schedule("s", count.call("steps, too"), cron="* * * * * *")
        await has_started(app, "s", 2)
        for info in await runs_of(app, "s"):
            slot = dt.datetime.fromisoformat(info.id.removeprefix("s@"))
            assert slot.microsecond == 0
            assert 0 <= info.created - slot.timestamp() < 3


async def test_of_several_workers_one_starts_each_slot(open_app: OpenApp) -> None:
    async with open_app() as app, open_app(), open_app():
        for n in range(3):
            await app.schedule(f"s{n}", report("x"), every=0.2, overlap="allow")
        for n in range(3):
            await has_started(app, f"s{n}", 5)
        for schedule in await app.schedules():
            await schedule.pause()
        for schedule in await app.schedules():
            info = await schedule.info()
            found = [dt.datetime.fromisoformat(run.id.partition("@")[2]) for run in await runs_of(app, info.name)]
            gaps = {round((b - a).total_seconds(), 1) for a, b in pairwise(found)}
            assert gaps == {0.2}
            assert (info.started, info.missed, info.skipped) == (len(found), 0, 0)


async def test_a_worker_starts_only_what_it_has_the_code_of(open_app: OpenApp) -> None:
    """In a rolling deploy a slot's run is not made for a version that nobody serves."""
    async with open_app() as app:
        row = row_of_schedule("s", report("x"), spec_of(None, 0.2, "UTC", "one", 100, 60.0, "skip"), app.codec, 0.0)
        row.workflow = "renamed_since"
        await app.ask(PutSchedule(schedule=row))
        await app.schedule("known", report("x"), every=0.1)
        await has_started(app, "known", 3)
        assert await runs_of(app, "s") == []


# -- declaring --------------------------------------------------------------------------


async def test_the_same_again_changes_nothing_and_another_takes_its_place(open_app: OpenApp) -> None:
    async with open_app() as app:
        schedule = await app.schedule("s", report("a"), every=DAY)
        before = await schedule.info()
        await app.schedule("s", report("a"), every=DAY)
        assert await schedule.info() == before
        await app.schedule("s", report("b"), cron="0 3 * * *", timezone="Europe/Berlin")
        info = await schedule.info()
        assert (info.every, info.cron, info.timezone) == (None, "0 3 * * *", "Europe/Berlin")
        assert [s.name for s in await app.schedules()] == ["s"]


async def test_code_declares_a_schedule_and_a_worker_puts_it(open_app: OpenApp) -> None:
    @outlast.schedule(every=0.2, name="declared here")
    @workflow
    async def declared() -> str:
        return "x"

    try:
        async with open_app() as app:
            await has_started(app, "declared here", 2)
    finally:
        DECLARED.pop()


async def test_what_cannot_be_declared_is_refused() -> None:
    with pytest.raises(WrongUse, match="starts its workflow without arguments"):
        outlast.schedule(every=1)(report)  # type: ignore[type-var]
    with pytest.raises(WrongUse, match=r"above @outlast\.workflow"):
        outlast.schedule(every=1)(lambda: None)  # type: ignore[type-var]
    with pytest.raises(WrongUse, match="cron= or every="):
        outlast.schedule()


@pytest.mark.parametrize("name", ["", " x", "x" * 201])
async def test_a_name_that_cannot_be_one_is_refused(open_app: OpenApp, name: str) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse):
            await app.schedule(name, report("x"), every=DAY)
        assert await app.schedules() == []


async def test_a_call_with_a_timeout_is_refused(open_app: OpenApp) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse, match="its runs have no timeout="):
            await app.schedule("s", report.options(timeout=5)("x"), every=DAY)


# -- what was missed ----------------------------------------------------------------------


async def test_skip_counts_what_was_missed(open_app: OpenApp) -> None:
    async with open_app() as app:
        schedule = await missed_by(app, "s", 10 * MINUTE + 30, report("x"), catch_up="skip")
        info = await settled(schedule)
        assert (info.missed, info.started) == (10, 0)


async def test_one_run_makes_up_for_all(open_app: OpenApp) -> None:
    async with open_app() as app:
        schedule = await missed_by(app, "s", 10 * MINUTE + 30, report("x"), catch_up="one")
        info = await settled(schedule)
        assert (info.missed, info.started) == (9, 1)


async def test_all_are_made_up_for_one_after_another_up_to_a_cap(open_app: OpenApp) -> None:
    async with open_app() as app:
        schedule = await missed_by(app, "s", 10 * MINUTE + 30, report("x"), catch_up="all", catch_up_limit=4)
        await has_started(app, "s", 4)
        info = await schedule.info()
        assert (info.missed, info.started, info.skipped, info.waiting) == (6, 4, 0, 0)
        slots = [dt.datetime.fromisoformat(run.id.removeprefix("s@")) for run in await runs_of(app, "s")]
        assert slots == sorted(slots)


async def test_twenty_schedules_after_a_long_outage_start_one_run_each(open_app: OpenApp) -> None:
    async with open_app(worker=False) as client:
        for n in range(20):
            await missed_by(client, f"s{n}", DAY / 2, report("x"))
    async with open_app() as app:
        for schedule in await app.schedules():
            info = await settled(schedule)
            assert info.started == 1
            assert info.missed == pytest.approx(DAY / 2 / MINUTE, abs=2)


async def test_a_slot_that_is_a_little_late_is_not_missed(open_app: OpenApp) -> None:
    async with open_app() as app:
        schedule = await missed_by(app, "s", MINUTE + 3, report("x"), catch_up="skip")
        info = await settled(schedule)
        assert (info.missed, info.started) == (0, 1)


# -- by hand --------------------------------------------------------------------------------


async def test_a_paused_schedule_starts_nothing_and_goes_on_with_the_next_slot(open_app: OpenApp) -> None:
    async with open_app() as app:
        schedule = await app.schedule("s", report("x"), every=0.1, paused=True)
        await app.schedule("other", report("x"), every=0.1)
        await has_started(app, "other", 3)
        assert await runs_of(app, "s") == []
        await schedule.resume()
        await has_started(app, "s", 2)
        assert (await schedule.info()).missed == 0


async def test_a_trigger_uses_up_no_slot(open_app: OpenApp) -> None:
    async with open_app() as app:
        schedule = await app.schedule("s", report("by hand"), every=DAY, paused=True)
        before = await schedule.info()
        run = await schedule.trigger()
        assert await run.result() == "by hand"
        assert await (await schedule.trigger(id="mine")).result() == "by hand"
        assert await schedule.info() == before
        await app.start(report("taken"), id="taken")
        with pytest.raises(RunConflict):
            await schedule.trigger(id="taken")


async def test_a_backfill_starts_the_slots_of_a_stretch_once(open_app: OpenApp) -> None:
    async with open_app() as app:
        schedule = await app.schedule("s", report("x"), cron="0 3 * * *", timezone="Europe/Berlin", paused=True)
        start, end = dt.datetime(2026, 3, 27, tzinfo=dt.UTC), dt.datetime(2026, 3, 31, 1, tzinfo=dt.UTC)
        ids = [run.id for run in await schedule.backfill(start, end)]
        assert ids == ["s@2026-03-27T02:00:00Z", "s@2026-03-28T02:00:00Z", "s@2026-03-29T01:00:00Z",
                       "s@2026-03-30T01:00:00Z"]  # fmt: skip
        assert [run.id for run in await schedule.backfill(start, end)] == ids
        assert len(await runs_of(app, "s")) == 4
        assert await schedule.backfill(end, start) == []


async def test_a_backfill_of_an_interval_reaches_before_the_schedules_beginning(open_app: OpenApp) -> None:
    async with open_app() as app:
        schedule = await app.schedule("s", report("x"), every=MINUTE, paused=True)
        (first, *_) = await schedule.upcoming(1)
        stretch = first - dt.timedelta(minutes=10), first - dt.timedelta(minutes=8)
        assert len(await schedule.backfill(*stretch)) == 2


@pytest.mark.parametrize("count", [1_001, 1_000_000, -1, 2.0, "5"])
async def test_so_many_upcoming_slots_that_the_event_loop_would_stand_still_are_refused(
    open_app: OpenApp, count: Any
) -> None:
    async with open_app() as app:
        schedule = await app.schedule("s", report("x"), cron="* * * * *")
        with pytest.raises(
            WrongUse, match=r"schedule.upcoming\(count=.*: must be a whole number, at least 0 and at most 1000"
        ):
            await schedule.upcoming(count)
        assert len(await schedule.upcoming(1_000)) == 1_000


async def test_a_backfill_that_makes_no_sense_is_refused(open_app: OpenApp) -> None:
    async with open_app() as app:
        schedule = await app.schedule("s", report("x"), every=1.0, paused=True)
        now = outlast.now()
        for start, end in (
            (now, now + dt.timedelta(hours=1)),
            (now - dt.timedelta(days=1), now - dt.timedelta(hours=1)),
            (now.replace(tzinfo=None), now),
        ):
            with pytest.raises(WrongUse):
                await schedule.backfill(start, end)
        assert await runs_of(app, "s") == []


async def test_a_deleted_schedule_is_gone_and_its_runs_stay(open_app: OpenApp) -> None:
    async with open_app() as app:
        schedule = await app.schedule("s", report("x"), every=0.1)
        await has_started(app, "s", 1)
        await schedule.delete()
        await schedule.delete()
        assert await app.schedules() == []
        assert await runs_of(app, "s")
        for act in (schedule.info(), schedule.pause(), schedule.resume(), schedule.trigger(), app.get_schedule("s")):
            with pytest.raises(ScheduleNotFound, match="no schedule has the name 's'"):
                await act


async def test_the_next_slots_are_told(open_app: OpenApp) -> None:
    async with open_app() as app:
        schedule = await app.schedule("s", report("x"), cron="0 12 * * MON")
        upcoming = await schedule.upcoming(3)
        assert [(at.weekday(), at.hour, at.utcoffset()) for at in upcoming] == [(0, 12, dt.timedelta(0))] * 3
        assert upcoming[0] == (await schedule.info()).next


async def test_a_notice_tells_what_a_schedule_started(open_app: OpenApp) -> None:
    ears = Ears()
    async with open_app(on_event=ears) as app:
        await app.schedule("s", report("x"), every=0.1)
        notice = await ears.hear("schedule.ticked", schedule="s")
        assert len(notice.data["runs"]) == 1
        assert notice.data["missed"] == 0


async def test_a_spec_that_makes_no_sense_here_says_so_and_disturbs_no_other(open_app: OpenApp) -> None:
    async with open_app() as app:
        row = row_of_schedule("bad", report("x"), spec_of(None, 0.1, "UTC", "one", 1, 1.0, "skip"), app.codec, 0.0)
        row.spec = '{"cron":"* * * * *","timezone":"Mars/Olympus"}'
        await app.ask(PutSchedule(schedule=row))
        await app.schedule("good", report("x"), every=0.1)
        await has_started(app, "good", 3)
        assert "Mars/Olympus" in (await (await app.get_schedule("bad")).info()).problem


def test_the_blocking_face(sqlite_url: str) -> None:
    with outlast.sync.App(sqlite_url) as app:
        schedule = app.schedule("s", report("x"), every=DAY)
        assert app.get_schedule("s").info() == schedule.info()
        assert [s.name for s in app.schedules()] == ["s"]
        assert schedule.trigger().result() == "x"
        schedule.pause()
        assert schedule.info().paused
        schedule.resume()
        assert len(schedule.upcoming()) == 5
        past = outlast.now() - dt.timedelta(days=3)
        assert [run.result() for run in schedule.backfill(past, past + dt.timedelta(days=2))] == ["x", "x"]
        schedule.delete()
        assert app.schedules() == []


async def test_a_client_without_a_worker_schedules_and_asks(open_app: OpenApp) -> None:
    async with open_app(worker=False) as client:
        schedule = await client.schedule("s", report("x"), every=0.1)
        async with open_app():
            await has_started(client, "s", 2)
        await asyncio.gather(schedule.pause(), schedule.pause())
        assert (await schedule.info()).paused
