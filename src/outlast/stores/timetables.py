"""What every store decides alike of schedules: what a verb makes of the row that is there."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from outlast.core.records import RunRow
from outlast.core.schedule_rows import ScheduleRow
from outlast.stores.time_verbs import PauseSchedule, PutSchedule, Tick


def put(known: ScheduleRow | None, verb: PutSchedule, now: float) -> ScheduleRow | None:
    """Return the row that PutSchedule makes, None where all is so already."""
    wanted = verb.schedule
    if known is None:
        upcoming = None if verb.paused else wanted.next
        return replace(wanted, next=upcoming, created=now, revision=1, backlog=(), started=0, skipped=0, missed=0)
    paused = known.paused if verb.paused is None else verb.paused
    if _call(known) == _call(wanted):
        if paused == known.paused:
            return None
        return replace(known, next=None if paused else wanted.next, revision=known.revision + 1)
    return replace(
        known,
        spec=wanted.spec,
        workflow=wanted.workflow,
        definition=wanted.definition,
        is_step=wanted.is_step,
        input=wanted.input,
        anchor=wanted.anchor,
        next=None if paused else wanted.next,
        revision=known.revision + 1,
    )


def _call(row: ScheduleRow) -> tuple[str, str, bool, bytes]:
    return row.spec, row.workflow, row.is_step, row.input


def pause(known: ScheduleRow, verb: PauseSchedule) -> ScheduleRow | None:
    """Return the row that PauseSchedule makes, None where all is so already."""
    if known.paused == (verb.next is None):
        return None
    return replace(known, next=verb.next, revision=known.revision + 1)


def use_up(known: ScheduleRow, verb: Tick, *, busy: bool, used: Iterable[str]) -> tuple[ScheduleRow, list[RunRow]]:
    """Return the row that Tick makes, and the runs that are to be started.

    `busy`: the run that the schedule started last is open. `used` are ids of runs that there are already.
    """
    runs: list[RunRow] = []
    backlog: list[float] = []
    last, last_slot, skipped = known.last, known.last_slot, known.skipped
    taken = set(used)
    for slot in verb.slots:
        if slot.run.id in taken:
            continue
        taken.add(slot.run.id)
        if slot.busy == "allow" or not (busy or backlog):
            runs.append(slot.run)
            busy, last, last_slot = True, slot.run.id, slot.at
        elif slot.busy == "queue":
            backlog.append(slot.at)
        else:
            skipped += 1
    row = replace(
        known,
        next=verb.next,
        revision=known.revision + 1,
        backlog=tuple(backlog),
        last=last,
        last_slot=last_slot,
        started=known.started + len(runs),
        skipped=skipped,
        missed=known.missed + verb.missed,
    )
    return row, runs


def not_so(verb: Tick, known: ScheduleRow | None) -> str | None:
    """Return why a tick is refused, None where it is legal."""
    if known is None:
        return f"there is no schedule {verb.name!r}"
    if known.revision != verb.revision:
        return f"schedule {verb.name!r} was changed, or its slots were used up, by another"
    return f"schedule {verb.name!r} is paused" if known.paused else None
