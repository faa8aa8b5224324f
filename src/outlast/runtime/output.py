"""What a run writes to its streams and publishes, on its way to the store.

What a **body** makes goes with the record of the event in whose turn it was made, in one write: both are committed or
neither, so that a replay of that event has nothing to make again. What a **step** makes does not wait for its end: it
gathers while the write before is on its way, and goes as soon as the records before the step's start are committed. A
step's outcome is recorded after all of it is committed, and settles it: see `outlast.stores.emits`.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from outlast.core.effects import InStep
from outlast.core.emissions import Emission
from outlast.core.errors import EncodingError, StoreError, StreamFull
from outlast.core.pending import Pending
from outlast.core.transitions import Status
from outlast.stores.emits import taken_up_at
from outlast.stores.emitted import Emit, Items, Settled, Value
from outlast.stores.verbs import Answer, Done, Write

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution

MUCH = 10_000, 4 << 20
"""With so many items or bytes on their way `drain` waits, and so does a `write` in a thread."""
TOO_MUCH = 100_000, 64 << 20
"""So much a step that never drains cannot have on its way."""
BATCH_ITEMS, BATCH_BYTES = 5_000, 1 << 20


class RunOutput:
    """See the top of this file. `sources`: the steps that wrote to streams, and whether all that they wrote stays."""

    def __init__(self, execution: Execution) -> None:
        self._run = execution
        self.sources: dict[str, bool] = {}
        self._settled: list[Settled] = []

    def take(self) -> tuple[Emit, ...]:
        """Return what the turns since the last time made."""
        engine = self._run.engine
        if not engine.emitted and not self._settled:
            return ()
        emitted, engine.emitted = engine.emitted, []
        settled, self._settled = self._settled, []
        failed = engine.outcome is not None and engine.outcome.status is Status.FAILED
        return (*settled, *_grouped(emitted, engine.loop.seq if failed else 0))

    def know(self, sources: Iterable[tuple[str, bool]]) -> None:
        """Take in what the store knows of those who wrote before."""
        self.sources.update(sources)
        if (resumed_at := taken_up_at(self.sources)) is not None:
            self._run.engine.take_up(resumed_at)

    def of_step(self, place: InStep) -> StepOutput:
        """Open the output of an attempt that is under way. Called where the step is, at its first write."""
        pending = self._run.engine.calls.get(place.step_id)
        if pending is None:
            raise given_up(place)
        return StepOutput(self._run, place, token_of(pending, place.attempt, self._run.row.claim))

    def settle(self, pending: Pending, number: int) -> None:
        """The step's outcome is to be recorded, of this attempt: what it wrote stays, what others did is dropped."""
        if pending.key in self.sources:
            self.sources[pending.key] = True
            self._settled.append(Settled(source=pending.key, token=token_of(pending, number, self._run.row.claim)))

    def drop(self, key: str) -> None:
        """The step was given up and has no outcome: what it wrote is dropped."""
        if self.sources.get(key) is False:
            del self.sources[key]
            self._settled.append(Settled(source=key))

    def drop_unsettled(self) -> None:
        """The run is about to end: drop what came of no outcome."""
        for key in list(self.sources):
            self.drop(key)
        self._run.flush()

    def committed(self, emits: Sequence[Emit]) -> None:
        """Let those who read in this process look."""
        if emits:
            self._run.worker.writer.on_output(self._run.row.pk)


def given_up(place: InStep) -> asyncio.CancelledError:
    """Return what an attempt gets whose writes nobody wants any more."""
    return asyncio.CancelledError(
        f"step {place.step_id} of run {place.run_id} was given up or is over: it writes no more"
    )


def token_of(pending: Pending, number: int, claim: int) -> str:
    """Name an attempt, unlike any other of its step.

    An intent outlives the claim under which it was written, and its deadline is the same wherever it is written again.
    """
    return f"{number}.{claim}" if pending.intent is None else f"{number}@{pending.intent.due!r}"


def _grouped(emitted: Iterable[Emission], failed_in: int) -> Iterable[Emit]:
    """Put what belongs together into one: the items of a stream, and of the values of one name the last.

    Items of a turn that may be taken again are counted: the first one's, and that of the turn which the run failed in.
    """

    def counted_in(emission: Emission) -> str | None:
        return emission.source if emission.again or emission.turn in (0, failed_in) else None

    items: dict[str, list[Emission]] = {}
    values: dict[str, bytes] = {}
    for emission in emitted:
        if emission.is_item:
            items.setdefault(emission.name, []).append(emission)
        else:
            values[emission.name] = emission.data
    for name, group in items.items():
        for source, some in groupby(group, counted_in):
            first, *rest = some
            items_of = tuple(emission.data for emission in (first, *rest))
            yield Items(name=name, items=items_of, source=source or "", first=None if source is None else first.first)
    for name, data in values.items():
        yield Value(name=name, value=data)


class StepOutput:
    """What one attempt of a step writes and publishes: `outlast.core.effects.Output`, used by any thread of it."""

    __slots__ = (
        "_buffer",
        "_loop",
        "_over",
        "_place",
        "_room",
        "_run",
        "_scheduled",
        "_sending",
        "_size",
        "_then",
        "_token",
        "_values",
        "_waiting",
        "_wrote",
    )

    def __init__(self, execution: Execution, place: InStep, token: str) -> None:
        self._run = execution
        self._place = place
        self._token = token
        self._loop = execution.worker.loop
        self._buffer: list[tuple[str, bytes]] = []
        self._values: dict[str, bytes] = {}
        self._wrote: dict[str, int] = {}  # items by stream, sent
        self._size = 0  # bytes in the buffer, and of what is on its way
        self._sending = 0  # items
        self._scheduled = False
        self._over = False
        self._then: Callable[[], None] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._room = threading.Condition(threading.Lock())

    # -- in the step -----------------------------------------------------------------

    def write(self, stream: str, value: Any) -> None:
        data = self._encode(value, f"an item for the stream {stream!r}")
        if self._has(MUCH) and may_block():
            self.drain_from_thread()
        with self._room:
            self._check()
            if self._has(TOO_MUCH):
                raise StreamFull(
                    f"step {self._place.step_id} of run {self._place.run_id} has {len(self._buffer)} items for its "
                    f"streams ({self._size} bytes) that are not committed yet, and writes on: `await stream.drain()` "
                    "now and then"
                )
            self._buffer.append((stream, data))
            self._size += len(data)
            wake = not self._scheduled
            self._scheduled = True
        if wake:
            self._loop.call_soon_threadsafe(self._pump, context=contextvars.Context())

    def publish(self, name: str, value: Any) -> None:
        data = self._encode(value, f"the value published as {name!r}")
        with self._room:
            self._check()
            self._values[name] = data
            wake = not self._scheduled
            self._scheduled = True
        if wake:
            self._loop.call_soon_threadsafe(self._pump, context=contextvars.Context())

    async def drain(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            await asyncio.to_thread(self.drain_from_thread)
            return
        while self._has(MUCH) and not self._is_closed():
            room = self._loop.create_future()
            self._waiting.append(room)
            await room

    def drain_from_thread(self) -> None:
        with self._room:
            self._room.wait_for(lambda: self._is_closed() or not self._has(MUCH))

    def _has(self, limit: tuple[int, int]) -> bool:
        items, size_bytes = limit
        return len(self._buffer) + self._sending >= items or self._size >= size_bytes

    def _is_closed(self) -> bool:
        return self._over or self._place.given_up or self._run.closed

    def _check(self) -> None:
        if self._is_closed():
            raise given_up(self._place)

    def _encode(self, value: Any, what: str) -> bytes:
        try:
            return self._run.worker.codec.encode(value)
        except EncodingError as refused:
            step = f"{what}, step {self._place.step_id} of run {self._place.run_id}"
            raise type(refused)(f"{step}: it cannot be stored: {refused}") from None

    # -- on the worker's loop ----------------------------------------------------------

    def finish(self, then: Callable[[], None]) -> None:
        """The attempt has ended: call `then` once all is committed."""
        with self._room:
            self._over = True
            scheduled = self._scheduled
        if scheduled and not self._run.closed:
            self._then = then
        else:
            then()
        self._make_room()

    def close(self) -> None:
        """The run is stopped here: let go of who waits."""
        with self._room:
            self._over = True
        self._make_room()

    def _pump(self) -> None:
        run = self._run
        if self._sending or run.closed:
            return
        if run.committed < self._place.gate:
            run.after_commit_of(self._place.gate, self._pump)
            return
        emits = self._take()
        write = Write(worker=run.worker.id, run=run.row.pk, claim=run.row.claim, emits=emits)
        if any(isinstance(thing, Items) for thing in emits):
            run.output.sources[self._place.step_id] = False
        run.worker.writer.submit(write, partial(self._sent, write))

    def _take(self) -> tuple[Emit, ...]:
        with self._room:
            many = size = 0
            for _, data in self._buffer[:BATCH_ITEMS]:
                many += 1
                size += len(data)
                if size >= BATCH_BYTES:
                    break
            batch, self._buffer = self._buffer[:many], self._buffer[many:]
            values, self._values = self._values, {}
            self._sending = max(many, 1)
        streams: dict[str, list[bytes]] = {}
        for name, data in batch:
            streams.setdefault(name, []).append(data)
        emits: list[Emit] = []
        for name, items in streams.items():
            first = self._wrote.get(name, 0)
            source = self._place.step_id
            emits.append(Items(name=name, items=tuple(items), source=source, token=self._token, first=first))
            self._wrote[name] = first + len(items)
        return (*emits, *(Value(name=name, value=data) for name, data in values.items()))

    def _sent(self, write: Write, answer: Answer | StoreError) -> None:
        run = self._run
        if run.closed:
            return
        if not isinstance(answer, Done):
            run.worker.lost_run(run, answer)
            return
        run.output.committed(write.emits)
        with self._room:
            self._sending = 0
            self._size -= sum(len(data) for thing in write.emits if isinstance(thing, Items) for data in thing.items)
            self._scheduled = more = bool(self._buffer or self._values)
        self._make_room()
        if more:
            self._pump()
        elif self._then is not None:
            then, self._then = self._then, None
            then()

    def _make_room(self) -> None:
        if self._has(MUCH) and not self._is_closed():
            return
        waiting, self._waiting = self._waiting, []
        for room in waiting:
            if not room.done():
                room.set_result(None)
        with self._room:
            self._room.notify_all()


def may_block() -> bool:
    """Tell whether no event loop runs in this thread, which would stand still."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False
