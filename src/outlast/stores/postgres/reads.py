"""The questions that a store answers without changing anything. Each takes a connection inside a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from outlast.core.arguments import bad_text
from outlast.core.records import InboxRow, Record, RunRow, WorkerRow
from outlast.stores.postgres.arrays import Ints, Texts
from outlast.stores.postgres.connections import ENDED, Db
from outlast.stores.postgres.schedules import next_slot, overdue
from outlast.stores.postgres.schema import FREE, QUEUED, WORKER_COLUMNS
from outlast.stores.postgres.streams import SOURCES
from outlast.stores.protocol import MOST_OVERDUE, EarlyRow, Loaded, RunFilter, Survey
from outlast.stores.rows import (
    INBOX_COLUMNS,
    RECORD_COLUMNS,
    RUN_COLUMNS,
    Row,
    inbox_row,
    listed_run,
    record,
    run_row,
    worker_row,
)
from outlast.stores.rules import prefix_end

WORKERS = f"SELECT {WORKER_COLUMNS} FROM workers ORDER BY started DESC, id DESC"
ORPHANS = (
    "SELECT DISTINCT owner FROM runs WHERE owner IS NOT NULL "
    "AND owner NOT IN (SELECT id FROM workers WHERE state = 'alive') ORDER BY owner"
)
MAX_ROWS = 2**63 - 1

# Text that no store can keep names nothing. The server would refuse the question instead of saying so.


def _rows(db: Db, sql: str, *values: Any) -> list[Row]:
    return db.execute(sql, values, binary=True).fetchall()


def run(db: Db, id: str) -> RunRow | None:
    """Return the run of this id."""
    rows = [] if bad_text(id) else _rows(db, f"SELECT {RUN_COLUMNS} FROM runs WHERE id = %s", id)
    return run_row(rows[0]) if rows else None


def run_by_pk(db: Db, pk: int) -> RunRow | None:
    """Return the run of this key."""
    rows = _rows(db, f"SELECT {RUN_COLUMNS} FROM runs WHERE pk = %s", pk)
    return run_row(rows[0]) if rows else None


def load(db: Db, pks: Sequence[int]) -> list[Loaded]:
    """Return those of these runs that there are, each with its whole journal and inbox."""
    runs, *parts = (  # all are asked for before the first is waited for
        db.execute(sql, (Ints(pks),), binary=True)
        for sql in (
            f"SELECT {RUN_COLUMNS} FROM runs WHERE pk = ANY (%s)",
            f"SELECT run, {RECORD_COLUMNS} FROM records WHERE run = ANY (%s) ORDER BY run, seq",
            f"SELECT run, {INBOX_COLUMNS} FROM inbox WHERE run = ANY (%s) ORDER BY run, id",
            SOURCES,
        )
    )
    found = {row[0]: run_row(row) for row in runs.fetchall()}
    records, inbox, sources = (_by_run(part.fetchall()) for part in parts)
    return [
        Loaded(
            found[pk],
            tuple(map(record, records.get(pk, ()))),
            tuple(map(inbox_row, inbox.get(pk, ()))),
            tuple(map(tuple, sources.get(pk, ()))),
        )
        for pk in pks
        if pk in found
    ]


def _by_run(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Return rows by the run that they begin with, without it."""
    found: dict[int, list[Row]] = {}
    for pk, *row in rows:
        found.setdefault(pk, []).append(tuple(row))
    return found


def records(db: Db, pk: int, after: int, limit: int | None) -> list[Record]:
    """Return records with a seq above `after`, in order."""
    sql = f"SELECT {RECORD_COLUMNS} FROM records WHERE run = %s AND seq > %s ORDER BY seq LIMIT %s"
    return [record(row) for row in _rows(db, sql, pk, after, _limit(limit))]


def _limit(limit: int | None) -> int | None:
    return None if limit is None else min(max(limit, 0), MAX_ROWS)


def runs(db: Db, wanted: RunFilter, limit: int, before: int | None) -> list[RunRow]:
    """Return runs, newest first, below the pk `before`."""
    texts, values = _where(wanted)
    if any(isinstance(value, str) and bad_text(value) for value in values):
        return []
    if before is not None:
        texts.append("pk < %s")
        values.append(before)
    # One page for each status, off its index: those of one status may all be older than very many others.
    statuses = ["TRUE"]
    if wanted.statuses is not None:
        statuses = [f"status = '{status.value}'" for status in dict.fromkeys(wanted.statuses)]
    pages = [
        f"(SELECT {RUN_COLUMNS} FROM runs WHERE {' AND '.join([status, *texts])} ORDER BY pk DESC LIMIT %s)"
        for status in statuses
    ]
    if not pages:
        return []
    page_values = [*values, _limit(limit)]
    sql = f"SELECT * FROM ({' UNION ALL '.join(pages)}) AS pages ORDER BY pk DESC LIMIT %s"
    return [listed_run(row) for row in _rows(db, sql, *page_values * len(pages), _limit(limit))]


