"""What a body lets the world see beside its end: items of streams, and published values."""

from __future__ import annotations

import msgspec


class Emission(msgspec.Struct, frozen=True, gc=False):
    """One item, or one value, as bytes.

    It leaves with the record of the event in whose turn it was made. The first turn has none: there `first` is how many
    items went to the stream before, by which one that is made again is known.
    """

    name: str
    data: bytes
    is_item: bool
    first: int | None = None
