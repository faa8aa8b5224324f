"""What a delta channel is rebuilt from: the last whole value before a checkpoint, and what was added to it since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite
from langgraph.checkpoint.serde.base import SerializerProtocol

from outlast.adapters.langgraph.rows import values_of
from outlast.stores.protocol import Store


def delta_history(
    store: Store, serde: SerializerProtocol, place: tuple[str, str, str | None], channels: Sequence[str]
) -> Mapping[str, DeltaChannelHistory]:
    """Return the history of channels up to a checkpoint, given by thread, namespace and id (None: the head).

    Goes from its parent to the root, for each channel as far as to the first value of it. The writes that belong to
    the checkpoint of that value were made upon it, so they are part of the history; those of the checkpoint that is
    asked about are not. Of other channels nothing is decoded.
    """
    left = set(channels)
    added: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}  # newest first
    seeds: dict[str, Any] = {}
    thread, ns, _ = place
    loaded = store.checkpoint(*place)
    while left and loaded is not None and loaded.checkpoint.parent is not None:
        loaded = store.checkpoint(thread, ns, loaded.checkpoint.parent)
        if loaded is None:
            break
        for write in reversed(loaded.writes):
            if write.channel in left:
                value = serde.loads_typed((write.type, write.data))
                added[write.channel].append((write.task, write.channel, value))
        whole = [value for value in loaded.values if value.channel in left]
        seeds.update(values_of(serde, whole))
        left -= seeds.keys()
    return {channel: _history(added[channel], channel, seeds) for channel in channels}


def _history(newest_first: list[PendingWrite], channel: str, seeds: Mapping[str, Any]) -> DeltaChannelHistory:
    found: DeltaChannelHistory = {"writes": newest_first[::-1]}
    if channel in seeds:
        found["seed"] = seeds[channel]
    return found
