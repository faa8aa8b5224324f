"""The event loop of one run: a pure scheduler with no sockets, threads or clock.

It holds a queue of ready callbacks and a set of timers. Its time stands still
while it drains and is set from outside to the time of the event delivered
last. Nothing in it depends on memory addresses, on the wall clock or on other
runs, so the same events lead to the same calls in the same order.

Three things of asyncio need care (each is tested):

- asyncio keeps tasks and futures in sets, so tasks hash by order of creation; see `futures.py` for the others.
- `asyncio.as_completed` puts bare coroutines into a set before they are tasks.
  Calls hash by order of creation, too; other coroutines are refused there.
- Before Python 3.12 `asyncio.wait_for` runs its coroutine in a task of its own.
  That task continues its parent's branch, so identities are the same everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import heapq
import math
import sys
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from threading import get_ident
from typing import Any, TypeVarTuple

from outlast.core.closing import aclose, end
from outlast.core.effects import InBody
from outlast.core.errors import LostRun, NotDeterministic
from outlast.core.frames import was_interrupted
from outlast.core.futures import RunFuture, check_set, order_gather
from outlast.core.identity import Branch, here
from outlast.core.spawners import spawner_of

Ts = TypeVarTuple("Ts")

CALLBACKS_PER_DRAIN = 10_000
"""A drain ends after this many callbacks even when more are ready, live and in replay alike."""


class RunTask(asyncio.Task[Any]):
    """A task that hashes by order of creation in its branch, so that sets of tasks iterate alike everywhere.

    While it is being made it hashes by address: asyncio then enters it into a set of all tasks of all
    runs, where tasks of one ordinal would be in each other's way.
    """

    ordinal: int | None = None
    context: contextvars.Context

    def __hash__(self) -> int:
        ordinal = self.ordinal
        return object.__hash__(self) if ordinal is None else ordinal


class RunHandle:
    """A callback that is ready to be called."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context")

    def __init__(self, callback: Callable[..., object], args: Any, context: contextvars.Context | None) -> None:
        self._callback = callback
        self._args = args
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled


class RunTimer(asyncio.TimerHandle):
    """A timer of a run: it has an identity and fires when its event is delivered."""

    key: str
    ordinal: int
    cause: int


