"""What a run writes to its streams and publishes, on the memory store; see `outlast.stores.emits`."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from outlast.stores.emits import Source, final_of
from outlast.stores.protocol import Chunk, StreamRow


@dataclass
class Stretch:
    """Items of one source that stand side by side, or a drop back."""

    pos: int
    source: str
    items: tuple[bytes, ...] = ()
    back_to: int | None = None

    @property
    def last(self) -> int:
        """Return the position of the last item."""
        return self.pos + max(len(self.items), 1) - 1


@dataclass
class RunOutput:
    """The streams and values of one run: `outlast.stores.emits.Output`."""

    streams: dict[str, list[Stretch]] = field(default_factory=dict)
    known: dict[tuple[str, str], Source] = field(default_factory=dict)
    values: dict[str, bytes] = field(default_factory=dict)

    def source(self, name: str, source: str) -> tuple[Source | None, int]:
        """Return what a source has in a stream, and the stream's last position."""
        stream = self.streams.get(name)
        known = self.known.get((name, source))
        return copy.copy(known) if known else None, stream[-1].last if stream else 0

    def sources(self, source: str) -> list[Source]:
        """Return what a source has in all streams; an empty one: all that are not settled."""
        rows = [copy.copy(row) for _, row in sorted(self.known.items())]
        return [row for row in rows if (row.source == source if source else not row.settled)]

    def keep(self, row: Source) -> None:
        """Add or replace what a source has in a stream."""
        self.known[row.name, row.source] = row

    def add(self, name: str, source: str, pos: int, items: tuple[bytes, ...]) -> None:
        """Add items to a stream."""
        self.streams.setdefault(name, []).append(Stretch(pos, source, items))

    def cut(self, row: Source, told: int) -> None:
        """Drop a source from a stream."""
        del self.known[row.name, row.source]
        stream, back_to = self.streams[row.name], row.first - 1
        moved = [s for s in stream if s.pos > back_to and s.source != row.source and s.back_to is None]
        for stretch in moved:
            stretch.pos += told - back_to
        stream[:] = [s for s in stream if s.pos <= back_to]
        stream.append(Stretch(told, "", back_to=back_to))
        stream += moved
        for (name, _), other in self.known.items():
            if name == row.name and other.first > back_to:
                other.first += told - back_to

    def publish(self, name: str, value: bytes) -> None:
        """Set a value."""
        self.values[name] = value

    def value(self, name: str) -> bytes | None:
        """Return a value."""
        return self.values.get(name)

    # -- reading -----------------------------------------------------------------

    def read(self, name: str, after: int, limit: int) -> tuple[tuple[Chunk, ...], int | None]:
        """Return what stands in a stream after a position, and up to where it can no longer change."""
        found = [s for s in self.streams.get(name, ()) if s.last > after][: max(limit, 0)]
        return tuple(Chunk(s.pos, s.items, s.back_to) for s in found), self._final(name)

    def _final(self, name: str) -> int | None:
        return final_of(row for row in self.known.values() if row.name == name)

    def rows(self) -> list[StreamRow]:
        """Return the streams, by name."""
        return [StreamRow(name, stream[-1].last, self._final(name)) for name, stream in sorted(self.streams.items())]

    def told(self) -> tuple[tuple[str, bool], ...]:
        """Return which steps wrote, and whether all that they wrote stays."""
        settled: dict[str, bool] = {}
        for row in self.known.values():
            settled[row.source] = row.settled and settled.get(row.source, True)
        return tuple(sorted((source, stays) for source, stays in settled.items() if source))
