"""Checkpoints: the verbs.

Whoever writes to a thread has its advisory lock until the transaction has committed (`Batch.look` takes those of all
threads of a batch, in one order), so that of two who would follow one head the second sees what the first has put.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from outlast.stores.checkpoint_verbs import (
    ChannelValue,
    CopyThread,
    DeleteOrigins,
    DeleteThread,
    NoCheckpoint,
    PartsMissing,
    PendingWrite,
    PruneThread,
    PutCheckpoint,
    PutWrites,
    Superseded,
)
from outlast.stores.checkpoints import (
    VALUE_COLUMNS,
    WRITE_COLUMNS,
    as_pairs,
    decode_parts,
    has_content,
    needed_parts,
    new_values,
    owned_by_a_run,
    pairs_text,
    parts_text,
    thread_of,
    unused,
)
from outlast.stores.postgres.arrays import Blobs, Ints, Texts
from outlast.stores.postgres.batch import LOCK_THREADS, Batch
from outlast.stores.rules import Hold
from outlast.stores.verbs import Answer, Done, Fenced, Refused

FIND = "SELECT pk FROM checkpoints WHERE thread = %s AND ns = %s AND id = %s"
HEAD = "SELECT id FROM checkpoints WHERE thread = %s AND ns = %s ORDER BY pk DESC LIMIT 1"
PUT = (
    "INSERT INTO checkpoints (thread, ns, id, parent, type, data, versions, labels, origin) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s::text::jsonb, %s) ON CONFLICT (thread, id, ns) DO UPDATE SET "
    "parent = excluded.parent, type = excluded.type, data = excluded.data, versions = excluded.versions, "
    "labels = excluded.labels, origin = excluded.origin"
)
ADD_VALUES = (
    f"INSERT INTO channel_values (thread, ns, {VALUE_COLUMNS}) SELECT %s, %s, new.* FROM unnest(%s::text[], "
    "%s::text[], %s::text[], %s::bytea[], %s::text[]) AS new ON CONFLICT (thread, ns, channel, version) DO "
)
ADD_PARTS, PUT_VALUES = (
    f"{ADD_VALUES}NOTHING",
    f"{ADD_VALUES}UPDATE SET type = excluded.type, data = excluded.data, parts = excluded.parts",
)
ADD_WRITE = (
    f"INSERT INTO checkpoint_writes (checkpoint, {WRITE_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s) "
    "ON CONFLICT (checkpoint, task, idx) DO UPDATE SET channel = excluded.channel, type = excluded.type, "
    "data = excluded.data, path = excluded.path WHERE checkpoint_writes.idx < 0"
)
DROP_VALUES = (
    "DELETE FROM channel_values AS v USING unnest(%s::text[], %s::text[], %s::text[]) AS old (ns, channel, version) "
    "WHERE v.thread = %s AND v.ns = old.ns AND v.channel = old.channel AND v.version = old.version"
)
DONE = Done()


def put_checkpoint(b: Batch, verb: PutCheckpoint) -> Answer:
    """Put a checkpoint."""
    row = verb.checkpoint
    known = b.row(FIND, row.thread, row.ns, row.id)
    if (refused := _refused(b, verb)) is not None:
        return DONE if known else refused
    if known is None and verb.follows:
        head = b.row(HEAD, row.thread, row.ns)
        if (head[0] if head else None) != row.parent:
            return Superseded(head[0] if head else None)
    if missing := _missing_parts(b, verb):
        return PartsMissing(missing)
    parts, values = new_values(verb)
    for statement, some in ((ADD_PARTS, parts), (PUT_VALUES, values)):
        if some:
            b.run_sql(statement, row.thread, row.ns, *_columns(some))
    pairs = (pairs_text(row.versions), pairs_text(row.labels))
    b.run_sql(PUT, row.thread, row.ns, row.id, row.parent, row.type, row.data, *pairs, row.origin)
    return DONE


def _columns(values: Sequence[ChannelValue]) -> tuple[Texts, Texts, Texts, Blobs, Texts]:
    return (
        Texts(value.channel for value in values),
        Texts(value.version for value in values),
        Texts(value.type for value in values),
        Blobs(value.data for value in values),
        Texts(parts_text(value.parts) for value in values),
    )


def _missing_parts(b: Batch, verb: PutCheckpoint) -> tuple[tuple[str, str], ...]:
    row, needed = verb.checkpoint, needed_parts(verb)
    if not needed:
        return ()
    found = b.rows(
        "SELECT v.channel, v.version FROM unnest(%s::text[], %s::text[]) AS j (channel, version) "
        "JOIN channel_values AS v ON v.thread = %s AND v.ns = %s AND v.channel = j.channel AND v.version = j.version",
        Texts(channel for channel, _ in needed),
        Texts(version for _, version in needed),
        row.thread,
        row.ns,
    )
    there = {(channel, version) for channel, version in found}
    return tuple(pair for pair in needed if pair not in there)


def put_writes(b: Batch, verb: PutWrites) -> Answer:
    """Add pending writes."""
    known, refused = b.row(FIND, verb.thread, verb.ns, verb.checkpoint), _refused(b, verb)
    if known is None:
        return refused or NoCheckpoint()
    if refused is not None:
        return DONE if all(_is_there(b, known[0], write) for write in verb.writes) else refused
    for write in verb.writes:
        b.run_sql(ADD_WRITE, known[0], *astuple(write))
    return DONE


def _is_there(b: Batch, checkpoint: int, write: PendingWrite) -> bool:
    sql = "SELECT 1 FROM checkpoint_writes WHERE checkpoint = %s AND task = %s AND idx = %s"
    return bool(b.rows(sql, checkpoint, write.task, write.idx))


def _refused(b: Batch, verb: PutCheckpoint | PutWrites) -> Fenced | Refused | None:
    if not verb.worker:
        return _owned(b, thread_of(verb))
    held = b.hold(verb.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    return None if held is Hold.OWNED else b.fenced(verb.run, verb.worker, verb.claim)


def _owned(b: Batch, thread: str) -> Refused | None:
    open_run = b.rows("SELECT 1 FROM runs WHERE id = %s AND ended IS NULL", thread)
    return Refused(owned_by_a_run(thread)) if open_run else None


def delete_thread(b: Batch, verb: DeleteThread) -> Answer:
    """Delete a thread."""
    b.run_sql(
        "DELETE FROM checkpoint_writes WHERE checkpoint IN (SELECT pk FROM checkpoints WHERE thread = %s)", verb.thread
    )
    b.run_sql("DELETE FROM checkpoints WHERE thread = %s", verb.thread)
    b.run_sql("DELETE FROM channel_values WHERE thread = %s", verb.thread)
    return DONE


def delete_origins(b: Batch, verb: DeleteOrigins) -> Answer:
    """Delete checkpoints by what made them."""
    made = "SELECT {} FROM checkpoints WHERE origin = ANY (%s) AND origin <> ''"
    origins = Texts(filter(None, set(verb.origins)))
    threads = sorted(thread for (thread,) in b.rows(made.format("DISTINCT thread"), origins))
    if not threads:
        return DONE
    b.rows(LOCK_THREADS, Texts(threads))
    gone: dict[str, list[int]] = {}
    for pk, thread in b.rows(made.format("pk, thread"), origins):
        gone.setdefault(thread, []).append(pk)
    for thread, pks in gone.items():
        _drop(b, thread, pks)
    return DONE


def prune_thread(b: Batch, verb: PruneThread) -> Answer:
    """Delete the older checkpoints of a thread."""
    rows = b.rows("SELECT pk, ns, id FROM checkpoints WHERE thread = %s", verb.thread)
    drop = set(verb.drop)
    _drop(b, verb.thread, [pk for pk, *place in rows if tuple(place) in drop])
    return DONE


def _drop(b: Batch, thread: str, pks: list[int]) -> None:
    """Delete checkpoints of a thread, and the values that nothing refers to any more."""
    if not pks:
        return
    b.run_sql("DELETE FROM checkpoint_writes WHERE checkpoint = ANY (%s)", Ints(pks))
    b.run_sql("DELETE FROM checkpoints WHERE pk = ANY (%s)", Ints(pks))
    left = [
        (ns, as_pairs(text)) for ns, text in b.rows("SELECT ns, versions FROM checkpoints WHERE thread = %s", thread)
    ]
    rows = b.rows("SELECT ns, channel, version, parts FROM channel_values WHERE thread = %s", thread)
    values = {(ns, channel, version): decode_parts(parts) for ns, channel, version, parts in rows}
    if old := unused(left, values):
        b.run_sql(DROP_VALUES, *(Texts(column) for column in zip(*old, strict=True)), thread)


def copy_thread(b: Batch, verb: CopyThread) -> Answer:
    """Copy a thread into another."""
    if refused := _owned(b, verb.target):
        return refused
    own = (
        "SELECT 1 FROM checkpoints AS t WHERE thread = %s AND NOT EXISTS (SELECT 1 FROM checkpoints AS s "
        "WHERE s.thread = %s AND s.id = t.id AND s.ns = t.ns) LIMIT 1"
    )
    if b.rows(own, verb.target, verb.source):
        return has_content(verb.target)
    if verb.target == verb.source:
        return DONE
    both = (verb.target, verb.source)
    b.run_sql(
        "INSERT INTO checkpoints (thread, ns, id, parent, type, data, versions, labels, origin) "
        "SELECT %s, ns, id, parent, type, data, versions, labels, origin FROM checkpoints WHERE thread = %s "
        "ORDER BY pk ON CONFLICT DO NOTHING",
        *both,
    )
    b.run_sql(
        f"INSERT INTO channel_values (thread, ns, {VALUE_COLUMNS}) SELECT %s, ns, {VALUE_COLUMNS} FROM channel_values "
        "WHERE thread = %s ON CONFLICT DO NOTHING",
        *both,
    )
    b.run_sql(
        f"INSERT INTO checkpoint_writes (checkpoint, {WRITE_COLUMNS}) SELECT t.pk, w.task, w.idx, w.channel, w.type, "
        "w.data, w.path FROM checkpoints AS s JOIN checkpoints AS t ON t.thread = %s AND t.id = s.id AND t.ns = s.ns "
        "JOIN checkpoint_writes AS w ON w.checkpoint = s.pk WHERE s.thread = %s ON CONFLICT DO NOTHING",
        *both,
    )
    return DONE
