"""Schedules on the memory store: the verbs, and the questions about them. Each looks first, and then changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from outlast.core.schedule_rows import ScheduleRow
from outlast.core.transitions import ENDED
from outlast.stores import timetables
from outlast.stores.memory.tables import Tables, Timetable
from outlast.stores.time_verbs import DropSchedule, PauseSchedule, PutSchedule, Scheduled, Tick, Ticked
from outlast.stores.verbs import Answer, Done, Fenced, Refused


def put_schedule(t: Tables, verb: PutSchedule) -> Answer:
    """Create a schedule, or change it."""
    known = t.schedules.get(verb.schedule.name)
    row = timetables.put(known.row if known else None, verb, t.clock.wall())
    if known is None:
        assert row is not None
        known = t.schedules[row.name] = Timetable(row)
    elif row is not None:
        known.row = row
    return Scheduled(replace(known.row))


def pause_schedule(t: Tables, verb: PauseSchedule) -> Answer:
    """Pause a schedule, or let it go on."""
    known = t.schedules.get(verb.name)
    if known is None:
        return Refused(f"there is no schedule {verb.name!r}")
    known.row = timetables.pause(known.row, verb) or known.row
    return Scheduled(replace(known.row))


def drop_schedule(t: Tables, verb: DropSchedule) -> Answer:
    """Delete a schedule."""
    t.schedules.pop(verb.name, None)
    return Done()


def tick(t: Tables, verb: Tick) -> Answer:
    """Use up slots of a schedule."""
    known = t.schedules.get(verb.name)
    if known is not None and known.ticked == verb.key:
        return Ticked(known.started)
    if why := t.lease_lost(verb.worker):
        return Fenced(why, worker_lost=True)
    why = timetables.not_so(verb, known.row if known else None)
    if why or known is None:
        return Refused(why or "")
    used = [slot.run.id for slot in verb.slots if slot.run.id in t.ids]
    known.row, runs = timetables.use_up(known.row, verb, busy=_is_busy(t, known.row), used=used)
    for run in runs:
        t.insert(run)
    known.ticked, known.started = verb.key, tuple(run.id for run in runs)
    return Ticked(known.started)


def _is_busy(t: Tables, row: ScheduleRow) -> bool:
    last = t.by_id(row.last)
    return last is not None and last.row.status not in ENDED


def schedules(t: Tables) -> list[ScheduleRow]:
    """Return all schedules, by name."""
    return [replace(known.row) for _, known in sorted(t.schedules.items())]


def next_slot(t: Tables, workflows: Sequence[str]) -> float | None:
    """Return when the next schedule of these workflows has something to do."""
    served = [known.row for known in t.schedules.values() if known.row.workflow in workflows]
    if any(row.backlog and not row.paused and not _is_busy(t, row) for row in served):
        return 0.0
    return min((row.next for row in served if row.next is not None), default=None)


VERBS: dict[type[Any], Callable[[Tables, Any], Answer]] = {
    PutSchedule: put_schedule,
    PauseSchedule: pause_schedule,
    DropSchedule: drop_schedule,
    Tick: tick,
}
