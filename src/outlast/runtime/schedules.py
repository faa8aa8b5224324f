"""Schedules as users see them: a handle on one, and what it says."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from outlast.core.arguments import check_flag, check_whole
from outlast.core.deadlines import moment
from outlast.core.errors import ScheduleNotFound, StoreError, WrongUse
from outlast.core.identity import check_run_id
from outlast.core.records import RunRow
from outlast.core.schedule_rows import ScheduleRow
from outlast.core.telling import error_line
from outlast.runtime.moments import seconds_of
from outlast.runtime.run import Run
from outlast.runtime.slots import decoded
from outlast.runtime.starting import start_run
from outlast.runtime.timetable import run_of_slot, slot_id
from outlast.stores.time_verbs import DropSchedule, PauseSchedule, PutSchedule, Scheduled

if TYPE_CHECKING:
    from outlast.runtime.client import Client

MOST_BACKFILLED = 1_000
MOST_UPCOMING = 1_000
ROUNDED_S = 1e-3


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """What a store says of a schedule. Times are aware datetimes in UTC.

    - `name`, `workflow`. `cron` (in `timezone`) or `every` (seconds): when its slots are.
    - `catch_up`, `catch_up_limit`, `grace`, `overlap`: see `App.schedule`.
    - `paused`. `next`: the next slot; None while it is paused.
    - `last`: the id of the run that it started last, for the slot `last_slot`.
    - `started`: how many slots got their runs. `skipped`: how many did not, since the run before had not ended.
      `missed`: how many came while nobody could start them, and were not made up for. `waiting`: slots whose runs
      wait for the end of the one before, 1,000 at most.
    - `problem`: why it cannot be followed here, for example since a time zone is missing.
    """

    name: str
    workflow: str
    cron: str = ""
    every: float | None = None
    timezone: str = "UTC"
    catch_up: str = "one"
    catch_up_limit: int = 100
    grace: float = 60.0
    overlap: str = "skip"
    paused: bool = False
    next: dt.datetime | None = None
    last: str = ""
    last_slot: dt.datetime | None = None
    started: int = 0
    skipped: int = 0
    missed: int = 0
    waiting: int = 0
    problem: str = ""


class Schedule:
    """A handle on one schedule of a store, made by `app.schedule`, `app.get_schedule` and `app.schedules`."""

    def __init__(self, app: Client, row: ScheduleRow) -> None:
        self._app = app
        self._row = row

    def __repr__(self) -> str:
        return f"<Schedule {self.name} of {self._row.workflow}>"

    @property
    def name(self) -> str:
        """The schedule's name."""
        return self._row.name

    async def info(self) -> ScheduleInfo:
        """Return what the store says of it now. Raises ScheduleNotFound."""
        self._row = await find(self._app, self.name)
        return info_of(self._row)

    async def upcoming(self, count: int = 5) -> list[dt.datetime]:
        """Return its next slots, in UTC, whether or not it is paused.

        Raises WrongUse for more than 1,000 of them, ScheduleNotFound.
        """
        check_whole("schedule.upcoming", "count", count, most=MOST_UPCOMING)
        row = self._row = await find(self._app, self.name)
        after = self._app.store.now() if row.next is None else row.next - ROUNDED_S
        return [moment(at) for at in islice(decoded(row.spec).slots(after, row.anchor), count)]

    async def pause(self) -> None:
        """Start no more runs until it is resumed. Slots that come meanwhile are none. Raises ScheduleNotFound."""
        await self._set(PauseSchedule(name=self.name, next=None))

    async def resume(self) -> None:
        """Go on with the next slot from now on. Raises ScheduleNotFound."""
        row = await find(self._app, self.name)
        upcoming = decoded(row.spec).first(self._app.store.now(), row.anchor)
        await self._set(PauseSchedule(name=self.name, next=upcoming))

    async def delete(self) -> None:
        """Delete it. Its runs stay; slots that wait for the end of a run are given up. Once more, it does nothing."""
        await self._app.ask(DropSchedule(name=self.name))

    async def trigger(self, *, id: str | None = None) -> Run[Any]:
        """Start its run now, whether or not it is paused; no slot is used up, and no overlap is looked at.

        `id` is the run's, by default made of the name and the time. Raises ScheduleNotFound, RunConflict.
        """
        if id is not None:
            check_run_id(id)
        row = await find(self._app, self.name)
        now = self._app.store.now()
        run = self._run(row, now, id or f"{slot_id(row.name, now)}+{os.urandom(3).hex()}")
        return Run(self._app, await start_run(self._app, run, None))

    async def backfill(self, start: dt.datetime, end: dt.datetime) -> list[Run[Any]]:
        """Start the runs of the slots from `start` up to and without `end`, aware datetimes of the past.

        A slot that has its run keeps it, so that the same range again starts nothing. Counters stay as they are, and
        no overlap is looked at: all start at once. Raises WrongUse for a range that holds more than 1,000 slots or
        reaches into the future, ScheduleNotFound.
        """
        since, until = seconds_of(start, "backfill start"), seconds_of(end, "backfill end")
        row = await find(self._app, self.name)
        if until > self._app.store.now():
            raise WrongUse(f"schedule {self.name}: a backfill is of the past, and {end.isoformat()} is still to come")
        # Moments of users are rounded: a slot that is given back as a bound is that slot.
        slots = decoded(row.spec).slots(since - ROUNDED_S, row.anchor)
        found = [at for at in islice(slots, MOST_BACKFILLED + 1) if at < until - ROUNDED_S] if since < until else []
        if len(found) > MOST_BACKFILLED:
            raise WrongUse(
                f"schedule {self.name}: there are more than {MOST_BACKFILLED:,} slots from {start.isoformat()} to "
                f"{end.isoformat()}; take a shorter range, several times"
            )
        runs = [await start_run(self._app, self._run(row, at, slot_id(row.name, at)), None) for at in found]
        return [Run(self._app, run) for run in runs]

    def _run(self, row: ScheduleRow, at: float, id: str) -> RunRow:
        worker = self._app._worker
        return run_of_slot(row, at, self._app.version, worker.python if worker is not None else "", id=id)

    async def _set(self, verb: PauseSchedule) -> None:
        answer = await self._app.ask(verb)
        if not isinstance(answer, Scheduled):
            raise not_found(self.name, self._app.url)
        self._row = answer.schedule
        look_again(self._app)


