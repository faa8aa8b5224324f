"""The worker's timetable: looks which slots of schedules have come, and starts their runs.

Every worker looks, for the schedules whose workflow it has. Of those that see the same slots one wins: using them up,
starting their runs and saying when the next one is are one verb, at the schedule's revision. So each slot runs once
across the fleet, on code that a live worker has.

What is decided here is which of the slots that have come are on time (by not more than `grace`), and what
becomes of the others, the missed ones. Time is the store's. Where its clock was set back, `next` lies further ahead
than the next slot does: it is set anew, and a slot that was used already has its run, so that nothing runs twice.
"""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outlast.core.errors import StoreError
from outlast.core.records import RunRow
from outlast.core.schedule_rows import ScheduleRow
from outlast.core.telling import error_line
from outlast.runtime import registry
from outlast.runtime.declared import DECLARED, row_of_schedule
from outlast.runtime.notices import log
from outlast.runtime.slots import Spec, decoded
from outlast.stores.time_verbs import PutSchedule, Scheduled, Slot, Tick, Ticked
from outlast.stores.verbs import Answer

if TYPE_CHECKING:
    from outlast.runtime.worker import Worker

MOST_QUEUED = 1_000
CLOCKS_DIFFER_S = 5.0  # two workers' ideas of the store's time differ by less
JUST_BEFORE_S = 1e-3


class Timetable:
    """See the top of this file. All methods are called on the worker's loop."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._looking = False
        self._again = False
        self._declared = 0
        self._told: set[tuple[str, int]] = set()  # schedules that make no sense here, at which revision

    def look(self) -> None:
        """Use up the slots that have come."""
        if self._looking:
            self._again = True
            return
        if self._worker.draining or not self._worker.holds_lease():
            return
        self._looking, self._again = True, False
        self._worker.loop.create_task(self._look(), name="outlast-timetable")

    async def _look(self) -> None:
        try:
            await self._declare()
            rows: list[ScheduleRow] = await self._worker.read(self._worker.store.schedules)
            names, now = set(registry.names()), self._worker.now()
            for row in rows:
                if row.workflow in names and not self._worker.draining:
                    await self._tick(row, now)
        except StoreError:
            pass  # the writer says so, and the next look makes up for this one
        finally:
            self._looking = False
            self._worker.look_due()
            if self._again:
                self._worker.loop.call_soon(self.look)

    async def _declare(self) -> None:
        """Put the schedules that were declared in code, each once."""
        worker = self._worker
        for declared in DECLARED[self._declared :]:
            self._declared += 1
            row = row_of_schedule(declared.name, declared.call(), declared.spec, worker.codec, worker.now())
            answer = await worker.writer.ask(PutSchedule(schedule=row), patience=30.0)
            if not isinstance(answer, Scheduled):
                log.error("schedule %s, declared in code, was not taken: %s", declared.name, answer)

    async def _tick(self, row: ScheduleRow, now: float) -> None:
        try:
            tick = self._plan(row, now)
        except Exception as error:  # noqa: BLE001 - whatever makes no sense here, it is named, and disturbs no other
            if (row.name, row.revision) not in self._told:
                self._told.add((row.name, row.revision))
                log.error("schedule %s cannot be followed here: %s", row.name, error_line(error))
            return
        if tick is None:
            return
        answer: Answer = await self._worker.writer.ask(tick, patience=30.0)
        if isinstance(answer, Ticked):
            if answer.started or tick.missed:
                self._worker.notices(
                    "schedule.ticked", schedule=row.name, runs=list(answer.started), missed=tick.missed
                )
            if answer.started:
                self._worker.claims.look()

    def _plan(self, row: ScheduleRow, now: float) -> Tick | None:
        """Return what becomes of the slots that have come, None where none has."""
        if row.next is None:
            return None
        spec = decoded(row.spec)
        upcoming = spec.first(now, row.anchor)
        came = Came([], 0)
        if row.next <= now:
            came = came_by(spec, row, now)
        elif not row.backlog and row.next <= spec.first(now + CLOCKS_DIFFER_S, row.anchor):
            return None
        slots = [*row.backlog, *came.slots]
        missed = came.missed + max(0, len(slots) - MOST_QUEUED)
        made_up = came.made_up.union(row.backlog)
        return Tick(
            worker=self._worker.id,
            name=row.name,
            revision=row.revision,
            key=os.urandom(8).hex(),
            next=upcoming,
            slots=tuple(self._slot(row, spec, at, made_up=at in made_up) for at in slots[:MOST_QUEUED]),
            missed=missed,
        )

    def _slot(self, row: ScheduleRow, spec: Spec, at: float, *, made_up: bool) -> Slot:
        busy = "queue" if made_up and spec.overlap == "skip" else spec.overlap
        return Slot(at=at, run=run_of_slot(row, at, self._worker.version, self._worker.python), busy=busy)


@dataclass(frozen=True, slots=True)
class Came:
    """Slots that have come and are to be used up; `made_up` are those that were missed. `missed`: how many are not."""

    slots: list[float]
    missed: int
    made_up: frozenset[float] = frozenset()


def came_by(spec: Spec, row: ScheduleRow, now: float) -> Came:
    """Return what becomes of the slots from the schedule's `next` up to now."""
    assert row.next is not None
    found, older = spec.until(row.next - JUST_BEFORE_S, now, row.anchor, MOST_QUEUED)
    late = [at for at in found if now - at > spec.grace]
    on_time = found[len(late) :]
    made_up: list[float] = []
    if spec.catch_up == "all":
        made_up = late[-spec.most :]
    elif spec.catch_up == "one" and not on_time:
        made_up = late[-1:]
    missed = older + len(late) - len(made_up)
    return Came(made_up + on_time, missed, frozenset(made_up) if spec.catch_up == "all" else frozenset())


def run_of_slot(row: ScheduleRow, at: float, version: str, python: str, *, id: str = "") -> RunRow:
    """Return the run of a slot. Its id is made of the schedule's name and the slot, so that a slot has one run."""
    spec = decoded(row.spec)
    return RunRow(
        pk=0,
        id=id or slot_id(row.name, at),
        incarnation=os.urandom(16).hex(),
        workflow=row.workflow,
        definition=row.definition,
        is_step=row.is_step,
        input=row.input,
        options=spec.options,
        version=version,
        python=python,
        queue=spec.queue,
        queue_key=spec.queue_key,
        priority=spec.priority,
    )


def slot_id(name: str, at: float) -> str:
    """Return the id of a slot's run: `nightly@2026-03-29T01:00:00Z`."""
    moment = dt.datetime.fromtimestamp(round(at, 3), dt.UTC)
    precision = "milliseconds" if moment.microsecond else "seconds"
    return f"{name}@{moment.isoformat(timespec=precision).replace('+00:00', 'Z')}"
