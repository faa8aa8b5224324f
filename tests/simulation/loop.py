"""The event loop of a simulated process: asyncio's own, without sockets, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from asyncio import events
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.world import Trouble

if TYPE_CHECKING:
    from tests.simulation.process import Process


class NoSelector:
    """Nothing ever arrives from a socket."""

    def select(self, timeout: float | None) -> list[Any]:
        return []


class SimLoop(asyncio.BaseEventLoop):
    """Turned by the simulator, one iteration at a time."""

    _running = False

    def __init__(self, process: Process) -> None:
        self.process = process
        self.tasks: list[asyncio.Task[Any]] = []
        super().__init__()
        self._selector = NoSelector()

    def turn(self, *, one_by_one: bool = False) -> None:
        """Run what is ready now; or only the first of it, so that other threads get in between."""
        self._running = True
        events._set_running_loop(self)
        try:
            if one_by_one and self._ready:
                handle = self._ready.popleft()
                if not handle._cancelled:
                    handle._run()
            else:
                self._run_once()
        finally:
            events._set_running_loop(None)
            self._running = False

    def next_turn(self) -> float | None:
        """Return when there is something to do: 0 for now, None for never."""
        if self._ready:
            return 0.0
        while self._scheduled and self._scheduled[0]._cancelled:
            return 0.0  # asyncio throws it away in its next turn
        return self._scheduled[0]._when if self._scheduled else None

    def unheard(self) -> list[str]:
        """Return the errors of tasks that nobody has looked at, but for those that nobody may be left to hear:

        what the world answers, and what an App answers to a customer who has given up.
        """
        failed = [task for task in self.tasks if task.done() and not task.cancelled() and task._log_traceback]
        errors = [(task.get_coro(), task.exception()) for task in failed]
        return [
            f"{coro} ended with {error!r}"
            for coro, error in errors
            if not isinstance(error, Trouble) and not coro.__qualname__.startswith("App.")  # type: ignore[union-attr]
        ]

    def dispose(self) -> None:
        """End the code of a process that is gone, leaving no trace."""
        for task in self.tasks:
            if task.done():
                continue
            task._log_destroy_pending = False
            coroutine: Any = task.get_coro()
            with contextlib.suppress(BaseException):  # nobody is left to hear it
                if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:  # what it was to await never began
                    for held in filter(inspect.iscoroutine, coroutine.cr_frame.f_locals.values()):
                        held.close()
                coroutine.close()
        self._ready.clear()
        self._scheduled.clear()
        self.close()

    # -- what asyncio asks of a loop -------------------------------------------------

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, **options)
        self.tasks.append(task)
        return task

    def time(self) -> float:
        return self.process.sim.now

    def is_running(self) -> bool:
        return self._running

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self.process.deliver(handle)
        return handle

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = self.create_future()
        self.process.call_in_thread(func, args, future)
        return future

    def put(self, handle: asyncio.Handle) -> None:
        """Take a callback that came from another thread."""
        if not self.is_closed():
            self._ready.append(handle)

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass
