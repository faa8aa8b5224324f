"""The threads of a simulated process. Each takes its turns when the simulator says so, and what it does takes time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from outlast.runtime.watcher import Watcher
from outlast.runtime.writer import Batch, Done, Writer
from outlast.stores.verbs import Verb
from tests.simulation.storage import Crashed

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.simulator import Event


class SimWriter(Writer):
    """The real writer; its thread is a row of events."""

    def __init__(self, process: Process, *args: Any) -> None:
        super().__init__(*args)
        self._process = process
        self._next: Event | None = None
        self._gathered: Batch | None = None
        self._committing: Iterator[float] | None = None
        self._ended: asyncio.Future[None] | None = None

    def start(self) -> None:
        self._loop = self._process.loop
        self._thread = object()  # type: ignore[assignment]
        self._turn_in(0.0)

    def submit(self, verb: Verb, done: Done, patience: float | None = None) -> None:
        super().submit(verb, done, patience)
        self._wake()

    async def stop(self) -> None:
        if self._thread is None:
            return
        self._thread = None
        self._queue.put(None)
        self._ended = self._process.loop.create_future()
        self._wake()
        await self._ended

    def _wake(self) -> None:
        if self._gathered is None:
            self._turn_in(self._process.habits.gather_s)

    def _turn_in(self, mean: float) -> None:
        sim = self._process.sim
        when = sim.now + sim.delay(mean)
        if self._next is not None and not self._next.cancelled:
            if self._next.when <= when:
                return
            self._next.cancelled = True
        self._next = sim.at(when, self._turn, process=self._process)

    def _turn(self) -> None:
        """Gather a batch; a while later commit it; if the store was away, pause and go on."""
        self._next = None
        self._process.acting = "writer"
        if self._gathered is None:
            self._gathered = []
            self._gather(self._gathered, 0.0)
            self._committing = self._commit(self._gathered)
            self._turn_in(self._process.habits.commit_s if self._gathered else 0.0)
            return
        assert self._committing is not None
        try:
            pause = next(self._committing, None)
        except Crashed:
            return
        if pause is not None:
            sim = self._process.sim
            self._next = sim.after(pause * (1 + sim.random.random() * 0.2), self._turn, process=self._process)
            return
        self._gathered = None
        if self._stopping:
            if self._ended is not None:
                self._process.loop.call_soon_threadsafe(_finish, self._ended)
        else:
            self._sleep()

    def _sleep(self) -> None:
        """Until something is submitted, or it is time to beat."""
        if not self._queue.empty():
            self._turn_in(0.0)
            return
        sim = self._process.sim
        self._next = sim.after(self._wait_s() + sim.delay(0.001), self._turn, process=self._process)


class SimWatcher(Watcher):
    """The real watcher; its thread is a row of events."""

    def __init__(self, process: Process, *args: Any) -> None:
        super().__init__(*args)
        self._process = process

    def start(self) -> None:
        self._look_in(0.0)

    def _look_in(self, rest: float) -> None:
        process = self._process
        delay = process.habits.look_s * (0.5 + process.sim.random.random())
        process.sim.after(rest + delay, self._turn, process=process)

    def _turn(self) -> None:
        if self._stop.is_set():
            return
        self._process.acting = "watcher"
        self._look_in(self._look())


class SimThreads:
    """Stands in for the pool of threads that read from the store."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def submit(self, function: Callable[..., Any], *args: Any) -> None:
        self._process.call_in_thread(function, args, None)

    def shutdown(self, *, wait: bool = True) -> None:
        pass


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
