"""Reading a stream of a run, whoever writes it: what is there, and what comes.

A position is all that a reader needs to go on from: what it has up to there is valid as long as it drops what it is
told to. The table is the truth. That something has come is told at once by this process's own writer; for what other
processes write the store is asked, every few milliseconds and only while somebody reads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from outlast.core.errors import DecodingError, OutlastError, RunNotFound, StoreUnavailable, WrongUse
from outlast.core.records import RunRow
from outlast.core.transitions import ENDED, Status
from outlast.stores.protocol import Chunk, Store, StreamPage

if TYPE_CHECKING:
    from outlast.runtime.client import Client

T = TypeVar("T")
Decode = Callable[[bytes, int], Any]

BUSY_POLL_S, IDLE_POLL_S = 0.005, 0.02
BUSY_FOR_POLLS = 400
LOOK_ANYWAY_POLLS = 100
AGAIN_S = 0.1  # until the next try where the store is away
CHUNKS = 100
OVER = ENDED | {Status.STUCK}


@dataclass(frozen=True, slots=True)
class StreamItem(Generic[T]):
    """An item of a stream. `position` is where it stands: with `after=position` a reader goes on behind it."""

    position: int
    value: T


@dataclass(frozen=True, slots=True)
class StreamReset:
    """Drop every item after `position` that you have: a step that wrote some of them is tried again.

    What is still valid of them comes once more, at new positions, in its order.
    """

    position: int


class Readers:
    """Those who read streams in this process. Used on the App's event loop."""

    def __init__(self, store: Store, executed_here: Callable[[int], bool]) -> None:
        self._store = store
        self._executed_here = executed_here
        self._news: dict[int, set[asyncio.Event]] = {}
        self._poller: asyncio.Task[None] | None = None
        self._closed = False

    @contextlib.contextmanager
    def reading(self, pk: int) -> Iterator[asyncio.Event]:
        """Give an event that is set whenever there may be something new."""
        news = asyncio.Event()
        self._news.setdefault(pk, set()).add(news)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.get_running_loop().create_task(self._poll(), name="outlast-streams")
        try:
            yield news
        finally:
            events = self._news.get(pk, set())
            events.discard(news)
            if not events:
                self._news.pop(pk, None)

    def tell(self, pk: int) -> None:
        """There may be something new of this run (0: of some run)."""
        for events in [self._news.get(pk, ())] if pk else list(self._news.values()):
            for news in events:
                news.set()

    def check(self) -> None:
        """Raise WrongUse once the App is closed."""
        if self._closed:
            raise WrongUse("the App was closed while somebody read a stream")

    def close(self) -> None:
        """Let all readers end with an error."""
        self._closed = True
        if self._poller is not None:
            self._poller.cancel()
        self.tell(0)

    async def _poll(self) -> None:
        change, idle = -1, 0
        while self._news:
            await asyncio.sleep(BUSY_POLL_S if idle < BUSY_FOR_POLLS else IDLE_POLL_S)
            try:
                seen = self._store.stream_change()
            except OutlastError:
                continue
            idle += 1
            anyway = idle % LOOK_ANYWAY_POLLS == 0
            if seen == change and not anyway:
                continue
            if seen != change:
                change, idle = seen, 0
            for pk in list(self._news):
                if anyway or not self._executed_here(pk):  # else it is told, and need not ask
                    self.tell(pk)


async def follow(
    app: Client, row: RunRow, name: str, after: int, decode: Decode, *, final: bool, wait: bool = True
) -> AsyncIterator[StreamItem[Any] | StreamReset]:
    """Give what a stream has after a position, and what comes, until the run has ended or is stuck.

    `decode` makes the value of an item, of its bytes and its position. With `wait=False` nothing is waited for.
    """
    read: Callable[..., Awaitable[StreamPage | None]] = app._read
    at = after
    with app.readers.reading(row.pk) as news, app.lookout.waiting_for(row) if app.lookout else contextlib.nullcontext():
        while True:
            news.clear()
            app.readers.check()
            try:
                page = await read(app.store.stream, row.pk, name, at, CHUNKS)
            except StoreUnavailable:
                if not wait:
                    raise
                await asyncio.sleep(AGAIN_S)  # as who waits for a result, too
                continue
            if page is None:
                raise RunNotFound(f"run {row.id} is no longer in the store (it was pruned)")
            most = page.final if final else None
            for chunk in page.chunks:
                if most is not None and chunk.pos > most:
                    break
                if chunk.back_to is not None:
                    told, at = at > chunk.back_to, chunk.pos
                    if told:
                        yield StreamReset(chunk.back_to)
                    continue
                for position, data in _after(chunk, at):
                    at = position
                    yield StreamItem(position, decode(data, position))
            if len(page.chunks) == CHUNKS and (most is None or page.chunks[-1].pos <= most):
                continue
            if page.status in OVER or not wait:
                return
            await news.wait()


def _after(chunk: Chunk, at: int) -> Iterator[tuple[int, bytes]]:
    """Give the items of a chunk after a position, each with its own."""
    seen = max(at + 1 - chunk.pos, 0)
    return zip(range(chunk.pos + seen, chunk.pos + len(chunk.items)), chunk.items[seen:], strict=True)


def decoded(app: Client, run_id: str, name: str, returns: Any) -> Decode:
    """Return what makes items with the App's codec."""

    def decode(data: bytes, position: int) -> Any:
        try:
            return app.codec.decode(data, returns)
        except DecodingError as error:
            where = f"run {run_id}, item {position} of the stream {name!r}"
            raise DecodingError(f"{where}: it cannot be rebuilt here: {error}") from None

    return decode
