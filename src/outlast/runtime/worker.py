"""The worker of a process: claims runs, executes them, hands them back.

It lives on one event loop, together with the code of async steps. Two threads
stand beside it: the writer (all commits, and the lease) and the watcher (dead peers,
changes by others). The rules it keeps:

- it executes a run only after the commit that made it the owner;
- it starts an effect only while its lease holds by its own clock;
- when its lease is lost it stops all its runs from outside, and begins again as a new worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from outlast.core.errors import StoreError
from outlast.core.prices import Prices
from outlast.core.records import RunRow, WorkerRow
from outlast.core.transitions import Reason
from outlast.runtime import lines, registry
from outlast.runtime.blocked import where_is
from outlast.runtime.claims import Claims
from outlast.runtime.clock import SystemClock
from outlast.runtime.contained import contain_tasks
from outlast.runtime.deliveries import Deliveries
from outlast.runtime.execution import Execution
from outlast.runtime.lines import Declared
from outlast.runtime.liveness import LockFile
from outlast.runtime.notices import Notices, log, of_error
from outlast.runtime.places import Places
from outlast.runtime.setbacks import Setbacks
from outlast.runtime.step_threads import StepThreads
from outlast.runtime.watcher import ToldOnLoop, Watcher
from outlast.runtime.writer import Lease, Writer
from outlast.stores.databases.source import Source
from outlast.stores.protocol import Store
from outlast.stores.verbs import Answer, Beaten, Failed, Fenced, Finish, Leave, Register, TakenOver, TakeOver

if TYPE_CHECKING:
    from outlast.core.codec import Codec
    from outlast.runtime.attempts import Attempt

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

REGISTER_AGAIN_S = 1.0
NATIVE_BODIES_END_S = 1.0
"""So long a worker that leaves waits for the clean-up of native bodies, which are cancelled."""


class Worker:
    """See the top of this file. All methods are called on its loop unless they say otherwise."""

    def __init__(
        self,
        *,
        store: Store,
        codec: Codec,
        writer: Writer,
        clock: SystemClock,
        notices: Notices,
        readers: ThreadPoolExecutor,
        lock_folder: str | None,
        lease_s: float,
        park_after: float,
        worker_concurrency: int,
        max_steps: int,
        max_threads: int,
        max_crashes: int,
        version: str,
        on_end: Callable[[RunRow], None],
        watcher: Callable[..., Watcher] = Watcher,
        prices: Prices | None = None,
    ) -> None:
        self.store = store
        self.now = store.now
        self.codec = codec
        self.writer = writer
        self.notices = notices
        self.park_after = park_after
        self.version, self.prices = version, prices or Prices()
        self.python = f"{sys.version_info.major}.{sys.version_info.minor}"
        self.loop = asyncio.get_running_loop()
        self.pool = StepThreads(max_threads)
        self.executions: dict[int, Execution] = {}
        self.setbacks = Setbacks()
        self.native_bodies: set[asyncio.Task[Any]] = set()
        self.sending: set[Attempt] = set()  # `once` attempts whose code may still run, whatever became of their runs
        self.first_seen: dict[str, float] = {}  # facts that doubts go by -> lease clock
        self.written_to: set[Source] = set()  # the user's databases that steps were recorded in
        self.code_ended: dict[tuple[str, int], tuple[float, BaseException | None]] = {}  # see Doubt
        self.doubts_told: set[tuple[str, int]] = set()
        self.id, self.draining = "", False
        self.clock = clock
        self._readers = readers
        self._lock_folder = lock_folder
        self._lease_s = lease_s
        self._deliveries = Deliveries(self)
        self.claims = Claims(self, worker_concurrency, max_crashes)
        self.places = Places(max_steps, self.holds_lease, self.claims.room_made)
        self.declared = Declared(writer)
        self._max_crashes = max_crashes
        self._on_end = on_end
        self.row = WorkerRow(id="", pid=os.getpid())
        self.lock: LockFile | None = None
        self._make_watcher = watcher
        self._watcher: Watcher | None = None
        self._judging: set[str] = set()
        self._took: dict[str, TakenOver] = {}  # by the dead: what is sent again is answered alike
        self._emptied: asyncio.Event = asyncio.Event()
        self._loop_thread = 0
        self._presence: asyncio.Task[None] | None = None

    # -- coming and going --------------------------------------------------------------

    async def start(self) -> None:
        """Register, and look for work from now on."""
        self._loop_thread = threading.get_ident()
        contain_tasks(self.loop)
        self._presence = self.loop.create_task(_wait_for_ever(), name="outlast-worker")
        await self._register()

    async def _register(self) -> None:
        while True:
            lease = Lease(self.store, self._lease_s)
            answer = await self.writer.ask(Register(worker=self._new_row(), lease_s=self._lease_s))
            if isinstance(answer, Beaten):
                break
            if not isinstance(answer, Fenced):
                raise StoreError(f"this process could not become a worker: {answer}")
            if self.lock is not None:  # the answer took so long that this worker has been replaced: once more
                self.lock.release()
        if self.draining:  # it was asked to leave meanwhile
            self.writer.submit(Leave(worker=self.id), lambda _: None)
            return
        lease.until = answer.lease_until
        self.writer.worker, self.writer.lease, self.writer.outside = self.id, lease, self
        self.notices("worker.started", worker=self.id)
        self._watcher = self._make_watcher(
            self.store, self.clock, ToldOnLoop(self), self.id, registry.names, self._lease_s, lines.queue_names
        )
        self._watcher.start()
        self.declared.all()
        self.claims.look()

    def _new_row(self) -> WorkerRow:
        """Take a new name, and a lock under it."""
        self.id = f"{socket.gethostname()[:40]}-{os.getpid()}-{os.urandom(6).hex()}"
        row = WorkerRow(
            id=self.id,
            pid=os.getpid(),
            host=socket.gethostname(),
            boot=self.store.lease_epoch(),
            version=self.version,
            python=self.python,
            serves=registry.names(),
        )
        if self._lock_folder is not None:
            self.lock = LockFile(self._lock_folder, self.id, self.clock.boot)
            row.lock_path, row.lock_inode = self.lock.path, self.lock.inode
        self.row = row
        return row

    def _say_what_it_serves(self) -> None:
        """Tell other processes which runs are executed here, when more has been imported since it was told."""
        self.declared.all()
        names = registry.names()
        if names != self.row.serves and self.holds_lease() and not self.draining:
            self.row.serves = names
            self.writer.submit(Register(worker=self.row, lease_s=self._lease_s), lambda _: None)

    async def drain(self, grace: float) -> None:
        """Claim nothing more, hand every run back:

        at once between steps, after the step in flight otherwise, within `grace` seconds.
        """
        if not self.draining:
            self.draining = True
            self.notices("worker.draining", worker=self.id, runs=len(self.executions))
        for execution in list(self.executions.values()):
            execution.release()
        self._emptied.clear()
        if (self.executions or self.claims.busy) and not self.loop_is_ending():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), grace)

    async def stop(self) -> None:
        """Leave: what is still in hand is stopped from outside, and its runs go back to the queue."""
        self.draining = True
        sending = bool(self.sending)
        for execution in list(self.executions.values()):
            execution.stop()
        self.executions.clear()
        await asyncio.sleep(0)  # lets cancelled steps see it
        if self.native_bodies:
            await asyncio.wait(self.native_bodies, timeout=NATIVE_BODIES_END_S)
        if self._watcher is not None:
            await self.loop.run_in_executor(self._readers, self._watcher.stop)
        lease = self.writer.lease
        if lease is not None and not lease.lost and not sending:
            # With a `once` attempt under way nobody may believe that this process is gone: what it has begun (a
            # thread, a task of its own) may still send. Then the lease and the lock decide.
            with contextlib.suppress(StoreError):  # the store is away: here, too, the lease and the lock decide
                await self.writer.ask(Leave(worker=self.id), patience=2.0)
        self.writer.lease, self.writer.outside = None, None
        if self.lock is not None and not sending:
            self.lock.release()
        self.pool.close()
        if self._presence is not None:
            self._presence.cancel()
        self.notices("worker.stopped", worker=self.id)

    # -- the lease -----------------------------------------------------------------------

    def lease_renewed(self) -> None:
        """The lease holds: what was held back while it did not may start now."""
        self.places.lease_renewed()
        self.claims.lease_renewed()

    def lease_lost(self, why: str) -> None:
        """Another worker has taken over: stop everything from outside, and begin again as a new worker."""
        self.notices("worker.lost_lease", worker=self.id, why=why, runs=len(self.executions))
        self.id = ""  # until it is registered anew, nothing that was claimed before may still be begun here
        for execution in list(self.executions.values()):
            execution.stop()
        self.executions.clear()
        self.places.clear()
        lock, self.lock = self.lock, None
        if lock is not None:
            lock.give_up_when_idle(self.loop)
        if self._watcher is not None:
            watcher, self._watcher = self._watcher, None
            self._readers.submit(watcher.stop)
        if not self.draining:
            self.loop.create_task(self._register_again())

    async def _register_again(self) -> None:
        while not self.draining:  # when this process leaves, its writer sends nothing any more
            try:
                await self._register()
            except (StoreError, OSError) as error:  # OSError: of the lock file
                if self.lock is not None:
                    self.lock.release()
                log.error("this process cannot become a worker again, and goes on trying: %s", error)
                await asyncio.sleep(REGISTER_AGAIN_S)
            else:
                return

    def holds_lease(self) -> bool:
        """Tell whether the lease holds by this process's own clock."""
        lease = self.writer.lease
        return lease is not None and lease.holds()

    # -- time ----------------------------------------------------------------------------

    def at(self, when: float, act: Callable[..., None], *args: Any) -> asyncio.TimerHandle:
        """Call `act` at this time of the store, or earlier: it looks itself whether it is time (clocks can be set)."""
        return self.loop.call_later(min(max(0.0, when - self.store.now()), 30.0), act, *args)

    async def read(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Read from the store in a thread."""
        return await self.loop.run_in_executor(self._readers, function, *args)

    # -- what executions need ------------------------------------------------------------

    def forget(self, execution: Execution) -> None:
        """The run is no longer this worker's."""
        execution.stop()
        if self.executions.get(execution.row.pk) is execution:
            del self.executions[execution.row.pk]
        self.look_due()
        self.check_empty()
        self.claims.room_made(execution.row.queue)

    def run_ended(self, execution: Execution, end: Finish, woke: Sequence[int], error: BaseException | None) -> None:
        """The run's end is committed."""
        row = execution.row
        row.status, row.result, row.error, row.owner = end.status, end.result, end.error, None
        self.forget(execution)
        self.setbacks.forget(row.pk)
        if not self.notices.quiet:
            told = of_error(error)
            self.notices("run.ended", run=row.id, workflow=row.workflow, status=row.status.value, **told)
        self._on_end(row)
        self.wake(woke)

    def wake(self, pks: Sequence[int]) -> None:
        """Something was put into the inbox of these runs."""
        if not pks:
            return
        if any(pk in self.executions for pk in pks):
            self.fetch_inbox_soon()
        if any(pk not in self.executions for pk in pks):
            self.claims.look()

    def look_at_owned(self) -> None:
        """A run may have been ended by force: stop what is no longer this worker's."""
        self._deliveries.look_at_owned()

    def fetch_inbox_soon(self) -> None:
        """Something may have arrived for a run in memory."""
        self._deliveries.fetch_soon()

    def lost_run(self, execution: Execution, answer: Answer | StoreError) -> None:
        """A write was refused: the run is not ours as we hold it. Let it go; if it is still ours, load it again."""
        if execution.closed:
            return
        if isinstance(answer, Failed):
            self.give_up(execution, f"the store refused a record of it: {answer.why}")
            return
        self.notices("run.lost", run=execution.row.id, why=str(answer))
        self.forget(execution)
        if not (isinstance(answer, Fenced) and answer.worker_lost):
            self.claims.reconcile_soon()

    def give_up(self, execution: Execution, why: str) -> None:
        """The run cannot go on here: stop it, and leave it stuck for a person to look at."""
        if not execution.closed:
            self.forget(execution)
            self.claims.cannot_run(execution.row, why)

    def look_at_ends(self) -> None:
        """A run ended or got stuck: those who wait for it look again."""
        self._on_end(RunRow(pk=0, id="", incarnation="", workflow=""))

    def check_empty(self) -> None:
        """Let `drain` know when nothing is in hand any more."""
        if not self.executions and not self.claims.busy:
            self._emptied.set()

    def look_due(self) -> None:
        """When the next run is due may have changed."""
        if self._watcher is not None:
            self._watcher.look_due()

    # -- what the watcher tells ----------------------------------------------------------

    def changed(self) -> None:
        """Another process wrote something."""
        self._deliveries.others_wrote()
        self.look_at_ends()

    def take_over(self, dead: str, gone: bool, evidence: str, dropped: bool) -> None:
        """Put a dead worker's runs back in the queue, if nobody else did."""
        if dead in self._judging or self.draining:
            return
        self._judging.add(dead)

        def done(answer: Answer | StoreError) -> None:
            self._judging.discard(dead)
            if isinstance(answer, TakenOver) and self._took.get(dead) != answer:
                self._took[dead] = answer
                runs, stuck = len(answer.runs), len(answer.stuck)
                self.notices("worker.took_over", worker=self.id, dead=dead, evidence=evidence, runs=runs, stuck=stuck)
                self.claims.look()
                if answer.stuck:
                    self.look_at_ends()
                    self.loop.create_task(self._tell_stuck(answer.stuck))

        verb = TakeOver(worker=self.id, dead=dead, gone=gone, dropped=dropped, max_crashes=self._max_crashes)
        self.writer.submit(verb, done)

    async def _tell_stuck(self, pks: Sequence[int]) -> None:
        """Name the runs that a takeover has left stuck."""
        for pk in pks:
            with contextlib.suppress(StoreError):
                row = await self.read(self.store.run_by_pk, pk)
                if row is not None:
                    self.notices("run.stuck", run=row.id, reason=Reason.CRASH_LOOP.value, detail=row.detail)

    def silent_loop(self, seconds: float) -> None:
        """The loop does not answer: say which step holds it. (Called in the watcher's thread.)"""
        self.notices("loop.blocked", seconds=round(seconds, 1), where=where_is(self._loop_thread))

    def loop_is_ending(self) -> bool:
        """Whether everything on this loop is being cancelled, as `asyncio.run` does when its main task has ended.

        It cancels all tasks before any of them sees it, and nobody else has a reason to cancel this one.
        """
        return self._presence is not None and self._presence.cancelling() > 0

    def answered(self) -> None:
        """The loop turned. The watcher asks each second."""
        if self._watcher is not None:
            self._watcher.loop_answered()
        self._say_what_it_serves()
        self._deliveries.look_if_doubted()


async def _wait_for_ever() -> None:
    await asyncio.get_running_loop().create_future()
