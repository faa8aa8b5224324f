"""Queues on PostgreSQL: whose turn it is, from the rows of this moment.

Who looks has the queue's advisory lock until its transaction has committed, so that the next sees what it took. Nobody
waits for it: while another worker looks, the queue gives nothing, and is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from outlast.core.arguments import bad_text
from outlast.core.queues import Limits
from outlast.core.records import QueueRow, QueueState
from outlast.stores import turns
from outlast.stores.postgres.arrays import Ints, Texts
from outlast.stores.postgres.batch import Batch
from outlast.stores.postgres.connections import Db
from outlast.stores.postgres.schema import FREE, QUEUED
from outlast.stores.queue_verbs import DeclareQueue, PauseQueue
from outlast.stores.rows import Row
from outlast.stores.turns import QUEUE, Begun, Places, Waiting
from outlast.stores.verbs import Answer, Claim, Done, Refused

QUEUES = "SELECT name, limits, paused, paused_by FROM queues"
OPEN_QUEUES = f"{QUEUES} WHERE paused IS NULL AND name = ANY (%s) ORDER BY name"
IN_PLACE = (
    "SELECT queue_key, owner, count(*) FROM runs WHERE queue = %s AND queue <> '' AND owner IS NOT NULL GROUP BY 1, 2"
)
# The stretches of one priority and key, each found off the index by one step from the one before; then the first runs
# of each. (Every mark is the queue's name but the last four: its name once more, the time, the workflows, how many.)
HEADS = """
WITH RECURSIVE line (priority, key) AS (
    (SELECT priority, queue_key FROM runs WHERE {where} ORDER BY priority DESC, queue_key DESC LIMIT 1)
    UNION ALL
    SELECT next.priority, next.queue_key FROM line CROSS JOIN LATERAL (
        SELECT priority, queue_key FROM runs WHERE {where} AND (priority, queue_key) < (line.priority, line.key)
        ORDER BY priority DESC, queue_key DESC LIMIT 1) AS next
)
SELECT line.priority, line.key, coalesce((SELECT max(started) FROM runs WHERE queue = %s AND queue <> ''
    AND queue_key = line.key AND started IS NOT NULL), 0), first.due, first.pk
FROM line CROSS JOIN LATERAL (
    SELECT due, pk FROM runs WHERE {where} AND priority = line.priority AND queue_key = line.key AND due <= %s
    AND workflow = ANY (%s) ORDER BY due, pk LIMIT %s) AS first
