"""One attempt of a step: the user's function called, on the worker's loop or in a thread, within its timeout."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import types
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future as ThreadFuture
from typing import TYPE_CHECKING, Any, cast

from outlast.core.effects import InStep
from outlast.core.errors import StepError, StepTimeout, Suspended
from outlast.core.frames import keep_where, was_interrupted, where_of
from outlast.core.identity import here
from outlast.core.pending import Pending
from outlast.core.records import Effect
from outlast.core.telling import text_of_error

if TYPE_CHECKING:
    from outlast.core.definitions import Step
    from outlast.runtime.worker import Worker

Report = Callable[["Attempt", Any, BaseException | None], None]

_in_threads: Counter[str] = Counter()  # idempotency keys of attempts whose function runs in a thread of this process
_in_threads_lock = threading.Lock()


def runs_in_a_thread(idempotency_key: str) -> bool:
    """Tell whether a thread of this process still executes an attempt of this step, whatever became of its App."""
    return _in_threads[idempotency_key] > 0


def _count_thread(idempotency_key: str, change: int) -> None:
    with _in_threads_lock:
        _in_threads[idempotency_key] += change
        if not _in_threads[idempotency_key]:
            del _in_threads[idempotency_key]


@types.coroutine
def _turn() -> Generator[None]:
    """Wait for the next turn."""
    yield


class NotBegun(Exception):
    """The function was not called: after leave was given the process was frozen, or no thread was free for too long."""


class Attempt:
    """An attempt under way. `report(attempt, value, error)` is called once on the loop, unless it was abandoned.

    `quiet` says that its code no longer runs, so that it can send nothing more. `no_answer` says that the error it is
    reported with is one that Outlast made: its code was cut off, or gave up without an answer.
    """

    __slots__ = (
        "_abandoned",
        "_args",
        "_deadline",
        "_function",
        "_kwargs",
        "_lock",
        "_report",
        "_task",
        "_thread",
        "_timer",
        "_worker",
        "no_answer",
        "number",
        "on_quiet",
        "pending",
        "place",
        "quiet",
        "started",
    )

    def __init__(
        self,
        pending: Pending,
        arguments: tuple[Sequence[Any], dict[str, Any]],
        number: int,
        place: InStep,
        worker: Worker,
        deadline: float | None,
        report: Report,
    ) -> None:
        self.pending = pending
        step = cast("Step[..., Any]", pending.call.definition)
        self._function = step.in_attempt(place, worker.codec)
        if step.database is not None:
            worker.written_to.add(step.database)
        self._args, self._kwargs = arguments
        self.number = number
        self.place = place
        self.started = worker.now()
        self._worker = worker
        self._deadline = deadline  # of a `once` attempt, as its intent says
        self.quiet = self.no_answer = False
        self.on_quiet: Callable[[], None] | None = None
        self._report: Report | None = report
        self._abandoned = False
        self._task: asyncio.Task[None] | None = None
        self._thread: ThreadFuture[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lock = worker.lock if pending.effect is Effect.ONCE else None

    @property
    def holds_up(self) -> bool:
        """Whether its run cannot end before it has: a thread that was given up is not waited for."""
        return not self._abandoned or self._task is not None

    def begin(self) -> None:
        """Call the function."""
        loop = self._worker.loop
        if self._lock is not None:
            self._lock.once_begins(self.pending.call.settings.timeout or 0.0)
        context = contextvars.Context()
        context.run(here.set, self.place)
        if self.pending.call.definition.is_async:
            running = self._run()
            running.send(None)  # into its `try`, so that it sees a cancellation that comes before its task's first turn
            self._task = loop.create_task(running, name=self.place.step_id, context=context)
            return
        _count_thread(self.place.idempotency_key, +1)
        try:
            self._thread = self._worker.pool.submit(context.run, self._call, loop)
        except BaseException:
            _count_thread(self.place.idempotency_key, -1)
            raise
        self._thread.add_done_callback(lambda done: self._tell_loop(loop, done))

    def abandon(self) -> None:
        """Cancel it; what it still does or returns no longer matters to anyone."""
        self._abandoned = True
        self.place.given_up = True  # tells heartbeat() in a thread to stop
        if self.place.output is not None:
            self.place.output.close()
        if self._task is not None:
            self._task.cancel()
        if self._thread is not None and self._thread.cancel():
            self.quiet = True

    def drop(self) -> None:
        """Abandon it without a report."""
        self._report = None
        self.abandon()

    # -- async ---------------------------------------------------------------------

    async def _run(self) -> None:
        function, value = self._function, None
        error: BaseException | None = None
        limit: asyncio.Timeout | None = None
        try:
            await _turn()
            left = self._check_leave()
            if left is None:
                value = await function(*self._args, **self._kwargs)
            else:
                async with asyncio.timeout(left) as limit:
                    value = await function(*self._args, **self._kwargs)
        except asyncio.CancelledError as cancelled:
            if not self._abandoned and self._worker.loop_is_ending():
                self.drop()  # as if the process had died: it is no outcome of the step
            error = cancelled if self._abandoned else self._said(cancelled, "cancelled itself")
        except (KeyboardInterrupt, SystemExit) as asked:
            if was_interrupted(asked):
                self.drop()
                self._finish(None, asked)
                raise
            error = self._said(asked, "asked the process to exit")  # which is not for one step to decide
        except BaseException as raised:  # noqa: BLE001 - whatever a step raises is its outcome
            late = isinstance(raised, TimeoutError) and limit is not None and limit.expired()
            error = self._timed_out() if late else raised
        contextvars.Context().run(self._finish, value, error)  # what follows is no part of the step

    # -- in a thread -----------------------------------------------------------------

    def _call(self, loop: asyncio.AbstractEventLoop) -> Any:
        """Called in the thread."""
        if self._lock is None:
            return self._call_now(loop)
        try:
            self._lock.thread_begins()
        except OSError:  # nobody else could tell that it runs
            raise NotBegun from None
        try:
            return self._call_now(loop)
        finally:
            self._lock.thread_is_over()

    def _call_now(self, loop: asyncio.AbstractEventLoop) -> Any:
        left = self._check_leave()
        if left is not None:
            loop.call_soon_threadsafe(self._start_timer, loop, left, context=contextvars.Context())
        return self._function(*self._args, **self._kwargs)

    def _tell_loop(self, loop: asyncio.AbstractEventLoop, done: ThreadFuture[Any]) -> None:
        """Called in the thread, or where it was cancelled before it began."""
        _count_thread(self.place.idempotency_key, -1)
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits for it any more
            loop.call_soon_threadsafe(self._thread_done, done)

    def _start_timer(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        if not self.quiet:
            self._timer = loop.call_later(seconds, self._thread_timeout)

    def _thread_done(self, done: ThreadFuture[Any]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if done.cancelled():
            self._finish(None, asyncio.CancelledError())
            return
        error = done.exception()
        if isinstance(error, (asyncio.CancelledError, Suspended)) and not self._abandoned:
            error = self._said(error, "cancelled itself")
        elif isinstance(error, (KeyboardInterrupt, SystemExit)):
            error = self._said(error, "asked the process to exit")
        self._finish(None if error is not None else done.result(), error)

    def _thread_timeout(self) -> None:
        """A thread cannot be stopped: its attempt is over, and what it still returns is not taken."""
        self.place.given_up = True
        report, self._report = self._report, None
        if report is not None:
            report(self, None, self._timed_out())

    # -- both --------------------------------------------------------------------------

    def _check_leave(self) -> float | None:
        """Look once more, as late as can be, whether the function may be called; return the seconds it may take."""
        left = self.pending.call.settings.timeout
        if self._deadline is not None:
            left = min(left or 0.0, self._deadline - self._worker.now())  # a clock set back gives no more
        if self.place.given_up or not self._worker.holds_lease() or (left is not None and left <= 0):
            raise NotBegun
        return left

    def _finish(self, value: Any, error: BaseException | None) -> None:
        self.quiet = True
        report, self._report = self._report, None
        if report is not None:
            report(self, value, error)
        if self.on_quiet is not None:
            self.on_quiet()
        if report is None and self._thread is not None:  # given up long ago, it has kept its thread until now
            self._worker.claims.room_made()

    def _name(self) -> str:
        return f"step {self.place.step_id} of run {self.place.run_id}"

    def _said(self, error: BaseException, what: str) -> StepError:
        self.no_answer = True
        kind = f"{type(error).__module__}:{type(error).__qualname__}"
        text = text_of_error(error)
        said = f" ({type(error).__name__}: {text})" if text else ""
        told = StepError(f"{self._name()} {what}{said}", type_name=kind, text=text)
        keep_where(told, where_of(error))
        return told

    def _timed_out(self) -> StepTimeout:
        self.no_answer = True
        return StepTimeout(
            f"{self._name()}: attempt {self.number} ran longer than its timeout of "
            f"{self.pending.call.settings.timeout} s"
        )
