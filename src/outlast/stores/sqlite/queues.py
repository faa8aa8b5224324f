"""Queues on SQLite: whose turn it is, from the rows of this moment. The write lock lets one worker look at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apsw
import msgspec

from outlast.core.queues import Limits
from outlast.core.records import QueueRow, QueueState
from outlast.stores import turns
from outlast.stores.queue_verbs import DeclareQueue, PauseQueue
from outlast.stores.rows import Row
from outlast.stores.sqlite.batch import Batch
from outlast.stores.sqlite.schema import FREE, QUEUED
from outlast.stores.turns import QUEUE, Begun, Places, Waiting
from outlast.stores.verbs import Answer, Claim, Done, Refused

QUEUES = "SELECT name, limits, paused, paused_by FROM queues"
IN_PLACE = (
    "SELECT queue_key, owner, count(*) FROM runs WHERE queue = ? AND queue <> '' AND owner IS NOT NULL GROUP BY 1, 2"
)
# The stretches of one priority and key, each found off the index by one step from the one before; then the first runs
# of each. (SQLite uses a partial index only where its condition stands in the statement word by word.)
HEADS = """
WITH RECURSIVE line (priority, key) AS (
    SELECT priority, queue_key FROM (
        SELECT priority, queue_key FROM runs WHERE {where} ORDER BY priority DESC, queue_key DESC LIMIT 1)
    UNION ALL
    SELECT r.priority, r.queue_key FROM line CROSS JOIN runs AS r ON r.pk = coalesce(
        (SELECT pk FROM runs WHERE {where} AND priority = line.priority AND queue_key < line.key
         ORDER BY queue_key DESC LIMIT 1),
        (SELECT pk FROM runs WHERE {where} AND priority < line.priority ORDER BY priority DESC, queue_key DESC LIMIT 1))
)
SELECT line.priority, line.key, coalesce((SELECT max(started) FROM runs WHERE queue = ?1 AND queue <> ''
    AND queue_key = line.key AND started IS NOT NULL), 0), r.due, r.pk
FROM line CROSS JOIN runs AS r ON r.pk IN (
    SELECT pk FROM runs WHERE {where} AND priority = line.priority AND queue_key = line.key AND due <= ?2
    AND workflow IN (SELECT value FROM json_each(?3)) ORDER BY due, pk LIMIT ?4)
