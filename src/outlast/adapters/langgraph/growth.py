"""Telling that a channel grows: what a graph only shows less of, it still stores, reads and writes whole each turn."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from outlast.runtime.notices import log
from outlast.stores.checkpoint_verbs import ChannelValue, CheckpointRow

FIRST_BYTES = 2**20
AGAIN_TIMES = 4
CHANNELS_KEPT = 1_000


class Growth:
    """How large the values of channels were when that was told last. Used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: OrderedDict[tuple[str, str, str], int] = OrderedDict()

    def see(self, row: CheckpointRow, values: Iterable[tuple[ChannelValue, list[ChannelValue]]]) -> None:
        """Warn of a value that has passed 1 MiB, and again each time that it is four times as large."""
        for value, parts in values:
            size_bytes = len(value.data) + sum(len(part.data) for part in parts)
            if size_bytes < FIRST_BYTES:
                continue
            place = (row.thread, row.ns, value.channel)
            with self._lock:
                told = self._told.get(place, 0)
                if size_bytes < AGAIN_TIMES * told:
                    continue
                self._told[place] = size_bytes
                while len(self._told) > CHANNELS_KEPT:
                    self._told.popitem(last=False)
            log.warning(
                "channel %r of thread %r holds %.1f MiB now; the graph reads and writes it whole at each step. Does it "
                "gather what nobody needs, such as a system prompt for each turn? `Saver.sizes` tells what is stored",
                value.channel,
                row.thread,
                size_bytes / 2**20,
            )
