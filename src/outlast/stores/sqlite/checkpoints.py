"""Checkpoints: the verbs."""

from __future__ import annotations

import msgspec
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
from outlast.stores.rules import Hold
from outlast.stores.sqlite.batch import Batch
from outlast.stores.verbs import Answer, Done, Fenced, Refused

FIND = "SELECT pk FROM checkpoints WHERE thread = ? AND ns = ? AND id = ?"
HEAD = "SELECT id FROM checkpoints WHERE thread = ? AND ns = ? ORDER BY pk DESC LIMIT 1"
PUT = (
    "INSERT INTO checkpoints (thread, ns, id, parent, type, data, versions, labels, origin) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (thread, id, ns) DO UPDATE SET parent = excluded.parent, "
    "type = excluded.type, data = excluded.data, versions = excluded.versions, labels = excluded.labels, "
    "origin = excluded.origin"
)
ADD_VALUE = f"INSERT INTO channel_values (thread, ns, {VALUE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO "
ADD_PART, PUT_VALUE = (
    f"{ADD_VALUE}NOTHING",
    f"{ADD_VALUE}UPDATE SET type = excluded.type, data = excluded.data, parts = excluded.parts",
)
ADD_WRITE = (
    f"INSERT INTO checkpoint_writes (checkpoint, {WRITE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
    "SET channel = excluded.channel, type = excluded.type, data = excluded.data, path = excluded.path WHERE idx < 0"
)
DROP_WRITES = "DELETE FROM checkpoint_writes WHERE checkpoint = ?"
DROP = "DELETE FROM checkpoints WHERE pk = ?"
DROP_VALUE = "DELETE FROM channel_values WHERE thread = ? AND ns = ? AND channel = ? AND version = ?"
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
    b.db.executemany(ADD_PART, [_value_row(verb, value) for value in parts])
    b.db.executemany(PUT_VALUE, [_value_row(verb, value) for value in values])
    pairs = (pairs_text(row.versions), pairs_text(row.labels))
    b.db.execute(PUT, (row.thread, row.ns, row.id, row.parent, row.type, row.data, *pairs, row.origin))
    return DONE


def _value_row(verb: PutCheckpoint, value: ChannelValue) -> tuple[str | bytes, ...]:
    row = verb.checkpoint
    return (row.thread, row.ns, value.channel, value.version, value.type, value.data, parts_text(value.parts))


def _missing_parts(b: Batch, verb: PutCheckpoint) -> tuple[tuple[str, str], ...]:
    row, needed = verb.checkpoint, needed_parts(verb)
    by_channel: dict[str, list[str]] = {}
    for channel, version in needed:
        by_channel.setdefault(channel, []).append(version)
    there: set[tuple[str, str]] = set()
    for channel, versions in by_channel.items():
        found = b.rows(
            "SELECT version FROM channel_values WHERE thread = ? AND ns = ? AND channel = ? "
            "AND version IN (SELECT value FROM json_each(?))",
            row.thread,
            row.ns,
            channel,
            msgspec.json.encode(versions).decode(),
        )
        there.update((channel, version) for (version,) in found)
    return tuple(pair for pair in needed if pair not in there)


def put_writes(b: Batch, verb: PutWrites) -> Answer:
    """Add pending writes."""
    known, refused = b.row(FIND, verb.thread, verb.ns, verb.checkpoint), _refused(b, verb)
    if known is None:
        return refused or NoCheckpoint()
    if refused is not None:
        return DONE if all(_is_there(b, known[0], write) for write in verb.writes) else refused
    b.db.executemany(ADD_WRITE, [(known[0], *astuple(write)) for write in verb.writes])
    return DONE


def _is_there(b: Batch, checkpoint: int, write: PendingWrite) -> bool:
    sql = "SELECT 1 FROM checkpoint_writes WHERE checkpoint = ? AND task = ? AND idx = ?"
    return bool(b.rows(sql, checkpoint, write.task, write.idx))