"""
WHERE = "queue = ?1 AND queue <> '' AND due IS NOT NULL AND started IS {} AND " + FREE
HEADS_NEW, HEADS_BEGUN = HEADS.format(where=WHERE.format("NULL")), HEADS.format(where=WHERE.format("NOT NULL"))
# Runs whose time seems to come, since the clock was set back: it has come.
AHEAD = f"workflow = ?1 AND due > ?2 AND {QUEUED} AND queue <> ''"
MAKE_DUE = f"UPDATE runs INDEXED BY runs_queued_in_line SET due = ?2 WHERE {AHEAD}"
IS_AHEAD = f"SELECT 1 FROM runs INDEXED BY runs_queued_in_line WHERE {AHEAD} LIMIT 1"
# Of the starts within the rate's time only as many are looked at as it allows: the oldest of these is in the way.
BEGUN = (
    "SELECT count(*), coalesce(min(at), 0) FROM (SELECT at FROM uses WHERE rate = ? AND at > ? AND at <= ? "
    "ORDER BY at DESC LIMIT ?) AS newest"
)
NEXT = (
    "SELECT min(due) FROM runs WHERE queue = ? AND queue <> '' AND due IS NOT NULL AND started IS {} AND due > ? AND "
    + FREE
)
NEXT_NEW, NEXT_BEGUN = NEXT.format("NULL"), NEXT.format("NOT NULL")

Look = Callable[..., list[Row]]
_limits = msgspec.json.Decoder(Limits)


def declare_queue(b: Batch, verb: DeclareQueue) -> Answer:
    """Say the limits of a queue."""
    b.db.execute(
        "INSERT INTO queues (name, limits) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET limits = excluded.limits",
        (verb.name, msgspec.json.encode(verb.limits).decode()),
    )
    return Done()


def pause_queue(b: Batch, verb: PauseQueue) -> Answer:
    """Begin nothing more of a queue, or go on with it."""
    if not b.rows("SELECT 1 FROM queues WHERE name = ?", verb.name):
        return Refused(turns.no_queue(verb.name))
    if verb.paused:
        b.db.execute(
            "UPDATE queues SET paused = ?, paused_by = ? WHERE name = ? AND paused IS NULL", (b.now, verb.by, verb.name)
        )
    else:
        b.db.execute("UPDATE queues SET paused = NULL, paused_by = '' WHERE name = ?", (verb.name,))
    return Done()


def queue_row(row: Row) -> QueueRow:
    """Make a queue of a row."""
    return QueueRow(name=row[0], limits=_limits.decode(row[1]), paused=row[2], paused_by=row[3])


def _open_queues(look: Look, names: Sequence[str]) -> list[QueueRow]:
    wanted = f"{QUEUES} WHERE paused IS NULL AND name IN (SELECT value FROM json_each(?)) ORDER BY name"
    return [queue_row(row) for row in look(wanted, _json(names))]


def turns_of(b: Batch, verb: Claim) -> list[list[int]]:
    """Return, for each queue that the worker serves, the runs whose turn it is."""
    queues = _open_queues(b.rows, verb.queues)
    if queues:
        b.db.executemany(MAKE_DUE, [(name, b.now) for name in set(verb.workflows)])
    limit = max(verb.limit, 0)
    return [_turns_in(b.rows, queue, verb.worker, verb.workflows, limit, b.now) for queue in queues]


def _turns_in(look: Look, row: QueueRow, worker: str, workflows: Sequence[str], limit: int, now: float) -> list[int]:
    taken = _places(look, row.name, worker)
    room = turns.free(row.limits, taken, limit)
    if not room:
        return []
    begun = _chosen(look, HEADS_BEGUN, row, workflows, now, taken, room)
    room = min(room - len(begun), turns.room_in_rate(row.limits, _begun(look, row, now)))
    return begun + (_chosen(look, HEADS_NEW, row, workflows, now, taken, room) if room else [])


def _places(look: Look, name: str, worker: str) -> Places:
    return turns.places([(key, owner, count) for key, owner, count in look(IN_PLACE, name)], worker)


def _chosen(
    look: Look, heads: str, row: QueueRow, workflows: Sequence[str], now: float, taken: Places, room: int
) -> list[int]:
    most = room if row.limits.per_key is None else min(room, row.limits.per_key)
    found = look(heads, row.name, now, _json(workflows), most)
    return turns.chosen([Waiting(*each) for each in found], row.limits, taken, room)


def _begun(look: Look, row: QueueRow, now: float) -> Begun:
    limits = row.limits
    if limits.rate is None:
        return Begun(0, 0.0)
    return Begun(*look(BEGUN, QUEUE + row.name, now - limits.window, now + limits.window, limits.rate)[0])


def note_starts(b: Batch, runs: Sequence[int]) -> None:
    """Note the first claims of runs whose queues have a rate; forget what no rate counts any more."""
    new = b.rows(
        "SELECT queue, count(*) FROM runs WHERE pk IN (SELECT value FROM json_each(?)) AND queue <> '' "
        "AND started IS NULL GROUP BY queue",
        _json(runs),
    )
    for name, count in new:
        limits = queue_row(b.rows(f"{QUEUES} WHERE name = ?", name)[0]).limits
        if limits.rate is not None:
            rate = QUEUE + name
            past, ahead = b.now - limits.window, b.now + limits.window
            b.db.execute("DELETE FROM uses WHERE rate = ? AND (at <= ? OR at > ?)", (rate, past, ahead))
            insert = "INSERT INTO uses (rate, at, amount, key, taken) VALUES (?, ?, 1, '', 1)"
            b.db.executemany(insert, [(rate, b.now)] * count)


def next_due(
    db: apsw.Connection, workflows: Sequence[str], queues: Sequence[str], worker: str, now: float
) -> float | None:
    """Return when the next run on these queues may be claimed, as far as time alone decides."""

    def look(sql: str, *values: Any) -> list[Row]:
        return db.execute(sql, values).fetchall()

    found: list[float] = []
    for row in _open_queues(look, queues):
        if not turns.free(row.limits, _places(look, row.name, worker), 1):
            continue
        if _turns_in(look, row, worker, workflows, 1, now):
            return now
        begun = _begun(look, row, now)
        new = [due for (due,) in look(NEXT_NEW, row.name, now if turns.room_in_rate(row.limits, begun) else 0.0)]
        found += turns.later(row.limits, begun, [due for (due,) in look(NEXT_BEGUN, row.name, now)], new)
    if any(look(IS_AHEAD, name, now) for name in set(workflows)):
        return now
    return min(found, default=None)


def queue_states(db: apsw.Connection, now: float, keys: int) -> list[QueueState]:
    """Return what is on each queue, by name."""

    def look(sql: str, *values: Any) -> list[Row]:
        return db.execute(sql, values).fetchall()

    states = {str(row[0]): QueueState(row=queue_row(row)) for row in db.execute(QUEUES).fetchall()}
    waiting: list[Any] = db.execute(
        "SELECT queue, queue_key, count(*), min(due) FROM runs WHERE queue <> '' AND due IS NOT NULL GROUP BY 1, 2"
    ).fetchall()
    running: list[Any] = db.execute(
        "SELECT queue, queue_key, count(*) FROM runs WHERE queue <> '' AND owner IS NOT NULL GROUP BY 1, 2"
    ).fetchall()
    for state in states.values():
        state.begun = _begun(look, state.row, now).count
    return turns.states(states, waiting, running, now, keys)


def _json(values: Sequence[object]) -> str:
    return msgspec.json.encode(list(values)).decode()
