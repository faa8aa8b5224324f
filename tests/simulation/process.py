"""A simulated process: a real App on a simulated loop. It can crash, freeze, be drained, and have a wrong clock."""

from __future__ import annotations

import contextlib
import functools
import os
from asyncio import Future, Handle
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.runtime import liveness
from outlast.runtime.app import App
from outlast.runtime.ends import Ends
from outlast.runtime.following import Readers
from outlast.runtime.notices import Notice
from outlast.runtime.worker import Worker
from tests.simulation.loop import SimLoop
from tests.simulation.storage import Clock, Wire
from tests.simulation.threads import SimThreads, SimWatcher, SimWriter

if TYPE_CHECKING:
    from tests.simulation.simulator import Event, Simulator
    from tests.simulation.storage import Shared
    from tests.simulation.world import World

LEASE_S = 4.0
PARK_AFTER_S = 0.5


@dataclass
class Limits:
    """What a process may do at once, and whether it executes runs at all."""

    worker_concurrency: int = 10_000
    max_steps: int = 1_000
    max_crashes: int = 10
    worker: bool = True


@dataclass
class Habits:
    """How long things take in a process, on average in seconds, and how often they go wrong."""

    turn_s: float = 0.0005
    gather_s: float = 0.0005
    commit_s: float = 0.003
    read_s: float = 0.002
    answer_s: float = 0.0
    look_s: float = 0.3
    one_by_one: bool = False  # whether other threads get in between the callbacks of one turn
    stall: float = 0.0  # how often a turn of the loop comes late
    stall_s: float = 0.2
    lost_answers: float = 0.0
    crash_at_commit: float = 0.0
    jolt: float = (
        0.0  # how often something happens to it just after a commit, or while a step or its request is under way
    )


class SimApp(App):
    """An App put together from simulated parts."""

    def __init__(self, process: Process, lock_folder: Path | None, limits: Limits) -> None:
        super().__init__(
            "memory://",
            worker=limits.worker,
            on_event=process.heard,
            lease=LEASE_S,
            park_after=PARK_AFTER_S,
            worker_concurrency=limits.worker_concurrency,
            max_steps=limits.max_steps,
            max_crashes=limits.max_crashes,
        )
        self.process = process
        self.clock = process.clock  # type: ignore[assignment]
        self._lock_folder = lock_folder

    async def __aenter__(self) -> App:
        process = self.process
        self._loop = process.loop
        self._store = process.wire  # type: ignore[assignment]
        self._pid = os.getpid()
        self._readers = SimThreads(process)  # type: ignore[assignment]
        self.ends = Ends(self._store, self._read, self._executes)  # type: ignore[arg-type]
        self.readers = Readers(self._store, self._executes)  # type: ignore[arg-type]
        self.writer = SimWriter(process, self._store, self.clock, self.notices)
        self.writer.start()
        if not self._wants_worker:
            return self
        self._worker = Worker(
            store=self._store,  # type: ignore[arg-type]
            codec=self.codec,
            writer=self.writer,
            clock=self.clock,
            notices=self.notices,
            readers=self._readers,
            lock_folder=self._lock_folder,
            version=self.version,
            on_end=self.ends.tell,
            watcher=functools.partial(SimWatcher, process),
            **self._limits,  # type: ignore[arg-type]
        )
        await self._worker.start()
        return self

    @property
    def worker(self) -> Worker | None:
        return self._worker


