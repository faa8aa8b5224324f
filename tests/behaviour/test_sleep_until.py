"""`outlast.sleep_until`: a durable sleep to a moment, which no restart moves."""

from __future__ import annotations

import asyncio
import datetime as dt
from zoneinfo import ZoneInfo

import pytest

import outlast
from outlast import WrongUse, workflow
from tests.behaviour.stage import OpenApp, failed_with, reaches


@workflow
async def until(when: dt.datetime) -> dt.datetime:
    await outlast.sleep_until(when)
    return outlast.now()


@workflow
def until_in_a_thread(when: dt.datetime) -> dt.datetime:
    outlast.sync.sleep_until(when)
    return outlast.now()


def soon(seconds: float = 0.2) -> dt.datetime:
    return outlast.now() + dt.timedelta(seconds=seconds)


@pytest.mark.parametrize("flow", [until, until_in_a_thread], ids=["async", "sync"])
async def test_it_wakes_at_the_moment_and_not_before(open_app: OpenApp, flow: outlast.Call) -> None:  # type: ignore[type-arg]
    async with open_app() as app:
        when = soon()
        woke = await (await app.start(flow(when))).result()  # type: ignore[operator]
        assert dt.timedelta(0) <= woke - when < dt.timedelta(seconds=2)


async def test_the_run_parks_until_that_very_moment_also_after_a_restart(open_app: OpenApp) -> None:
    when = dt.datetime(2999, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    async with open_app() as app:
        await reaches(await app.start(until(when), id="r"), "waiting")
    async with open_app() as app:
        assert (await (await app.get("r")).info()).due == when.timestamp()


async def test_a_moment_that_is_past_is_no_wait_and_no_record(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(until(soon(-60)))
        await run.result()
        assert await run.steps() == []


@pytest.mark.parametrize("bad", [dt.datetime.fromisoformat("2030-01-01T00:00"), dt.date(2030, 1, 1), 5.0, None])
async def test_what_is_no_moment_is_refused(open_app: OpenApp, bad: object) -> None:
    @workflow
    async def flow() -> None:
        await outlast.sleep_until(bad)  # type: ignore[arg-type]

    async with open_app() as app:
        error = await failed_with(await app.start(flow()), WrongUse)
        assert "outlast.sleep_until" in str(error)


async def test_it_loses_a_race_like_any_other_timer(open_app: OpenApp) -> None:
    @workflow
    async def race() -> str:
        late = asyncio.create_task(outlast.sleep_until(outlast.now() + dt.timedelta(days=400)))
        early = asyncio.create_task(outlast.sleep_until(outlast.now() + dt.timedelta(seconds=0.1)))
        done, _ = await asyncio.wait([late, early], return_when=asyncio.FIRST_COMPLETED)
        return "early" if early in done else "late"

    async with open_app() as app:
        run = await app.start(race())
        assert await run.result() == "early"  # the other one holds nothing open


async def test_outside_of_a_run_it_is_a_plain_sleep() -> None:
    when = soon(0.05)
    await outlast.sleep_until(when)
    assert outlast.now() >= when
    outlast.sync.sleep_until(soon(0.01))


async def test_each_face_names_the_other(open_app: OpenApp) -> None:
    @workflow
    async def wrong() -> None:
        outlast.sync.sleep_until(soon())

    @workflow
    def wrong_too() -> None:
        asyncio.run(outlast.sleep_until(soon()))

    async with open_app() as app:
        error = await failed_with(await app.start(wrong()), WrongUse)
        assert "await outlast.sleep_until" in str(error)
