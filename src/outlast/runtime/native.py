"""The body of a native workflow: a task on the worker's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from typing import TYPE_CHECKING, Any, NoReturn, cast

from outlast.core.body import Outcome, failed
from outlast.core.closing import suspended
from outlast.core.effects import InBody
from outlast.core.errors import Suspended, WrongUse
from outlast.core.frames import was_interrupted
from outlast.core.identity import here
from outlast.core.native_scopes import NativeBranch
from outlast.core.pending import CallFuture
from outlast.core.transitions import Status
from outlast.runtime.notices import log

if TYPE_CHECKING:
    from outlast.core.engine import Engine
    from outlast.core.native_engine import NativeEngine
    from outlast.runtime.worker import Worker

OF_ASYNCIO = frozenset({"asyncio.futures", "asyncio.tasks", "asyncio.timeouts"})
"""Where the callbacks of `asyncio.sleep`, `wait`, `wait_for` and `timeout` are."""

NOTHING_RECORDED = (
    "run %s: the native workflow %s has ended, and nothing of what it did was recorded: after a crash all of it would "
    "have been done again; if it runs an agent, that lacks what records its calls (see the page on its framework)"
)

STOPPING_S = 10.0
"""So long the code of a stopped run may go on, cancelled, before that is worth a warning."""


class TaskBody:
    """An `async def` body on the worker's own loop, where it can do I/O and use threads."""

    worker: Worker
    """Who executes it, for adapters that keep a state of their own in its store."""

    def __init__(self, make: Callable[[], Any], tasks: set[asyncio.Task[Any]]) -> None:
        self._make = make
        self._tasks = tasks
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._result: tuple[Any, BaseException | None] | None = None
        self._dropped = False  # everything on the loop was cancelled: as if the process had died, there is no outcome
        self._leaving = False
        self._task: asyncio.Task[None] | None = None
        self._blocked: set[ThreadFuture[Any]] = set()  # what other threads wait for

    def begin(self, engine: Engine) -> None:
        self.engine = cast("NativeEngine", engine)
        context = contextvars.Context()
        context.run(here.set, InBody(self.engine, NativeBranch("main")))
        name = f"outlast-{engine.run_id}"
        self._task = self.loop.create_task(self._main(), name=name, context=context)
        self._tasks.add(self._task)
        self._task.add_done_callback(self._over)

    async def _main(self) -> None:
        try:
            self._result = (await self._make(), None)
        except (KeyboardInterrupt, SystemExit) as asked:
            if was_interrupted(asked):
                raise
            self._end_with(asked)
        except BaseException as error:  # noqa: BLE001 - whatever a body raises is how it ended
            self._end_with(error)

    def _end_with(self, error: BaseException) -> None:
        self._dropped = self.worker.loop_is_ending()
        self._result = (None, error)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._result is None:  # it was cancelled before it began
            self._end_with(asyncio.CancelledError())
        if not self._dropped:
            self.engine.stir()

    # -- what the engine asks ----------------------------------------------------

    @property
    def blocking(self) -> bool:
        """Whether the code that asks is in a thread of its own, without a loop."""
        if threading.get_ident() == self._thread:
            return False
        return asyncio._get_running_loop() is None

    def is_here(self) -> bool:
        return threading.get_ident() == self._thread and asyncio._get_running_loop() is self.loop

    def soon(self, act: Callable[[], None]) -> None:
        self.loop.call_soon(act, context=contextvars.Context())

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        self.loop.call_later(seconds, act, context=contextvars.Context())

    def has_timers(self) -> bool:
        """Tell whether code of the body sleeps, or has set itself a limit, by asyncio: both are done when time passes.

        Asyncio's own loops know their timers, and in which context each was set; another loop's are not seen. Those of
        libraries, such as the limits of their connections, are no reason to stay: what they are for is done again.
        """
        scheduled = getattr(self.loop, "_scheduled", ())
        return any(self._is_of_body(handle) for handle in scheduled if not handle.cancelled())

    def _is_of_body(self, handle: Any) -> bool:
        place = handle._context.get(here)
        if not isinstance(place, InBody) or place.ops is not self.engine:
            return False
        return getattr(handle._callback, "__module__", "") in OF_ASYNCIO

    def turn(self) -> bool:
        """Let due timers do what they are for. The rest of the code goes on by itself."""
        with self.engine.loop.at_work():
            self.engine.loop.drain()
        return True

    def finished(self) -> Outcome | None:
        if self._result is None or self._dropped:
            return None
        calls = [p for p in self.engine.calls.values() if not p.done and not p.call.detached]
        if not self._leaving:
            self._leaving = True
            for pending in calls:
                pending.future.cancel()
        if any(not pending.done for pending in calls):  # a `once` attempt, which comes to an outcome first
            return None
        value, error = self._result
        if error is None:
            if self.engine.last_seq == 0 and not self.engine.resumes:
                log.warning(NOTHING_RECORDED, self.engine.run_id, self.engine.workflow)
            return Outcome(Status.SUCCEEDED, value=value)
        return failed(self.engine, error)

    def raised(self) -> BaseException | None:
        return self._result[1] if self._result is not None else None

    def spins(self) -> bool:
        return False

    def cancel(self) -> None:
        if self._task is not None and not self.engine.compensating:
            self._task.cancel()

    def refuse(self) -> NoReturn:
        raise suspended(self.engine.run_id)

    def stop(self) -> None:
        self.engine.loop.stop()
        for future in list(self._blocked):
            with contextlib.suppress(asyncio.InvalidStateError):
                future.set_exception(suspended(self.engine.run_id))
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            self.loop.call_later(STOPPING_S, self._still_there, context=contextvars.Context())

    def _still_there(self) -> None:
        if self._task is not None and not self._task.done():
            log.warning(
                "run %s was stopped here, and the body of workflow %s goes on, without effect on the run; let its "
                "`except` clauses pass CancelledError on",
                self.engine.run_id,
                self.engine.workflow,
            )
            self._task.cancel()

    # -- in other threads ----------------------------------------------------------

    def hand_over(self, begin: Callable[[], asyncio.Future[Any]]) -> asyncio.Future[Any]:
        """Issue a call on the loop; return what the caller can wait for: by `block`, or on the loop of its thread."""
        issued: ThreadFuture[asyncio.Future[Any]] = ThreadFuture()
        self._run_on_loop(issued, contextvars.copy_context(), begin)
        future: asyncio.Future[Any] = self._wait(issued)
        try:
            theirs = asyncio.get_running_loop()
        except RuntimeError:
            return future
        return asyncio.wrap_future(self._outcome_of(future), loop=theirs)

    def block(self, future: asyncio.Future[Any]) -> Any:
        if not self.blocking:
            raise WrongUse(f"run {self.engine.run_id}: this would block the worker's loop; await the call instead")
        return self._wait(self._outcome_of(future))

    def sleep(self, seconds: float) -> None:
        self.block(self.hand_over(lambda: self.engine.timer(self.engine.now() + seconds)))

    def _wait(self, future: ThreadFuture[Any]) -> Any:
        self._blocked.add(future)
        if self.engine.closed:  # it was stopped meanwhile: nobody would end the wait
            self._blocked.discard(future)
            raise suspended(self.engine.run_id)
        try:
            return future.result()
        finally:
            self._blocked.discard(future)

    def _run_on_loop(self, into: ThreadFuture[Any], context: contextvars.Context, act: Callable[[], Any]) -> None:
        def run() -> None:
            try:
                result = context.run(act)
            except BaseException as error:  # noqa: BLE001 - it belongs to the code in the thread
                if not into.done():
                    into.set_exception(error)
            else:
                if not into.done():
                    into.set_result(result)

        try:
            self.loop.call_soon_threadsafe(run, context=contextvars.Context())
        except RuntimeError:  # the loop is closed
            raise suspended(self.engine.run_id) from None

    def _outcome_of(self, future: asyncio.Future[Any]) -> ThreadFuture[Any]:
        """Return a future that has the outcome of a call, for another thread."""
        outcome: ThreadFuture[Any] = ThreadFuture()

        def given_up(over: ThreadFuture[Any]) -> None:
            if over.cancelled():
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    self.loop.call_soon_threadsafe(future.cancel)

        def done(ended: asyncio.Future[Any]) -> None:
            if outcome.done():
                return
            if isinstance(ended, CallFuture) and ended.deferred:
                ended.deferred = False
                outcome.set_exception(asyncio.CancelledError())
            elif ended.cancelled():
                outcome.set_exception(Suspended() if self.engine.closed else asyncio.CancelledError())
            elif (error := ended.exception()) is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(ended.result())

        outcome.add_done_callback(given_up)
        ignored: ThreadFuture[None] = ThreadFuture()
        self._run_on_loop(ignored, contextvars.Context(), lambda: future.add_done_callback(done))
        return outcome