class RunLoop(asyncio.AbstractEventLoop):
    """The scheduler of one run. `drain()` is the only way it moves."""

    _outlast_run_loop = True

    def __init__(self) -> None:
        self.now = 0.0
        self.seq = 0  # of the event delivered last
        self.tasks: list[RunTask] = []
        self.timers: dict[str, RunTimer] = {}
        self.unhandled: list[dict[str, Any]] = []
        self.trespass: LostRun | None = None  # somebody outside tried to wake the body
        self.on_trespass: Callable[[], None] = lambda: None  # called in whatever thread that was
        self._ready: deque[Any] = deque()  # RunHandle and RunTimer
        self._heap: list[tuple[float, int, RunTimer]] = []
        self._timer_count = 0
        self._most_tasks = 64  # kept before those that are done are let go
        self._asyncgens: dict[int, tuple[Any, contextvars.Context]] = {}
        self._thread = 0
        self._outside: list[tuple[Any, int, Any]] = []  # what to go back to when the loop has done its work
        self._closed = False

    # -- driving it ------------------------------------------------------

    def drain(self) -> bool:
        """Run ready callbacks until none is left; False when the limit ended it first."""
        if self._closed:
            return True
        ready = self._ready
        for _ in range(CALLBACKS_PER_DRAIN):
            if not ready:
                return True
            handle = ready.popleft()
            if handle._cancelled:
                continue
            try:
                handle._context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt) as asked:
                if was_interrupted(asked):
                    raise
                continue  # its task has it too, and that alone shall end
            except BaseException as error:  # noqa: BLE001 - as asyncio's loops do: what a callback raises ends nothing
                self.unhandled.append({"message": f"Exception in callback {handle._callback!r}", "exception": error})
        return not ready

    def at_work(self) -> RunLoop:
        """Be this thread's running loop for a `with` block. Nothing of the loop moves outside of one."""
        return self

    def __enter__(self) -> None:
        self._outside.append((events._get_running_loop(), self._thread, sys.get_asyncgen_hooks()))
        self._thread = get_ident()
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(self._keep_asyncgen, _ignore_asyncgen)

    def __exit__(self, *_: object) -> None:
        loop, self._thread, hooks = self._outside.pop()
        sys.set_asyncgen_hooks(*hooks)
        events._set_running_loop(loop)

    def is_here(self) -> bool:
        """Tell whether the caller is code of this loop. (Asking asyncio for the running loop is slower by far.)"""
        return get_ident() == self._thread

    def next_timer(self) -> RunTimer | None:
        """Return the timer that is due first; the one created first among equals."""
        heap = self._heap
        while heap:
            timer = heap[0][2]
            if self.timers.get(timer.key) is timer:
                return timer
            heapq.heappop(heap)
        return None

    def fire(self, timer: RunTimer) -> None:
        """Make a timer's callback ready."""
        del self.timers[timer.key]
        self._ready.append(timer)

    def unfinished(self) -> list[RunTask]:
        """Return the tasks that are not done, in order of creation."""
        self.tasks = [task for task in self.tasks if not task.done()]
        return self.tasks

    def stop(self) -> None:
        """End the run's code from outside.

        The loop never turns again, its coroutines are ended, what they raise is dropped.
        """
        if self._closed:
            return
        if self._thread:
            raise NotDeterministic("a workflow body cannot stop its own loop; let it return, or raise")
        self._closed = True
        with self.at_work():
            while self.tasks or self._asyncgens:  # clean-up may make more of them
                while self.tasks:
                    task = self.tasks.pop()
                    if not task.done():
                        task._log_destroy_pending = False  # type: ignore[attr-defined]
                        end(task.get_coro(), task.context)
                if self._asyncgens:
                    generator, context = self._asyncgens.popitem()[1]
                    closing = aclose(generator)
                    with contextlib.suppress(BaseException):
                        context.run(closing.send, None)
                    end(closing, context)
        self._ready.clear()
        self.timers.clear()

    def open_asyncgens(self) -> list[Any]:
        """Return the async generators that are still open, for the end of the run to close; it keeps them no longer."""
        kept, self._asyncgens = list(self._asyncgens.values()), {}
        return [generator for generator, _ in kept if generator.ag_frame is not None]

    def _keep_asyncgen(self, generator: Any) -> None:
        self._asyncgens[id(generator)] = (generator, contextvars.copy_context())
        if not len(self._asyncgens) % 64:
            self._asyncgens = {key: kept for key, kept in self._asyncgens.items() if kept[0].ag_frame is not None}

    # -- what asyncio asks of a loop ---------------------------------------

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        order_gather(sys._getframe(1))  # each future asks for this while it is made
        return False

    def set_debug(self, enabled: bool) -> None:
        pass

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._closed

    def get_task_factory(self) -> Any:
        return None

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Any:
        if get_ident() != self._thread and not self._closed:
            self.trespass = LostRun(
                "something that a workflow body waits for was set from outside of the body, by a step or another "
                "thread, which replay could not repeat; do the work in a step, and let it return what the body needs"
            )
            self.on_trespass()
            raise self.trespass
        if args:  # of a future that is done already
            check_set(sys._getframe(1), args)
        handle = RunHandle(callback, args, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Any:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if math.isnan(when):
            raise ValueError("a timer's time is not a number (NaN)")
        place = here.get()
        if not isinstance(place, InBody):
            raise LostRun(
                "a timer was set in a context that has lost its run; do not replace the context in a workflow body"
            )
        return self.set_timer(place.branch.timer(), RunTimer(when, callback, args, self, context))

    def set_timer(self, key: str, timer: RunTimer) -> RunTimer:
        """Have a timer fire when its event is delivered; `key` is its identity."""
        self._timer_count += 1
        timer.key = key
        timer.ordinal = self._timer_count
        timer.cause = self.seq
        self.timers[timer.key] = timer
        heapq.heappush(self._heap, (timer.when(), timer.ordinal, timer))
        return timer

    def _timer_handle_cancelled(self, handle: Any) -> None:
        self.timers.pop(handle.key, None)
        if len(self._heap) > 2 * len(self.timers) + 64:
            self._heap = [entry for entry in self._heap if self.timers.get(entry[2].key) is entry[2]]
            heapq.heapify(self._heap)

    def create_future(self) -> asyncio.Future[Any]:
        frame = sys._getframe(1)
        check_set(frame)
        if frame.f_code is asyncio.wrap_future.__code__:
            raise NotDeterministic(
                "a workflow body cannot wait for a thread or a process pool, whose end replay could not repeat; "
                "put it in a step: `await outlast.call(fn, ...)` runs a plain function in a thread"
            )
        return RunFuture(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None, **_: Any
    ) -> RunTask:
        context = contextvars.copy_context() if context is None else context.copy()
        place = context.get(here)
        if not isinstance(place, InBody):
            place = here.get()
            if not isinstance(place, InBody):
                coro.close()
                raise LostRun(
                    "a task was started in a context that has lost its run; do not replace the context in a "
                    "workflow body"
                )
        if getattr(coro, "_outlast_call", False):  # a Call has its identity already and creates nothing
            context.run(here.set, place)
            default_name, ordinal = coro.key or repr(coro), coro.ordinal
        else:
            branch = place.branch.current()
            spawner = spawner_of(sys._getframe(1))
            if spawner == "as_completed":
                coro.close()
                raise NotDeterministic(
                    "asyncio.as_completed over bare coroutines starts them in no fixed order; "
                    "pass tasks: as_completed([asyncio.create_task(c) for c in ...])"
                )
            ordinal = 0
            if spawner != "wait_for":
                ordinal = branch.ordinal()
                branch = branch.task(getattr(coro, "__name__", type(coro).__name__))
            context.run(here.set, InBody(place.ops, branch))
            default_name = branch.path
        # asyncio's own default counts the tasks of the whole process, which replay could not repeat
        task = RunTask(coro, loop=self, name=default_name if name is None else name, context=context)
        task.context = context
        task.ordinal = ordinal
        self.tasks.append(task)
        if len(self.tasks) >= self._most_tasks:
            self._most_tasks = 2 * len(self.unfinished()) + 64
        return task

    def main(self, coro: Coroutine[Any, Any, Any], ops: Any, branch: Branch) -> RunTask:
        """Create the task of the workflow body itself."""
        context = contextvars.Context()
        context.run(here.set, InBody(ops, branch))
        task = RunTask(coro, loop=self, name=branch.path, context=context)
        task.ordinal = 0
        task.context = context
        self.tasks.append(task)
        return task

    def get_exception_handler(self) -> Any:
        return None

    def set_exception_handler(self, handler: Any) -> None:
        """Do nothing: the worker reports what nobody handled."""

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.unhandled.append(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.unhandled.append(context)

    async def shutdown_asyncgens(self) -> None:
        pass

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        pass

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], Any], *args: *Ts) -> Any:
        wanted = func.args[0] if isinstance(func, functools.partial) and func.args else func  # asyncio.to_thread's
        name = getattr(wanted, "__qualname__", repr(wanted))
        raise NotDeterministic(
            f"threads and executors cannot be used in a workflow body (asked to run {name}); put it in a step: "
            "a sync step runs in a thread by itself, `await fn.call(...)`, and so does `await outlast.call(fn, ...)`"
        )


def _refuse(name: str) -> Callable[..., Any]:
    def refused(self: RunLoop, *args: Any, **kwargs: Any) -> Any:
        raise NotDeterministic(f"a workflow body cannot do I/O (asked for loop.{name}); put it in a step")

    refused.__name__ = name
    return refused


for _name in (
    "add_reader", "add_writer", "remove_reader", "remove_writer", "add_signal_handler", "remove_signal_handler",
    "create_connection", "create_server", "create_unix_connection", "create_unix_server", "create_datagram_endpoint",
    "connect_read_pipe", "connect_write_pipe", "connect_accepted_socket", "subprocess_exec", "subprocess_shell",
    "getaddrinfo", "getnameinfo", "sendfile", "start_tls", "sock_recv", "sock_recv_into", "sock_recvfrom",
    "sock_recvfrom_into", "sock_sendall", "sock_sendto", "sock_connect", "sock_accept", "sock_sendfile",
    "close", "run_forever", "run_until_complete", "set_default_executor", "set_task_factory",
):  # fmt: skip
    setattr(RunLoop, _name, _refuse(_name))


def _ignore_asyncgen(generator: Any) -> None:
    """Take an async generator's finalizer: the run keeps it alive, so this is never reached while it matters."""
