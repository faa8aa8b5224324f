"""Schedules: the verbs, and the questions about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from outlast.core.records import RunRow
from outlast.core.schedule_rows import ScheduleRow
from outlast.stores import timetables
from outlast.stores.postgres.arrays import Texts
from outlast.stores.postgres.batch import Batch
from outlast.stores.postgres.connections import Db
from outlast.stores.postgres.early import ask_for_early
from outlast.stores.rows import RUN_COLUMNS, SCHEDULE_COLUMNS, run_row, schedule_row, schedule_values
from outlast.stores.time_verbs import DropSchedule, PauseSchedule, PutSchedule, Scheduled, Tick, Ticked
from outlast.stores.verbs import Answer, Done, Fenced, Refused

NAMES = SCHEDULE_COLUMNS.split(", ")
PUT = (
    f"INSERT INTO schedules ({SCHEDULE_COLUMNS}) VALUES ({', '.join(['%s'] * len(NAMES))}) ON CONFLICT (name) "
    f"DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in NAMES[1:])}"
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
    row = b.row(f"SELECT {SCHEDULE_COLUMNS} FROM schedules WHERE name = %s FOR UPDATE", name)
    return schedule_row(row) if row else None


def _keep(b: Batch, known: ScheduleRow | None, row: ScheduleRow | None) -> Scheduled:
    if row is not None:
        b.run_sql(PUT, *schedule_values(row))
    now = row or known
    assert now is not None
    return Scheduled(now)


def drop_schedule(b: Batch, verb: DropSchedule) -> Answer:
    """Delete a schedule."""
    b.run_sql("DELETE FROM schedules WHERE name = %s", verb.name)
    return Done()


def tick(b: Batch, verb: Tick) -> Answer:
    """Use up slots of a schedule."""
    again = b.row("SELECT answer FROM schedules WHERE name = %s AND ticked = %s", verb.name, verb.key)
    if again:
        return Ticked(msgspec.json.decode(again[0], type=tuple[str, ...]))
    if why := b.lease_lost(verb.worker):
        return Fenced(why, worker_lost=True)
    known = _schedule(b, verb.name)
    why = timetables.not_so(verb, known)
    if why or known is None:
        return Refused(why or "")
    used = [slot.run.id for slot in verb.slots if b.rows("SELECT 1 FROM runs WHERE id = %s", slot.run.id)]
    busy = bool(b.rows("SELECT 1 FROM runs WHERE id = %s AND ended IS NULL", known.last))
    row, runs = timetables.use_up(known, verb, busy=busy, used=used)
    for run in runs:
        b.insert_run(run)
    if runs:
        ask_for_early(b, [run.id for run in runs])
    answer = Ticked(tuple(run.id for run in runs))
    _keep(b, known, row)
    said = msgspec.json.encode(answer.started).decode()
    b.run_sql("UPDATE schedules SET ticked = %s, answer = %s WHERE name = %s", verb.key, said, verb.name)
    return answer


# -- questions -----------------------------------------------------------------


def schedules(db: Db) -> list[ScheduleRow]:
    """Return all schedules, by name."""
    rows = db.execute(f"SELECT {SCHEDULE_COLUMNS} FROM schedules ORDER BY name", binary=True).fetchall()
    return [schedule_row(row) for row in rows]


def next_slot(db: Db, workflows: Sequence[str]) -> Callable[[], float | None]:
    """Ask when the next schedule of these workflows has something to do."""
    sql = (
        f"SELECT min(CASE WHEN backlog <> '[]' AND next IS NOT NULL AND {IDLE} THEN 0.0 ELSE next END) FROM schedules "
        "WHERE workflow = ANY (%s)"
    )
    asked = db.execute(sql, (Texts(workflows),), binary=True)

    def answer() -> float | None:
        due: float | None = asked.fetchall()[0][0]
        return due

    return answer


def overdue(db: Db, limit: int, now: float) -> Callable[[], list[RunRow]]:
    """Ask for runs that nobody has begun by their deadlines."""
    sql = (
        f"SELECT {RUN_COLUMNS} FROM runs WHERE deadline IS NOT NULL AND started IS NULL AND ended IS NULL "
        "AND deadline <= %s AND status = 'pending' ORDER BY deadline LIMIT %s"
    )
    asked = db.execute(sql, (now, limit), binary=True)
    return lambda: [run_row(row) for row in asked.fetchall()]