class Process:
    """See the top of this file."""

    def __init__(
        self,
        sim: Simulator,
        shared: Shared,
        world: World,
        name: str,
        habits: Habits,
        limits: Limits,
        lock_folder: Path | None,
    ) -> None:
        self.sim = sim
        self.world = world
        self.name = name
        self.habits = habits
        self.gone = False
        self.open = False
        self.leaving = False
        self.frozen_until = 0.0
        self.acting = ""
        self.on_gone: list[Callable[[], None]] = []
        self.clock = Clock(sim)
        self.loop = SimLoop(self)
        self.loop.set_exception_handler(self._unhandled)
        self.wire = Wire(self, shared)
        self.app = SimApp(self, lock_folder, limits)
        self.limits = limits
        self.unhandled: list[str] = []  # what nobody caught on its loop
        self.pages: list[list[Any]] = []  # what its steps have returned, and go on changing
        self._leave: Future[float | None] = self.loop.create_future()
        self._turn: Event | None = None
        self._arriving: dict[str, deque[Handle]] = defaultdict(deque)
        self.spawn(self._live())

    def __repr__(self) -> str:
        return self.name

    # -- its life ----------------------------------------------------------------------

    async def _live(self) -> None:
        await self.app.__aenter__()
        self.open = True
        self.sim.tell(self.name, "is open")
        grace = await self._leave
        self.open = False
        await self.app.drain(grace)
        await self.app.close()
        self.sim.tell(self.name, "has left")
        self._end()

    def drain(self, grace: float) -> None:
        """Hand everything back and leave, in order."""
        if not self._leave.done():
            self.leaving = True
            self.sim.tell(self.name, "is asked to leave")
            self._leave.set_result(grace)
            self.plan_turn()

    def crash(self) -> None:
        """It is no more. What it sent to the world is still on its way."""
        if self.gone:
            return
        self.sim.tell(self.name, "CRASHES")
        for lock in self._locks():  # what the kernel does
            lock._close(unlink=False)
        self._end()

    def _locks(self) -> list[liveness.LockFile]:
        """Return the locks that it holds: its worker's, and those of workers that it was before."""
        return [lock for lock in liveness._held.values() if getattr(lock._clock, "__self__", None) is self.clock]

    def _end(self) -> None:
        self.gone = True
        self.open = False
        for tell in self.on_gone:
            tell()

    def freeze(self, seconds: float) -> None:
        """It stands still, as under SIGSTOP, and goes on later as if nothing had been."""
        self.sim.tell(self.name, "freezes", f"for {seconds:.3f} s")
        self.frozen_until = max(self.frozen_until, self.sim.now + seconds)

    def dispose(self) -> None:
        """Clear up after a schedule."""
        self.gone = True
        worker = self.app.worker
        if worker is not None:
            for execution in list(worker.executions.values()):
                with contextlib.suppress(BaseException):
                    execution.engine.stop()
        for lock in self._locks():
            lock.release()
        self.loop.dispose()

    def jolt(self) -> None:
        """Perhaps: the worst moments are those at which it has just done something."""
        sim = self.sim
        if sim.chance(self.habits.jolt):
            harm = sim.random.choice([self.crash, self.crash, self._freeze_long, self._cut_off])
            sim.after(sim.delay(sim.random.choice([0.001, 0.05, 0.5])), self._suffer, harm, process=self)

    def _suffer(self, harm: Callable[[], None]) -> None:
        if self.habits.jolt:  # else the weather is calm by now
            harm()

    def _freeze_long(self) -> None:
        self.freeze(LEASE_S * self.sim.random.choice([1.2, 2.0, 5.0]))

    def _cut_off(self) -> None:
        self.wire.cut_until = self.sim.now + LEASE_S * self.sim.random.choice([0.3, 1.2, 2.0])
        self.sim.tell(self.name, "cut off until", self.wire.cut_until)

    # -- moving it -----------------------------------------------------------------------

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Start a task on its loop."""
        task = self.loop.create_task(coroutine)
        self.plan_turn()
        return task

    def plan_turn(self) -> None:
        """See to it that its loop turns when it has something to do."""
        due = self.loop.next_turn()
        if due is None or self.gone:
            return
        sim, habits = self.sim, self.habits
        delay = sim.delay(habits.stall_s if sim.chance(habits.stall) else habits.turn_s)
        when = max(due, sim.now) + delay
        if self._turn is not None:
            if self._turn.when <= when:
                return
            self._turn.cancelled = True
        self._turn = sim.at(when, self._take_turn, process=self)

    def _take_turn(self) -> None:
        self._turn = None
        self.acting = "loop"
        self.loop.turn(one_by_one=self.habits.one_by_one)
        self.plan_turn()

    def deliver(self, handle: Handle) -> None:
        """Bring a callback from one of its threads to its loop; those of one thread arrive in order."""
        waiting = self._arriving[self.acting]
        if not waiting and self.habits.answer_s == 0:
            self.loop.put(handle)
            self.plan_turn()
        else:
            waiting.append(handle)
            self.sim.after(self.sim.delay(self.habits.answer_s), self._arrive, self.acting, process=self)

    def _arrive(self, thread: str) -> None:
        self.loop.put(self._arriving[thread].popleft())
        self.plan_turn()

    def call_in_thread(self, function: Callable[..., Any], args: tuple[Any, ...], future: Future[Any] | None) -> None:
        """Call a function a little later, and bring its outcome to the loop."""
        self.sim.after(self.sim.delay(self.habits.read_s), self._call, function, args, future, process=self)

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], future: Future[Any] | None) -> None:
        value: Any = None
        error: BaseException | None = None
        self.acting = "reader"
        try:
            value = function(*args)
        except Exception as raised:  # noqa: BLE001 - it belongs to whoever asked
            error = raised
        if future is not None:
            self.loop.call_soon_threadsafe(_settle, future, value, error)

    # -- hearing of it ---------------------------------------------------------------------

    def heard(self, notice: Notice) -> None:
        self.sim.tell(self.name, notice.name, notice.data)

    def _unhandled(self, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.unhandled.append(f"nobody caught on the loop of {self.name}: {context.get('message')}: {error!r}")


def _settle(future: Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)
