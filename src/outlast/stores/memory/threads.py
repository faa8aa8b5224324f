"""Threads as the memory store keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field

from outlast.stores.checkpoint_verbs import ChannelValue, CheckpointRow, PendingWrite
from outlast.stores.checkpoints import Key, unused


@dataclass
class Thread:
    """All there is of one thread. Checkpoints are in the order in which they were put."""

    checkpoints: dict[tuple[str, str], CheckpointRow] = field(default_factory=dict)
    values: dict[Key, ChannelValue] = field(default_factory=dict)
    writes: dict[tuple[str, str], dict[tuple[str, int], PendingWrite]] = field(default_factory=dict)

    def head(self, ns: str) -> str | None:
        """Return the id of the checkpoint that was put last in a namespace."""
        return next((last for of, last in reversed(self.checkpoints) if of == ns), None)

    def drop(self, keys: list[tuple[str, str]]) -> None:
        """Delete checkpoints, and the values that nothing refers to any more."""
        if not keys:
            return
        for key in keys:
            del self.checkpoints[key]
            self.writes.pop(key, None)
        rows = [(row.ns, row.versions) for row in self.checkpoints.values()]
        for place in unused(rows, {place: value.parts for place, value in self.values.items()}):
            del self.values[place]
