"""Streams for code without an event loop: written in threads, and read by a blocking iterator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar

from outlast.core.effects import Output
from outlast.core.errors import WrongUse
from outlast.runtime import publishing
from outlast.runtime.loop_beside import LoopBeside
from outlast.runtime.output import may_block
from outlast.runtime.publishing import output_here

T = TypeVar("T")


def each(items: AsyncIterator[T], loop: LoopBeside) -> Iterator[T]:
    """Give what an asynchronous iterator gives, and close it."""

    async def next_one() -> tuple[T, ...]:
        async for item in items:
            return (item,)
        return ()

    try:
        while one := loop.wait(next_one()):
            yield from one
    finally:
        loop.wait(items.aclose())  # type: ignore[attr-defined]


class Stream:
    """A stream of this run, written in a thread; see `outlast.Stream`."""

    def __init__(self, name: str) -> None:
        self._stream = publishing.Stream(name)

    def __repr__(self) -> str:
        return repr(self._stream)

    @property
    def name(self) -> str:
        """The stream's name."""
        return self._stream.name

    def write(self, item: Any) -> None:
        """Add an item to the end; waits while too much is on its way. See `outlast.Stream.write`."""
        self._stream.write(item)

    def drain(self) -> None:
        """Wait while too much of what the step wrote is on its way; see `outlast.Stream.drain`."""
        place = output_here(f"sync.stream({self.name!r}).drain()")
        if isinstance(place, Output):
            if not may_block():
                raise WrongUse(
                    "outlast.sync.stream(...).drain() blocks; in an async step write: await outlast.stream(...).drain()"
                )
            place.drain_from_thread()


def stream(name: str) -> Stream:
    """Return a stream of the run, to be written in a sync workflow or step; see `outlast.stream`."""
    return Stream(name)
