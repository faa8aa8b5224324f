"""Checkpoints on the memory store: the verbs, and the questions about them. Each looks first, and then changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from outlast.core.transitions import ENDED
from outlast.stores.checkpoint_verbs import (
    CheckpointFilter,
    CheckpointRow,
    CopyThread,
    DeleteOrigins,
    DeleteThread,
    LoadedCheckpoint,
    NoCheckpoint,
    PartsMissing,
    PruneThread,
    PutCheckpoint,
    PutWrites,
    Superseded,
)
from outlast.stores.checkpoints import has_content, needed_parts, new_values, owned_by_a_run, thread_of
from outlast.stores.memory.tables import Tables
from outlast.stores.memory.threads import Thread
from outlast.stores.rules import Hold
from outlast.stores.verbs import Answer, Done, Fenced, Refused


def put_checkpoint(t: Tables, verb: PutCheckpoint) -> Answer:
    """Put a checkpoint."""
    row, refused = verb.checkpoint, _refused(t, verb)
    thread = t.threads.get(row.thread, Thread())
    known = thread.checkpoints.get((row.ns, row.id))
    if refused is not None:
        return Done() if known is not None else refused
    if known is None and verb.follows and thread.head(row.ns) != row.parent:
        return Superseded(thread.head(row.ns))
    missing = tuple(pair for pair in needed_parts(verb) if (row.ns, *pair) not in thread.values)
    if missing:
        return PartsMissing(missing)
    t.threads[row.thread] = thread
    parts, values = new_values(verb)
    for value in parts:
        thread.values.setdefault((row.ns, value.channel, value.version), value)
    for value in values:
        thread.values[row.ns, value.channel, value.version] = value
    thread.checkpoints[row.ns, row.id] = replace(row, pk=known.pk if known else t.next_checkpoint())
    return Done()


def put_writes(t: Tables, verb: PutWrites) -> Answer:
    """Add pending writes."""
    thread, refused = t.threads.get(verb.thread, Thread()), _refused(t, verb)
    if (verb.ns, verb.checkpoint) not in thread.checkpoints:
        return refused or NoCheckpoint()
    there = thread.writes.setdefault((verb.ns, verb.checkpoint), {})
    if refused is not None:
        return Done() if all((write.task, write.idx) in there for write in verb.writes) else refused
    for write in verb.writes:
        if write.idx < 0:
            there[write.task, write.idx] = write
        else:
            there.setdefault((write.task, write.idx), write)
    return Done()


def _refused(t: Tables, verb: PutCheckpoint | PutWrites) -> Fenced | Refused | None:
    if not verb.worker:
        return _owned(t, thread_of(verb))
    held = t.hold(verb.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    return None if held is Hold.OWNED else t.fenced(verb.run, verb.worker, verb.claim)


def _owned(t: Tables, thread: str) -> Refused | None:
    entry = t.by_id(thread)
    if entry is None or entry.row.status in ENDED:
        return None
    return Refused(owned_by_a_run(thread))


def delete_thread(t: Tables, verb: DeleteThread) -> Answer:
    """Delete a thread."""
    t.threads.pop(verb.thread, None)
    return Done()


def delete_origins(t: Tables, verb: DeleteOrigins) -> Answer:
    """Delete checkpoints by what made them."""
    for name, thread in list(t.threads.items()):
        gone = [key for key, row in thread.checkpoints.items() if row.origin and row.origin in verb.origins]
        if gone:
            thread.drop(gone)
        if not thread.checkpoints:
            del t.threads[name]
    return Done()


def copy_thread(t: Tables, verb: CopyThread) -> Answer:
    """Copy a thread into another."""
    source, target = t.threads.get(verb.source, Thread()), t.threads.get(verb.target, Thread())
    if refused := _owned(t, verb.target):
        return refused
    if not target.checkpoints.keys() <= source.checkpoints.keys():
        return has_content(verb.target)
    for key, row in source.checkpoints.items():
        if key not in target.checkpoints:
            target.checkpoints[key] = replace(row, thread=verb.target, pk=t.next_checkpoint())
        there = target.writes.setdefault(key, {})
        for place, write in source.writes.get(key, {}).items():
            there.setdefault(place, write)
    for at, value in source.values.items():
        target.values.setdefault(at, value)
    if target.checkpoints:
        t.threads[verb.target] = target
    return Done()


def prune_thread(t: Tables, verb: PruneThread) -> Answer:
    """Delete the older checkpoints of a thread."""
    thread = t.threads.get(verb.thread)
    if thread is not None:
        thread.drop([key for key in verb.drop if key in thread.checkpoints])
        if not thread.checkpoints:
            del t.threads[verb.thread]
    return Done()


# -- questions -----------------------------------------------------------------


def checkpoint(t: Tables, thread: str, ns: str, id: str | None) -> LoadedCheckpoint | None:
    """Return a checkpoint, or the head."""
    found = t.threads.get(thread, Thread())
    row = found.checkpoints.get((ns, id if id is not None else found.head(ns) or ""))
    return _loaded(found, row) if row is not None else None


def checkpoints(
    t: Tables, wanted: CheckpointFilter, limit: int, below: int | None, bare: bool
) -> list[LoadedCheckpoint]:
    """Return checkpoints, those first that were put last."""
    rows = [(thread, row) for thread in t.threads.values() for row in thread.checkpoints.values()]
    rows.sort(key=lambda pair: -pair[1].pk)
    fitting = (
        (thread, row) for thread, row in rows if (below is None or row.pk < below) and _fits(thread, row, wanted)
    )
    return [LoadedCheckpoint(row) if bare else _loaded(thread, row) for thread, row in _first(fitting, limit)]


def _first(rows: Iterator[tuple[Thread, CheckpointRow]], limit: int) -> Iterator[tuple[Thread, CheckpointRow]]:
    for _, row in zip(range(max(limit, 0)), rows, strict=False):
        yield row


def _fits(thread: Thread, row: CheckpointRow, wanted: CheckpointFilter) -> bool:
    exact = ((wanted.thread, row.thread), (wanted.ns, row.ns), (wanted.id, row.id))
    labels = dict(row.labels)
    return (
        all(want is None or want == have for want, have in exact)
        and all(labels.get(name) == text for name, text in wanted.labels)
        and (wanted.before is None or _is_before(thread, row, wanted.before))
    )


def _is_before(thread: Thread, row: CheckpointRow, id: str) -> bool:
    at = thread.checkpoints.get((row.ns, id))
    return row.pk < at.pk if at is not None else row.id < id


def _loaded(thread: Thread, row: CheckpointRow) -> LoadedCheckpoint:
    values = [thread.values[place] for pair in row.versions if (place := (row.ns, *pair)) in thread.values]
    parts = [(value.channel, part) for value in values for part in value.parts]
    values += [thread.values[place] for pair in sorted(set(parts)) if (place := (row.ns, *pair)) in thread.values]
    writes = thread.writes.get((row.ns, row.id), {}).values()
    return LoadedCheckpoint(
        row, tuple(values), tuple(sorted(writes, key=lambda write: (write.path, write.task, write.idx)))
    )


def thread_sizes(t: Tables, thread: str) -> dict[str, int]:
    """Return how many bytes the values of each channel take."""
    sizes: dict[str, int] = {}
    for value in t.threads.get(thread, Thread()).values.values():
        sizes[value.channel] = sizes.get(value.channel, 0) + len(value.data)
    return dict(sorted(sizes.items()))


VERBS: dict[type[Any], Callable[[Tables, Any], Answer]] = {
    PutCheckpoint: put_checkpoint,
    PutWrites: put_writes,
    DeleteThread: delete_thread,
    DeleteOrigins: delete_origins,
    CopyThread: copy_thread,
    PruneThread: prune_thread,
}