def _refused(b: Batch, verb: PutCheckpoint | PutWrites) -> Fenced | Refused | None:
    if not verb.worker:
        return _owned(b, thread_of(verb))
    held = b.hold(verb.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    return None if held is Hold.OWNED else b.fenced(verb.run, verb.worker, verb.claim)


def _owned(b: Batch, thread: str) -> Refused | None:
    open_run = b.rows("SELECT 1 FROM runs WHERE id = ? AND ended IS NULL", thread)
    return Refused(owned_by_a_run(thread)) if open_run else None


def delete_thread(b: Batch, verb: DeleteThread) -> Answer:
    """Delete a thread."""
    b.db.execute(
        "DELETE FROM checkpoint_writes WHERE checkpoint IN (SELECT pk FROM checkpoints WHERE thread = ?)",
        (verb.thread,),
    )
    b.db.execute("DELETE FROM checkpoints WHERE thread = ?", (verb.thread,))
    b.db.execute("DELETE FROM channel_values WHERE thread = ?", (verb.thread,))
    return DONE


def delete_origins(b: Batch, verb: DeleteOrigins) -> Answer:
    """Delete checkpoints by what made them."""
    gone: dict[str, list[int]] = {}
    for origin in filter(None, set(verb.origins)):
        for pk, thread in b.rows("SELECT pk, thread FROM checkpoints WHERE origin = ? AND origin <> ''", origin):
            gone.setdefault(thread, []).append(pk)
    for thread, pks in gone.items():
        _drop(b, thread, pks)
    return DONE


def prune_thread(b: Batch, verb: PruneThread) -> Answer:
    """Delete the older checkpoints of a thread."""
    found = [b.row(FIND, verb.thread, *place) for place in set(verb.drop)]
    _drop(b, verb.thread, [row[0] for row in found if row])
    return DONE


def _drop(b: Batch, thread: str, pks: list[int]) -> None:
    """Delete checkpoints of a thread, and the values that nothing refers to any more."""
    if not pks:
        return
    b.db.executemany(DROP_WRITES, [(pk,) for pk in pks])
    b.db.executemany(DROP, [(pk,) for pk in pks])
    left = [
        (ns, as_pairs(text)) for ns, text in b.rows("SELECT ns, versions FROM checkpoints WHERE thread = ?", thread)
    ]
    rows = b.rows("SELECT ns, channel, version, parts FROM channel_values WHERE thread = ?", thread)
    values = {(ns, channel, version): decode_parts(parts) for ns, channel, version, parts in rows}
    b.db.executemany(DROP_VALUE, [(thread, *key) for key in unused(left, values)])


def copy_thread(b: Batch, verb: CopyThread) -> Answer:
    """Copy a thread into another."""
    if refused := _owned(b, verb.target):
        return refused
    own = (
        "SELECT 1 FROM checkpoints AS t WHERE thread = ?1 AND NOT EXISTS (SELECT 1 FROM checkpoints AS s "
        "WHERE s.thread = ?2 AND s.id = t.id AND s.ns = t.ns) LIMIT 1"
    )
    if b.rows(own, verb.target, verb.source):
        return has_content(verb.target)
    if verb.target == verb.source:
        return DONE
    both = (verb.target, verb.source)
    b.db.execute(
        "INSERT INTO checkpoints (thread, ns, id, parent, type, data, versions, labels, origin) "
        "SELECT ?1, ns, id, parent, type, data, versions, labels, origin FROM checkpoints WHERE thread = ?2 "
        "ORDER BY pk ON CONFLICT DO NOTHING",
        both,
    )
    b.db.execute(
        f"INSERT INTO channel_values (thread, ns, {VALUE_COLUMNS}) SELECT ?1, ns, {VALUE_COLUMNS} FROM channel_values "
        "WHERE thread = ?2 ON CONFLICT DO NOTHING",
        both,
    )
    b.db.execute(
        f"INSERT INTO checkpoint_writes (checkpoint, {WRITE_COLUMNS}) SELECT t.pk, w.task, w.idx, w.channel, w.type, "
        "w.data, w.path FROM checkpoints AS s JOIN checkpoints AS t ON t.thread = ?1 AND t.id = s.id AND t.ns = s.ns "
        "JOIN checkpoint_writes AS w ON w.checkpoint = s.pk WHERE s.thread = ?2 ON CONFLICT DO NOTHING",
        both,
    )
    return DONE