async def put(app: Client, row: ScheduleRow, paused: bool | None) -> Schedule:
    """Create or change a schedule. Raises StoreError, WrongUse."""
    if paused is not None:
        check_flag("app.schedule", "paused", paused)
    answer = await app.ask(PutSchedule(schedule=row, paused=paused))
    if not isinstance(answer, Scheduled):
        raise StoreError(f"schedule {row.name} was not taken by {app.url}: {answer}")
    look_again(app)
    return Schedule(app, answer.schedule)


def look_again(app: Client) -> None:
    """When a slot is next may have changed."""
    if app._worker is not None:
        app._worker.look_due()


async def find(app: Client, name: str) -> ScheduleRow:
    """Return a schedule's row. Raises ScheduleNotFound."""
    rows: list[ScheduleRow] = await app._read(app.store.schedules)
    for row in rows:
        if row.name == name:
            return row
    raise not_found(name, app.url)


def not_found(name: str, url: str) -> ScheduleNotFound:
    """Return the error of a schedule that is not there."""
    return ScheduleNotFound(f"no schedule has the name {name!r} in {url}; `outlast schedules` lists them")


def info_of(row: ScheduleRow) -> ScheduleInfo:
    """Make the public view of a schedule; one that makes no sense here says so."""
    said: dict[str, Any] = {}
    try:
        spec = decoded(row.spec)
        spec.first(row.anchor, row.anchor)
        said = {
            "cron": spec.cron,
            "every": spec.every or None,
            "timezone": spec.timezone,
            "catch_up": spec.catch_up,
            "catch_up_limit": spec.most,
            "grace": spec.grace,
            "overlap": spec.overlap,
        }
    except Exception as error:  # noqa: BLE001 - a listing shows every row, whatever is in it
        said["problem"] = error_line(error)
    return ScheduleInfo(
        name=row.name,
        workflow=row.workflow,
        paused=row.paused,
        next=None if row.next is None else moment(row.next),
        last=row.last,
        last_slot=None if row.last_slot is None else moment(row.last_slot),
        started=row.started,
        skipped=row.skipped,
        missed=row.missed,
        waiting=len(row.backlog),
        **said,
    )