def _where(wanted: RunFilter) -> tuple[list[str], list[Any]]:
    """Return conditions beside that on the status, all of them fixed texts, and the values bound to their marks."""
    texts: list[str] = []
    values: list[Any] = []
    if wanted.id_prefix is not None:
        texts.append("id >= %s AND starts_with(id, %s)")
        values += [wanted.id_prefix, wanted.id_prefix]
        if (end := prefix_end(wanted.id_prefix)) is not None:
            texts.append("id < %s")
            values.append(end)
    for text, value in (
        ("reason = %s", wanted.reason and wanted.reason.value),
        ("workflow = %s", wanted.workflow),
        ("version = %s", wanted.version),
        ("owner = %s", wanted.owner),
        ("parent = %s", wanted.parent),
        ("held = %s", wanted.held),
        ("created >= %s", wanted.created_after),
        ("created < %s", wanted.created_before),
        ("due < %s", wanted.due_before),
    ):
        if value is not None:
            texts.append(text)
            values.append(value)
    return texts, values


def owned(db: Db, worker: str) -> list[tuple[int, int]]:
    """Return (pk, claim) of every run that the worker owns."""
    if bad_text(worker):
        return []
    return [(pk, claim) for pk, claim in _rows(db, "SELECT pk, claim FROM runs WHERE owner = %s ORDER BY pk", worker)]


def inbox(db: Db, worker: str, seen: Mapping[int, int]) -> list[InboxRow]:
    """Return the inbox rows of all runs that the worker owns, in order, those that are seen left out."""
    if bad_text(worker):
        return []
    columns = ", ".join(f"i.{name}" for name in INBOX_COLUMNS.split(", "))
    sql = (
        f"SELECT {columns} FROM runs AS r LEFT JOIN unnest(%s, %s) AS s (run, id) ON s.run = r.pk "
        "JOIN inbox AS i ON i.run = r.pk AND i.id > coalesce(s.id, 0) WHERE r.owner = %s ORDER BY i.id"
    )
    return [inbox_row(row) for row in _rows(db, sql, Ints(seen), Ints(seen.values()), worker)]


NEXT_DUE = (
    "SELECT (SELECT min(first.due) FROM unnest(%s) AS wanted (workflow) CROSS JOIN LATERAL ("
    f"SELECT due FROM runs WHERE runs.workflow = wanted.workflow AND due IS NOT NULL AND queue = '' AND {FREE} "
    "ORDER BY due LIMIT 1) AS first), EXISTS (SELECT 1 FROM unnest(%s) AS wanted (workflow) CROSS JOIN LATERAL ("
    f"SELECT 1 FROM runs WHERE runs.workflow = wanted.workflow AND due > %s AND {QUEUED} "
    "AND queue = '' LIMIT 1) AS first)"
)


def next_due(db: Db, workflows: Sequence[str], now: float) -> Callable[[], float | None]:
    """Ask when the next run of these workflows that is on no queue may be claimed."""
    names = Texts(name for name in workflows if not bad_text(name))
    asked = db.execute(NEXT_DUE, (names, names, now), binary=True)

    def answer() -> float | None:
        ((due, ahead),) = asked.fetchall()
        return now if due is not None and due > now and ahead else due

    return answer


def early(db: Db, id: str | None, limit: int) -> list[EarlyRow]:
    """Return messages for runs that are still to be started, oldest first."""
    if id is not None and bad_text(id):
        return []
    sql = "SELECT run_id, key, created FROM early WHERE %s::text IS NULL OR run_id = %s ORDER BY id LIMIT %s"
    return [EarlyRow(*row) for row in _rows(db, sql, id, id, max(limit, 0))]


def ended(db: Db, pks: Sequence[int]) -> list[RunRow]:
    """Return those of the runs that have ended or are stuck."""
    sql = (
        f"SELECT {RUN_COLUMNS} FROM runs WHERE pk = ANY (%s) "
        "AND status IN ('succeeded', 'failed', 'cancelled', 'stuck') ORDER BY pk"
    )
    return [run_row(row) for row in _rows(db, sql, Ints(pks))]


def workers(db: Db) -> list[WorkerRow]:
    """Return all known workers, newest first."""
    return [worker_row(row) for row in _rows(db, WORKERS)]


