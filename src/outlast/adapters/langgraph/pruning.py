"""Which checkpoints of a thread are needed to go on from where it is.

That is the head of each namespace. And where a channel keeps only what was added to it (a *delta channel*), those
before it, back to the last that holds the whole of it: the head's metadata names such channels.
"""

from __future__ import annotations

from langgraph.checkpoint.serde.base import SerializerProtocol

from outlast.adapters.langgraph.rows import metadata_of
from outlast.stores.checkpoint_verbs import CheckpointFilter, CheckpointRow, LoadedCheckpoint, Pairs, PruneThread
from outlast.stores.protocol import Store

PAGE = 1_000
ADDED_TO = "counters_since_delta_snapshot"


def what_to_drop(store: Store, serde: SerializerProtocol, thread: str) -> PruneThread:
    """Return the verb that deletes all of a thread that is not needed."""
    rows = _rows(store, thread)
    heads = _heads(rows)
    by_place = {(row.ns, row.id): row for row in rows}
    keep = {(row.ns, row.id) for row in heads.values()}
    for head in heads.values():
        channels = set(metadata_of(serde, head).get(ADDED_TO) or ())
        keep |= _back_to_the_whole(store, by_place, head, channels)
    drop: Pairs = tuple(place for place in by_place if place not in keep)
    return PruneThread(thread=thread, drop=drop)


def heads_of(store: Store, thread: str) -> list[LoadedCheckpoint]:
    """Return the head of each namespace of a thread."""
    heads = [store.checkpoint(thread, ns) for ns in _heads(_rows(store, thread))]
    return [head for head in heads if head is not None]


def _heads(newest_first: list[CheckpointRow]) -> dict[str, CheckpointRow]:
    heads: dict[str, CheckpointRow] = {}
    for row in newest_first:
        heads.setdefault(row.ns, row)
    return heads


def _rows(store: Store, thread: str) -> list[CheckpointRow]:
    found: list[CheckpointRow] = []
    while True:
        below = found[-1].pk if found else None
        page = store.checkpoints(CheckpointFilter(thread=thread), limit=PAGE, below=below, bare=True)
        found += [one.checkpoint for one in page]
        if len(page) < PAGE:
            return found


def _back_to_the_whole(
    store: Store, by_place: dict[tuple[str, str], CheckpointRow], head: CheckpointRow, channels: set[str]
) -> set[tuple[str, str]]:
    needed: set[tuple[str, str]] = set()
    row = by_place.get((head.ns, head.parent or ""))
    while channels and row is not None:
        needed.add((row.ns, row.id))
        loaded = store.checkpoint(row.thread, row.ns, row.id)
        channels -= {value.channel for value in loaded.values} if loaded else set()
        row = by_place.get((row.ns, row.parent or ""))
    return needed
