"""Schedules: the verbs, and the questions about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from outlast.core.records import RunRow
from outlast.core.schedule_rows import ScheduleRow
from outlast.stores import timetables
from outlast.stores.rows import SCHEDULE_COLUMNS, run_row, schedule_row, schedule_values
from outlast.stores.sqlite.batch import Batch
from outlast.stores.sqlite.schema import RUN_COLUMNS
from outlast.stores.time_verbs import DropSchedule, PauseSchedule, PutSchedule, Scheduled, Tick, Ticked
from outlast.stores.verbs import Answer, Done, Fenced, Refused

NAMES = SCHEDULE_COLUMNS.split(", ")
PUT = (
    f"INSERT INTO schedules ({SCHEDULE_COLUMNS}) VALUES ({', '.join('?' * len(NAMES))}) ON CONFLICT (name) DO UPDATE "
    f"SET {', '.join(f'{name} = excluded.{name}' for name in NAMES[1:])}"
)
IDLE = "NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = schedules.last AND runs.ended IS NULL)"


def put_schedule(b: Batch, verb: PutSchedule) -> Answer:
    """Create a schedule, or change it."""
    known = _schedule(b, verb.schedule.name)
    return _keep(b, known, timetables.put(known, verb, b.now))


def pause_schedule(b: Batch, verb: PauseSchedule) -> Answer:
    """Pause a schedule, or let it go on."""
    known = _schedule(b, verb.name)
    if known is None:
        return Refused(f"there is no schedule {verb.name!r}")
    return _keep(b, known, timetables.pause(known, verb))


def _schedule(b: Batch, name: str) -> ScheduleRow | None:
    row = b.row(f"SELECT {SCHEDULE_COLUMNS} FROM schedules WHERE name = ?", name)
    return schedule_row(row) if row else None


def _keep(b: Batch, known: ScheduleRow | None, row: ScheduleRow | None) -> Scheduled:
    if row is not None:
        b.db.execute(PUT, schedule_values(row))
    now = row or known
    assert now is not None
    return Scheduled(now)


def drop_schedule(b: Batch, verb: DropSchedule) -> Answer:
    """Delete a schedule."""
    b.db.execute("DELETE FROM schedules WHERE name = ?", (verb.name,))
    return Done()


def tick(b: Batch, verb: Tick) -> Answer:
    """Use up slots of a schedule."""
    again = b.row("SELECT answer FROM schedules WHERE name = ? AND ticked = ?", verb.name, verb.key)
    if again:
        return Ticked(msgspec.json.decode(again[0], type=tuple[str, ...]))
    if why := b.lease_lost(verb.worker):
        return Fenced(why, worker_lost=True)
    known = _schedule(b, verb.name)
    why = timetables.not_so(verb, known)
    if why or known is None:
        return Refused(why or "")
    used = [slot.run.id for slot in verb.slots if b.rows("SELECT 1 FROM runs WHERE id = ?", slot.run.id)]
    busy = bool(b.rows("SELECT 1 FROM runs WHERE id = ? AND ended IS NULL", known.last))
    row, runs = timetables.use_up(known, verb, busy=busy, used=used)
    b.deliver_early({run.id: b.insert_run(run) for run in runs})
    answer = Ticked(tuple(run.id for run in runs))
    _keep(b, known, row)
    said = msgspec.json.encode(answer.started).decode()
    b.db.execute("UPDATE schedules SET ticked = ?, answer = ? WHERE name = ?", (verb.key, said, verb.name))
    return answer


# -- questions -----------------------------------------------------------------


def schedules(db: apsw.Connection) -> list[ScheduleRow]:
    """Return all schedules, by name."""
    return [schedule_row(row) for row in db.execute(f"SELECT {SCHEDULE_COLUMNS} FROM schedules ORDER BY name")]


def next_slot(db: apsw.Connection, workflows: Sequence[str]) -> float | None:
    """Return when the next schedule of these workflows has something to do."""
    sql = (
        f"SELECT min(CASE WHEN backlog <> '[]' AND next IS NOT NULL AND {IDLE} THEN 0.0 ELSE next END) FROM schedules "
        "WHERE workflow IN (SELECT value FROM json_each(?))"
    )
    found: list[Any] = db.execute(sql, (msgspec.json.encode(list(workflows)).decode(),)).fetchall()
    due: float | None = found[0][0]
    return due


def overdue(db: apsw.Connection, limit: int, now: float) -> list[RunRow]:
    """Return runs that nobody has begun by their deadlines."""
    sql = (
        f"SELECT {RUN_COLUMNS} FROM runs WHERE deadline IS NOT NULL AND started IS NULL AND ended IS NULL "
        "AND deadline <= ? AND status = 'pending' ORDER BY deadline LIMIT ?"
    )
    return [run_row(row) for row in db.execute(sql, (now, limit))]