"""
WHERE = "queue = %s AND queue <> '' AND due IS NOT NULL AND started IS {} AND " + FREE
HEADS_NEW, HEADS_BEGUN = HEADS.format(where=WHERE.format("NULL")), HEADS.format(where=WHERE.format("NOT NULL"))
AHEAD = f"workflow = ANY (%s) AND due > %s AND {QUEUED} AND queue <> ''"
# Runs whose time seems to come, since the clock was set back: it has come.
MAKE_DUE = (
    f"UPDATE runs SET due = %s WHERE pk = ANY (ARRAY (SELECT pk FROM runs WHERE {AHEAD} "
    "FOR NO KEY UPDATE SKIP LOCKED)) RETURNING pk"
)
# Of the starts within the rate's time only as many are looked at as it allows: the oldest of these is in the way.
BEGUN = (
    "SELECT count(*), coalesce(min(at), 0) FROM (SELECT at FROM uses WHERE rate = %s AND at > %s AND at <= %s "
    "ORDER BY at DESC LIMIT %s) AS newest"
)
NEXT = (
    "SELECT min(due) FROM runs WHERE queue = %s AND queue <> '' AND due IS NOT NULL AND started IS {} AND due > %s AND "
    + FREE
)
NEXT_NEW, NEXT_BEGUN = NEXT.format("NULL"), NEXT.format("NOT NULL")
# By name, as a hash: two queues of one hash wait for each other's looks, and that is all.
TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('outlast queue ' || current_schema()), hashtext(%s))"

Look = Callable[..., list[Row]]
_limits = msgspec.json.Decoder(Limits)


def declare_queue(b: Batch, verb: DeclareQueue) -> Answer:
    """Say the limits of a queue."""
    b.run_sql(
        "INSERT INTO queues (name, limits) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET limits = excluded.limits "
        "WHERE queues.limits <> excluded.limits",
        verb.name,
        msgspec.json.encode(verb.limits).decode(),
    )
    return Done()


def pause_queue(b: Batch, verb: PauseQueue) -> Answer:
    """Begin nothing more of a queue, or go on with it."""
    if not b.rows("SELECT 1 FROM queues WHERE name = %s", verb.name):
        return Refused(turns.no_queue(verb.name))
    if verb.paused:
        pause = "UPDATE queues SET paused = %s, paused_by = %s WHERE name = %s AND paused IS NULL"
        b.run_sql(pause, b.now, verb.by, verb.name)
    else:
        b.run_sql("UPDATE queues SET paused = NULL, paused_by = '' WHERE name = %s", verb.name)
    return Done()


def queue_row(row: Row) -> QueueRow:
    """Make a queue of a row."""
    return QueueRow(name=row[0], limits=_limits.decode(row[1]), paused=row[2], paused_by=row[3])


def turns_of(b: Batch, verb: Claim) -> list[list[int]]:
    """Return, for each queue that the worker serves, the runs whose turn it is."""
    queues = [queue_row(row) for row in b.rows(OPEN_QUEUES, Texts(sorted(set(verb.queues))))]
    workflows, limit = Texts(sorted(set(verb.workflows))), max(verb.limit, 0)
    if queues:
        b.rows(MAKE_DUE, b.now, workflows, b.now)
    mine = [queue for queue in queues if b.rows(TRY_LOCK, queue.name) == [(True,)]]
    return [_turns_in(b.rows, queue, verb.worker, workflows, limit, b.now) for queue in mine]


def _turns_in(look: Look, row: QueueRow, worker: str, workflows: Texts, limit: int, now: float) -> list[int]:
    taken = _places(look, row.name, worker)
    room = turns.free(row.limits, taken, limit)
    if not room:
        return []
    begun = _chosen(look, HEADS_BEGUN, row, workflows, now, taken, room)
    room = min(room - len(begun), turns.room_in_rate(row.limits, _begun(look, row, now)))
    return begun + (_chosen(look, HEADS_NEW, row, workflows, now, taken, room) if room else [])


def _places(look: Look, name: str, worker: str) -> Places:
    return turns.places([(key, owner, count) for key, owner, count in look(IN_PLACE, name)], worker)


def _chosen(look: Look, heads: str, row: QueueRow, workflows: Texts, now: float, taken: Places, room: int) -> list[int]:
    most = room if row.limits.per_key is None else min(room, row.limits.per_key)
    found = look(heads, *[row.name] * 4, now, workflows, most)
    return turns.chosen([Waiting(*each) for each in found], row.limits, taken, room)


def _begun(look: Look, row: QueueRow, now: float) -> Begun:
    limits = row.limits
    if limits.rate is None:
        return Begun(0, 0.0)
    return Begun(*look(BEGUN, QUEUE + row.name, now - limits.window, now + limits.window, limits.rate)[0])


def note_starts(b: Batch, runs: Sequence[int]) -> None:
    """Note the first claims of runs whose queues have a rate; forget what no rate counts any more."""
    new = b.rows(
        "SELECT q.name, q.limits, q.paused, q.paused_by, count(*) FROM runs AS r JOIN queues AS q ON q.name = r.queue "
        "WHERE r.pk = ANY (%s) AND r.started IS NULL GROUP BY q.name",
        Ints(runs),
    )
    for *queue, count in new:
        limits, rate = queue_row(tuple(queue)).limits, QUEUE + queue[0]
        if limits.rate is not None:
            past, ahead = b.now - limits.window, b.now + limits.window
            b.run_sql("DELETE FROM uses WHERE rate = %s AND (at <= %s OR at > %s)", rate, past, ahead)
            b.run_sql(
                "INSERT INTO uses (rate, at, amount, key, taken) SELECT %s, %s, 1, '', true "
                "FROM generate_series(1, %s::bigint)",
                rate,
                b.now,
                count,
            )


def next_due(db: Db, names: Sequence[str], queues: Sequence[str], worker: str, now: float) -> float | None:
    """Return when the next run on these queues may be claimed, as far as time alone decides."""

    def look(sql: str, *values: object) -> list[Row]:
        return db.execute(sql, values, binary=True).fetchall()

    found: list[float] = []
    workflows = Texts(sorted({name for name in names if not bad_text(name)}))
    wanted = Texts(sorted({name for name in queues if not bad_text(name)}))
    for row in map(queue_row, look(OPEN_QUEUES, wanted)):
        if not turns.free(row.limits, _places(look, row.name, worker), 1):
            continue
        if _turns_in(look, row, worker, workflows, 1, now):
            return now
        begun = _begun(look, row, now)
        new = [due for (due,) in look(NEXT_NEW, row.name, now if turns.room_in_rate(row.limits, begun) else 0.0)]
        found += turns.later(row.limits, begun, [due for (due,) in look(NEXT_BEGUN, row.name, now)], new)
    if look(f"SELECT 1 FROM runs WHERE {AHEAD} LIMIT 1", workflows, now):
        return now
    return min(found, default=None)


def queue_states(db: Db, now: float, keys: int) -> list[QueueState]:
    """Return what is on each queue, by name."""

    def look(sql: str, *values: object) -> list[Row]:
        return db.execute(sql, values, binary=True).fetchall()

    states = {row[0]: QueueState(row=queue_row(row)) for row in db.execute(QUEUES, binary=True).fetchall()}
    waiting = db.execute(
        "SELECT queue, queue_key, count(*), min(due) FROM runs WHERE queue <> '' AND due IS NOT NULL GROUP BY 1, 2",
        binary=True,
    ).fetchall()
    running = db.execute(
        "SELECT queue, queue_key, count(*) FROM runs WHERE queue <> '' AND owner IS NOT NULL GROUP BY 1, 2", binary=True
    ).fetchall()
    for state in states.values():
        state.begun = _begun(look, state.row, now).count
    return turns.states(states, waiting, running, now, keys)
