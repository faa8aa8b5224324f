"""Which parts of values the store has, as far as this process knows, so that they are not sent to it each time.

The store has the last word: it says which it misses, for example since the thread was pruned, and gets those.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from outlast.stores.checkpoint_verbs import ChannelValue, CheckpointRow, PutCheckpoint

CHANNELS_KEPT = 1_000

Values = tuple[ChannelValue, ...]


class StoredParts:
    """The parts of the values that were stored last, by channel. Used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: OrderedDict[tuple[str, str, str], frozenset[str]] = OrderedDict()

    def split(
        self, row: CheckpointRow, values: Iterable[tuple[ChannelValue, list[ChannelValue]]]
    ) -> tuple[Values, Values]:
        """Return what has to be sent with a checkpoint, and the parts that the store is thought to have."""
        new: list[ChannelValue] = []
        known: list[ChannelValue] = []
        for value, parts in values:
            with self._lock:
                stored = self._parts.get((row.thread, row.ns, value.channel), frozenset())
            new.append(value)
            for part in parts:
                (known if part.version in stored else new).append(part)
        return tuple(new), tuple(known)

    def keep(self, verb: PutCheckpoint) -> None:
        """Remember the parts of a checkpoint that is committed."""
        row = verb.checkpoint
        with self._lock:
            for value in verb.values:
                if value.parts:
                    place = (row.thread, row.ns, value.channel)
                    self._parts[place] = frozenset(value.parts)
                    self._parts.move_to_end(place)
            while len(self._parts) > CHANNELS_KEPT:
                self._parts.popitem(last=False)
