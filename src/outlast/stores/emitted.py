"""What a run lets the world see, as it comes with a `Write`: items of streams, and published values."""

from __future__ import annotations

import msgspec


class Items(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Items to be added to the end of the stream `name`.

    `source` is the identity of the step that wrote them, and `token` names the attempt: what another attempt of that
    source has in the stream is dropped by the first items of this one. Those of a body have no token; their source is
    empty, or the turn that made them. `first` is how many the source had written before under this token: what of them
    is there already is not added again. None: they stand and fall with the records that come with them.
    """

    name: str
    items: tuple[bytes, ...]
    source: str = ""
    token: str = ""
    first: int | None = None


class Value(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The value that is published as `name` from now on."""

    name: str
    value: bytes


class Settled(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the attempt `token` of a source wrote stays for good; what other attempts of it wrote is dropped.

    An empty token is no attempt's: all that the source wrote is dropped.
    """

    source: str
    token: str = ""


Emit = Items | Value | Settled
