"""What every store does alike with what a run writes to its streams and publishes.

**A stream** is a list of entries at growing positions, from 1. An entry holds an item, or says how far to drop
back: all between that position and its own is void. Each stretch of items has a source: the step that wrote it, or
none, where it was the body of the run.

**Attempts.** Of each step one attempt at a time has items in a stream, and its row in the table of sources says which
(`token`), how many they are, and where they begin. When another attempt of the step comes to write, or the step comes
to an outcome by another one, the items of the old one are **dropped**: the stream is cut before the first of them, an
entry is added that says so, and what others wrote after the cut is moved behind it. So whoever reads the entries in
their order, and drops back when told to, has what is valid and has it once, wherever it was cut off and began again:
all that is left between a cut and the entry that tells of it is a gap, and a position below the cut is never touched.

**What stays.** Items of a body stay, and those of an attempt that was settled, since the outcome of its step is
recorded. So the stream can no longer change before the first item of a source that is not settled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from outlast.stores.emitted import Emit, Items, Settled, Value


class Source(msgspec.Struct, gc=False):
    """What one attempt of a step has in one stream, or one turn of a body; the source of its first turn is empty."""

    name: str
    source: str
    token: str
    wrote: int  # items
    first: int  # the position of the first
    settled: bool


class Output(Protocol):
    """The tables of one run's streams and values, within a transaction."""

    def source(self, name: str, source: str) -> tuple[Source | None, int]:
        """Return what a source has in a stream, and the stream's last position (0: it is empty)."""
        ...

    def sources(self, source: str) -> list[Source]:
        """Return what a source has in all streams; an empty one: all sources that are not settled."""
        ...

    def keep(self, row: Source) -> None:
        """Add or replace what a source has in a stream."""
        ...

    def add(self, name: str, source: str, pos: int, items: tuple[bytes, ...]) -> None:
        """Add items to a stream."""
        ...

    def cut(self, row: Source, told: int) -> None:
        """Delete all of a source from a stream, with entries that drop back after its first item. At the position
        `told` add one that drops back to before that item, and move what others wrote after it behind `told`.
        """
        ...

    def publish(self, name: str, value: bytes) -> None:
        """Set a value."""
        ...

    def value(self, name: str) -> bytes | None:
        """Return a value."""
        ...


def emit(to: Output, emits: Iterable[Emit]) -> None:
    """Apply what a verb brings along."""
    for thing in emits:
        match thing:
            case Items():
                _add(to, thing)
            case Value():
                to.publish(thing.name, thing.value)
            case Settled():
                settle(to, thing)


def _add(to: Output, new: Items) -> None:
    known, last = to.source(new.name, new.source)
    if new.first is None:
        to.add(new.name, new.source, last + 1, new.items)
        return
    if known is not None and known.token != new.token:
        last = _drop(to, known)
        known = None
    if known is None:
        known = Source(new.name, new.source, new.token, wrote=0, first=last + 1, settled=not new.token)
    items = new.items[max(known.wrote - new.first, 0) :]
    if items:
        to.add(new.name, new.source, last + 1, items)
        known.wrote = new.first + len(new.items)
        to.keep(known)


def settle(to: Output, thing: Settled) -> None:
    """Keep what one attempt of a source wrote, and drop the rest."""
    for row in to.sources(thing.source):
        if row.token != thing.token:
            _drop(to, row)
        elif not row.settled:
            row.settled = True
            to.keep(row)


def drop_unsettled(to: Output) -> None:
    """The run has ended: drop what came of no outcome."""
    for row in to.sources(""):
        settle(to, Settled(source=row.source))


_TAKEN_UP = "!taken up "


def mark_taken_up(to: Output, last_seq: int) -> None:
    """The run goes on in the turn that its code failed in: what that makes further is no repetition, but new."""
    to.keep(Source("", f"{_TAKEN_UP}{last_seq}", token="", wrote=0, first=0, settled=True))


def taken_up_at(sources: Iterable[str]) -> int | None:
    """Return behind which record a run was taken up last, of all who wrote to its streams; None: it never was."""
    return max((int(name.removeprefix(_TAKEN_UP)) for name in sources if name.startswith(_TAKEN_UP)), default=None)


def _drop(to: Output, row: Source) -> int:
    """Drop what a source has in a stream; return the stream's last position then."""
    _, last = to.source(row.name, row.source)
    to.cut(row, last + 1)
    return to.source(row.name, row.source)[1]


def is_there(to: Output, emits: Iterable[Emit]) -> bool:
    """Tell whether what came without records was applied before."""
    for thing in emits:
        match thing:
            case Items():
                known, _ = to.source(thing.name, thing.source)
                if thing.first is None or known is None or known.token != thing.token:
                    return False
                if known.wrote < thing.first + len(thing.items):
                    return False
            case Value() if to.value(thing.name) != thing.value:
                return False
            case Settled() if any(row.token != thing.token or not row.settled for row in to.sources(thing.source)):
                return False
    return True


def final_of(sources: Iterable[Source]) -> int | None:
    """Return the position up to which a stream can no longer change; None: all of it."""
    return min((row.first - 1 for row in sources if not row.settled), default=None)


_decoder = msgspec.msgpack.Decoder(tuple[bytes, ...])


def encode_items(items: tuple[bytes, ...]) -> bytes:
    """Return a stretch of items as one column holds it."""
    return msgspec.msgpack.encode(items)


def decode_items(data: bytes) -> tuple[bytes, ...]:
    """Return the items of a column."""
    return _decoder.decode(data)
