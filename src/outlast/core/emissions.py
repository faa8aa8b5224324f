"""What a body lets the world see beside its end: items of streams, and published values."""

from __future__ import annotations

import msgspec


class Emission(msgspec.Struct, frozen=True, gc=False):
    """One item, or one value, as bytes, made in the turn of the event `turn` (0: the first turn, which has no event).

    It leaves with the record of that event. Where the turn may have to be taken again (the first turn has no record,
    and a run is resumed whose code failed in its last one) `first` tells what was made before from what is new: it is
    how many items of the turn went to the stream before this one. `again`: the turn was recorded, and is taken again.
    """

    name: str
    data: bytes
    is_item: bool
    turn: int
    at: float
    first: int = 0
    again: bool = False

    @property
    def source(self) -> str:
        """Return the name of the turn among the sources of a stream."""
        return f"!turn {self.turn} {self.at!r}" if self.turn else ""