def owners(db: Db) -> dict[str, int]:
    """Return how many runs each worker owns."""
    return dict(_rows(db, "SELECT owner, count(*) FROM runs WHERE owner IS NOT NULL GROUP BY owner"))


def orphans(db: Db) -> list[str]:
    """Return ids that own runs but have no `alive` worker row."""
    return [owner for (owner,) in _rows(db, ORPHANS)]


def survey(
    db: Db, workflows: Sequence[str], now: float, due: Callable[[Db], Callable[[], float | None]]
) -> Callable[[], Survey]:
    """Ask for the workers, the orphans, what is to come, and by `due` for when the next run may be claimed."""
    known, orphaned = (db.execute(sql, binary=True) for sql in (WORKERS, ORPHANS))
    slot, late, first = next_slot(db, workflows), overdue(db, MOST_OVERDUE, now), due(db)

    def answer() -> Survey:
        workers = [worker_row(row) for row in known.fetchall()]
        return Survey(workers, [owner for (owner,) in orphaned.fetchall()], first(), slot(), late())

    return answer


def cut_off(db: Db) -> set[str]:
    """Return the `alive` workers whose sessions have ended."""
    return {worker for (worker,) in _rows(db, f"SELECT id FROM workers WHERE state = 'alive' AND {ENDED}")}


def counts(db: Db) -> dict[str, int]:
    """Return how many runs there are of each status."""
    return dict(_rows(db, "SELECT status, count(*) FROM runs GROUP BY status"))


def size_bytes(db: Db) -> int:
    """Return what the tables take on the server's disk, indexes included."""
    ((size,),) = _rows(
        db,
        "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_catalog.pg_class "
        "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace",
    )
    return int(size)


# What SQL can see of the rules that hold between rows; those within a row are the schema's CHECKs.
INVARIANTS = {
    "writes of checkpoint {0}, which does not exist": (
        "SELECT DISTINCT checkpoint FROM checkpoint_writes AS w "
        "WHERE NOT EXISTS (SELECT 1 FROM checkpoints WHERE pk = w.checkpoint)"
    ),
    "channel {1!r} of thread {0!r}, which has no checkpoint": (
        "SELECT DISTINCT thread, channel FROM channel_values AS v "
        "WHERE NOT EXISTS (SELECT 1 FROM checkpoints AS c WHERE c.thread = v.thread)"
    ),
    "stream {1!r} of run {0}, which does not exist": (
        "SELECT DISTINCT run, name FROM stream_items AS i WHERE NOT EXISTS (SELECT 1 FROM runs WHERE pk = i.run)"
    ),
    "stream {1!r} of run {0}: what its source {2!r} wrote does not begin at {3}": (
        "SELECT run, name, source, first FROM stream_sources AS s WHERE wrote > 0 AND NOT EXISTS (SELECT 1 FROM "
        "stream_items AS i WHERE (i.run, i.name, i.pos, i.source) = (s.run, s.name, s.first, s.source))"
    ),
    "run {0} ({1!r}) has ended, but its stream {2!r} has what came of no outcome": (
        "SELECT r.pk, r.id, s.name FROM stream_sources AS s JOIN runs AS r ON r.pk = s.run "
        "WHERE r.ended IS NOT NULL AND NOT s.settled"
    ),
    "record {1} of run {0}, which does not exist": (
        "SELECT run, seq FROM records AS c WHERE NOT EXISTS (SELECT 1 FROM runs WHERE pk = c.run)"
    ),
    "inbox row {1} of run {0}, which does not exist": (
        "SELECT run, id FROM inbox AS i WHERE NOT EXISTS (SELECT 1 FROM runs WHERE pk = i.run)"
    ),
    "run {0} ({1!r}) has ended, but something waits in its inbox": (
        "SELECT DISTINCT r.pk, r.id FROM inbox AS i JOIN runs AS r ON r.pk = i.run "
        "WHERE r.ended IS NOT NULL AND i.kind <> 'message'"
    ),
    "run {0} ({1!r}) is owned by {2}, which was not the last to claim it": (
        "SELECT pk, id, owner FROM runs WHERE owner IS NOT NULL AND owner <> holder"
    ),
    "run {0} ({1!r}) was never claimed, but it has records": (
        "SELECT pk, id FROM runs WHERE started IS NULL AND forks = '[]' "
        "AND EXISTS (SELECT 1 FROM records WHERE run = pk)"
    ),
}


def check(db: Db) -> list[str]:
    """Return what is wrong between the rows."""
    return [words.format(*row) for words, sql in INVARIANTS.items() for row in _rows(db, sql)]
