"""The questions that a store answers without changing anything. Each takes a connection inside a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apsw
import msgspec

from outlast.core.records import InboxRow, Record, RunRow, WorkerRow
from outlast.stores.protocol import MOST_OVERDUE, EarlyRow, Loaded, RunFilter, Survey
from outlast.stores.rows import (
    INBOX_COLUMNS,
    RECORD_COLUMNS,
    WORKER_COLUMNS,
    Row,
    inbox_row,
    listed_run,
    record,
    run_row,
    worker_row,
)
from outlast.stores.rules import prefix_end
from outlast.stores.sqlite.schedules import next_slot, overdue
from outlast.stores.sqlite.schema import FREE, QUEUED, RUN_COLUMNS
from outlast.stores.sqlite.streams import sources

MAX_ROWS = 2**63 - 1


def _rows(db: apsw.Connection, sql: str, *values: Any) -> list[Row]:
    try:
        return db.execute(sql, values).fetchall()
    except UnicodeEncodeError:  # a lone surrogate in a text that is looked for: nothing that is stored has one
        return []


def run(db: apsw.Connection, id: str) -> RunRow | None:
    """Return the run of this id."""
    rows = _rows(db, f"SELECT {RUN_COLUMNS} FROM runs WHERE id = ?", id)
    return run_row(rows[0]) if rows else None


def run_by_pk(db: apsw.Connection, pk: int) -> RunRow | None:
    """Return the run of this key."""
    rows = _rows(db, f"SELECT {RUN_COLUMNS} FROM runs WHERE pk = ?", pk)
    return run_row(rows[0]) if rows else None


def load(db: apsw.Connection, pks: Sequence[int]) -> list[Loaded]:
    """Return those of these runs that there are, each with its whole journal and inbox."""
    return [
        Loaded(found, tuple(records(db, pk, 0, None)), tuple(inbox_of(db, pk)), sources(db, pk))
        for pk in pks
        if (found := run_by_pk(db, pk)) is not None
    ]


def inbox_of(db: apsw.Connection, pk: int) -> list[InboxRow]:
    """Return what is in the inbox of a run, in order."""
    return [inbox_row(row) for row in _rows(db, f"SELECT {INBOX_COLUMNS} FROM inbox WHERE run = ? ORDER BY id", pk)]


def records(db: apsw.Connection, pk: int, after: int, limit: int | None) -> list[Record]:
    """Return records with a seq above `after`, in order."""
    sql = f"SELECT {RECORD_COLUMNS} FROM records WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?"
    return [record(row) for row in _rows(db, sql, pk, after, _limit(limit))]


def _limit(limit: int | None) -> int:
    return MAX_ROWS if limit is None else min(max(limit, 0), MAX_ROWS)


def runs(db: apsw.Connection, wanted: RunFilter, limit: int, before: int | None) -> list[RunRow]:
    """Return runs, newest first, below the pk `before`."""
    texts, values = _where(wanted)
    if before is not None:
        texts.append("pk < ?")
        values.append(before)
    where = " AND ".join(texts) or "TRUE"
    sql = f"SELECT {RUN_COLUMNS} FROM runs WHERE {where} ORDER BY pk DESC LIMIT ?"
    return [listed_run(row) for row in _rows(db, sql, *values, _limit(limit))]


def _where(wanted: RunFilter) -> tuple[list[str], list[str | float | None]]:
    """Return conditions, all of them fixed texts, and the values that are bound to their question marks."""
    texts: list[str] = []
    values: list[str | float | None] = []
    if wanted.statuses is not None:
        texts.append("status IN (SELECT value FROM json_each(?))")
        values.append(msgspec.json.encode(wanted.statuses).decode())
    if wanted.id_prefix is not None:
        texts.append("id >= ? AND substr(id, 1, ?) = ?")
        values += [wanted.id_prefix, len(wanted.id_prefix), wanted.id_prefix]
        if (end := prefix_end(wanted.id_prefix)) is not None:
            texts.append("id < ?")
            values.append(end)
    for text, value in (
        ("reason = ?", wanted.reason),
        ("workflow = ?", wanted.workflow),
        ("version = ?", wanted.version),
        ("owner = ?", wanted.owner),
        ("parent = ?", wanted.parent),
        ("held = ?", wanted.held),
        ("created >= ?", wanted.created_after),
        ("created < ?", wanted.created_before),
        ("due < ?", wanted.due_before),
    ):
        if value is not None:
            texts.append(text)
            values.append(value)
    return texts, values


def owned(db: apsw.Connection, worker: str) -> list[tuple[int, int]]:
    """Return (pk, claim) of every run that the worker owns."""
    return [(pk, claim) for pk, claim in _rows(db, "SELECT pk, claim FROM runs WHERE owner = ? ORDER BY pk", worker)]


def inbox(db: apsw.Connection, worker: str, seen: Mapping[int, int]) -> list[InboxRow]:
    """Return the inbox rows of all runs that the worker owns, in order, those that are seen left out."""
    columns = ", ".join(f"i.{name}" for name in INBOX_COLUMNS.split(", "))
    # CROSS JOIN fixes the order of the loops: from the few owned runs to their rows, not over every inbox there is.
    sql = (
        "WITH seen (run, id) AS MATERIALIZED (SELECT CAST(key AS INTEGER), value FROM json_each(?)) "
        f"SELECT {columns} FROM runs AS r LEFT JOIN seen AS s ON s.run = r.pk "
        "CROSS JOIN inbox AS i INDEXED BY inbox_run ON i.run = r.pk AND i.id > coalesce(s.id, 0) "
        "WHERE r.owner = ? ORDER BY i.id"
    )
    return [inbox_row(row) for row in _rows(db, sql, msgspec.json.encode(dict(seen)).decode(), worker)]


def next_due(db: apsw.Connection, workflows: Sequence[str], now: float) -> float | None:
    """Return when the next run of these workflows that is on no queue may be claimed."""
    sql = f"SELECT min(due) FROM runs WHERE workflow = ? AND due IS NOT NULL AND queue = '' AND {FREE}"
    found = [due for name in set(workflows) for (due,) in _rows(db, sql, name)]
    due = min((due for due in found if due is not None), default=None)
    if due is not None and due > now:
        ahead = (
            "SELECT 1 FROM runs INDEXED BY runs_queued WHERE workflow = ? AND due > ? "
            f"AND {QUEUED} AND queue = '' AND {FREE} LIMIT 1"
        )
        if any(_rows(db, ahead, name, now) for name in set(workflows)):
            return now
    return due


def early(db: apsw.Connection, id: str | None, limit: int) -> list[EarlyRow]:
    """Return messages for runs that are still to be started, oldest first."""
    sql = "SELECT run_id, key, created FROM early WHERE ?1 IS NULL OR run_id = ?1 ORDER BY id LIMIT ?2"
    return [EarlyRow(*row) for row in _rows(db, sql, id, max(limit, 0))]


def ended(db: apsw.Connection, pks: Sequence[int]) -> list[RunRow]:
    """Return those of the runs that have ended or are stuck."""
    sql = (
        f"SELECT {RUN_COLUMNS} FROM runs WHERE pk IN (SELECT value FROM json_each(?)) "
        "AND +status IN ('succeeded', 'failed', 'cancelled', 'stuck') ORDER BY pk"
    )
    return [run_row(row) for row in _rows(db, sql, msgspec.json.encode(list(pks)).decode())]


def workers(db: apsw.Connection) -> list[WorkerRow]:
    """Return all known workers, newest first."""
    sql = f"SELECT {WORKER_COLUMNS} FROM workers ORDER BY started DESC, id DESC"
    return [worker_row(row) for row in _rows(db, sql)]


def owners(db: apsw.Connection) -> dict[str, int]:
    """Return how many runs each worker owns."""
    return dict(_rows(db, "SELECT owner, count(*) FROM runs WHERE owner IS NOT NULL GROUP BY owner"))


def orphans(db: apsw.Connection) -> list[str]:
    """Return ids that own runs but have no `alive` worker row."""
    sql = (
        "SELECT DISTINCT owner FROM runs WHERE owner IS NOT NULL "
        "AND owner NOT IN (SELECT id FROM workers WHERE state = 'alive') ORDER BY owner"
    )
    return [owner for (owner,) in _rows(db, sql)]


def survey(
    db: apsw.Connection, workflows: Sequence[str], now: float, due: Callable[[apsw.Connection], float | None]
) -> Survey:
    """Return the workers, the orphans, what is to come, and what `due` says of when the next run may be claimed."""
    slot, late = next_slot(db, workflows), overdue(db, MOST_OVERDUE, now)
    return Survey(workers(db), orphans(db), due(db), slot, late)


def counts(db: apsw.Connection) -> dict[str, int]:
    """Return how many runs there are of each status."""
    return dict(_rows(db, "SELECT status, count(*) FROM runs GROUP BY status"))


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
        "SELECT DISTINCT run, name FROM stream_items WHERE run NOT IN (SELECT pk FROM runs)"
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
        "SELECT run, seq FROM records WHERE run NOT IN (SELECT pk FROM runs)"
    ),
    "inbox row {1} of run {0}, which does not exist": (
        "SELECT run, id FROM inbox WHERE run NOT IN (SELECT pk FROM runs)"
    ),
    "arguments of run {0}, which does not exist": "SELECT run FROM inputs WHERE run NOT IN (SELECT pk FROM runs)",
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


def check(db: apsw.Connection) -> list[str]:
    """Return what is wrong with the file and between its rows."""
    wrong = [text for (text,) in _rows(db, "PRAGMA integrity_check") if text != "ok"]
    for words, sql in INVARIANTS.items():
        wrong += [words.format(*row) for row in _rows(db, sql)]
    return wrong
