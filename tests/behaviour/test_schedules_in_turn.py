"""Schedules whose clock is set, and whose runs overlap."""

from __future__ import annotations

from typing import Any

import pytest

from outlast import App, step, workflow
from outlast.core.workflows import Workflow
from outlast.runtime import timetable
from tests.behaviour.scheduled import has_started, runs_of
from tests.behaviour.stage import Door, Jumping, OpenApp, eventually


@workflow
async def report(what: str) -> str:
    return what


# -- a clock that is set -----------------------------------------------------------------------


async def test_a_clock_that_jumps_repeats_no_slot_and_silences_none(tmp_path: Any) -> None:
    """Six hours ahead and back; a laptop that slept is no other thing."""
    app = App(f"sqlite:///{tmp_path / 'runs.db'}", park_after=0.02)
    app.clock = clock = Jumping()
    async with app:
        schedule = await app.schedule("s", report("x"), every=0.5, catch_up="skip", grace=2.0)
        await has_started(app, "s", 2)
        clock.ahead = 6 * 3600.0
        before = len(await runs_of(app, "s"))
        await has_started(app, "s", before + 2)
        info = await schedule.info()
        assert info.missed == pytest.approx(6 * 3600 / 0.5, abs=20)
        assert len(await runs_of(app, "s")) < before + 20
        clock.ahead = 0.0
        before = len(await runs_of(app, "s"))
        await has_started(app, "s", before + 2)
        ids = [run.id for run in await runs_of(app, "s")]
        assert len(ids) == len(set(ids))


async def test_a_clock_that_is_ahead_for_no_more_than_one_slot_silences_nothing(tmp_path: Any) -> None:
    app = App(f"sqlite:///{tmp_path / 'runs.db'}", park_after=0.02)
    app.clock = clock = Jumping()
    async with app:
        await app.schedule("s", report("x"), every=0.1)
        for ahead in (0.0, 3600.0, 0.0, 7200.0, 0.0):
            clock.ahead = ahead
            await has_started(app, "s", len(await runs_of(app, "s")) + 1)


@pytest.mark.parametrize("when", [{"every": 0.5}, {"cron": "* * * * * *"}], ids=str)
async def test_a_clock_set_back_before_a_schedules_beginning_does_not_silence_it(tmp_path: Any, when: Any) -> None:
    app = App(f"sqlite:///{tmp_path / 'runs.db'}", park_after=0.02)
    app.clock = clock = Jumping()
    async with app:
        schedule = await app.schedule("s", report("x"), **when)
        await has_started(app, "s", 1)
        clock.ahead = -3600.0
        await has_started(app, "s", 3)
        assert (await schedule.info()).missed == 0


# -- overlap ----------------------------------------------------------------------------------


def held_up() -> tuple[Workflow[[], None], Door]:
    """Return a workflow that goes through a door, and the door."""
    door = Door()

    @step
    async def wait() -> None:
        await door.passed()

    @workflow
    async def slow() -> None:
        await wait()

    return slow, door


@pytest.mark.parametrize("overlap", ["skip", "queue", "allow"])
async def test_slots_that_come_while_a_run_has_not_ended(open_app: OpenApp, overlap: Any) -> None:
    slow, door = held_up()

    async with open_app() as app:
        schedule = await app.schedule("s", slow(), every=0.1, overlap=overlap)

        async def overlapped() -> bool:
            info = await schedule.info()
            return {"skip": info.skipped, "queue": info.waiting, "allow": info.started}[overlap] >= 3

        await eventually(overlapped)
        if overlap == "allow":
            await door.reached(3)
        else:
            assert len(await runs_of(app, "s")) == 1
        door.open()
        await has_started(app, "s", 4)
        assert (await schedule.info()).missed == 0


async def test_so_many_slots_wait_and_those_after_them_are_missed(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timetable, "MOST_QUEUED", 3)
    slow, door = held_up()

    async with open_app() as app:
        schedule = await app.schedule("s", slow(), every=0.1, overlap="queue")

        async def full() -> bool:
            return (await schedule.info()).missed >= 2

        await eventually(full)
        info = await schedule.info()
        assert (info.waiting, info.started, info.skipped) == (3, 1, 0)
        door.open()
