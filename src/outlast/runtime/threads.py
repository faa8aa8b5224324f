"""Sync workflows: a plain function in a thread of its own, taking turns with the worker's loop.

The thread runs only during its turns, so that it needs no locks: it executes until it waits
for a call (or a sleep), then gives the turn back and stands still until what it waits for is there.
Events reach it in their recorded order, like an async body.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from outlast.core.body import Outcome, failed
from outlast.core.closing import suspended
from outlast.core.effects import InBody
from outlast.core.engine import Engine
from outlast.core.identity import Branch, here
from outlast.core.lost import mark_as_body
from outlast.core.pending import CallFuture
from outlast.core.transitions import Status
from outlast.runtime.notices import log

MOST_REFUSALS = 1_000
"""So often a stopped body may catch that it was stopped, and go on; then its thread rests until the process ends."""


class ThreadBody:
    """A plain function as the body of a run."""

    blocking = True

    def __init__(self, function: Callable[[], Any], call_soon: Callable[..., object], name: str) -> None:
        self._function = function
        self._call_soon = call_soon
        self._name = name
        self._resume = threading.Semaphore(0)
        self._waits_for: asyncio.Future[Any] | None = None
        self._cancelling = False
        self._stopped = False
        self._refused = 0
        self._result: tuple[Any, BaseException | None] | None = None
        self._leaving = False
        self._thread: threading.Thread | None = None

    def begin(self, engine: Engine) -> None:
        self.engine = engine
        context = contextvars.Context()
        context.run(here.set, InBody(engine, Branch("main")))
        self._context = context
        self._thread = threading.Thread(target=context.run, args=(self._main,), name=self._name, daemon=True)
        mark_as_body(self._thread, engine.run_id, engine.workflow)
        # The loop's own callbacks (timers completing a future) run in the body's context, too.

    def turn(self) -> bool:
        """Let the thread go on if what it waits for is there."""
        self.engine.loop.drain()
        waits_for = self._waits_for
        if self._result is not None or (waits_for is not None and not waits_for.done() and not self._cancelling):
            return True
        if self._thread is not None and self._thread.ident is None:
            self._thread.start()
        else:
            self._resume.release()
        return False

    def finished(self) -> Outcome | None:
        if self._result is None:
            return None
        calls = [p for p in self.engine.calls.values() if not p.done and not p.call.detached]
        if not self._leaving:  # like the tasks that an async body leaves behind
            self._leaving = True
            for pending in calls:
                pending.future.cancel()
        if any(not pending.done for pending in calls):  # a `once` attempt, which comes to an outcome first
            return None
        value, error = self._result
        if error is None:
            return Outcome(Status.SUCCEEDED, value=value)
        return failed(self.engine, error)

    def raised(self) -> BaseException | None:
        return self._result[1] if self._result is not None else None

    def spins(self) -> bool:
        return False

    def is_here(self) -> bool:
        return threading.current_thread() is self._thread

    def refuse(self) -> NoReturn:
        if self.is_here():
            self._refused += 1
            if self._refused > MOST_REFUSALS:
                self._rest()
        raise suspended(self.engine.run_id)

    def _rest(self) -> NoReturn:
        """Stand still for good, which holds up neither the App nor the process: the thread is a daemon."""
        assert self._thread is not None
        log.warning(
            "run %s was stopped here, and its body catches all that would end it and goes on, without effect; "
            "its thread now rests until the process ends. Let `except` clauses of workflow %s pass BaseException on",
            self.engine.run_id,
            self.engine.workflow,
        )
        self._thread.name = f"stopped {self._thread.name}"  # for those who look at the threads of a process
        while True:
            threading.Event().wait()

    def cancel(self) -> None:
        """The thread sees a cancellation where it waits, once; not while it undoes what it did: it is ending then."""
        self._cancelling = not self.engine.compensating

    def stop(self) -> None:
        self._stopped = True
        self._resume.release()
        self.engine.loop.stop()

    # -- in the thread -------------------------------------------------------------

    def _main(self) -> None:
        try:
            self._result = (self._function(), None)
            for pending in [p for p in self.engine.calls.values() if not p.done]:
                pending.call.warn_given_up()
        except BaseException as error:  # noqa: BLE001 - whatever a body raises is how it ended
            self._result = (None, error)
        self._yield_turn()

    def _yield_turn(self) -> None:
        if not self._stopped:
            self._call_soon(self.engine.turned, context=contextvars.Context())  # what comes of it is not the body's

    def block(self, future: asyncio.Future[Any]) -> Any:
        """Wait for a future of this run; a cancellation comes in here."""
        self.engine.check()
        while True:
            if self._cancelling:
                self._cancelling = False
                if not future.done():
                    future.cancel()
                elif isinstance(future, CallFuture):
                    future.deferred = True
            if future.done():
                break
            self._waits_for = future
            self._yield_turn()
            self._resume.acquire()
            self._waits_for = None
            if self._stopped:
                raise suspended(self.engine.run_id)
        if isinstance(future, CallFuture) and future.deferred:
            future.deferred = False
            raise asyncio.CancelledError
        return future.result()

    def sleep(self, seconds: float) -> None:
        """Wait for a timer."""
        future: asyncio.Future[Any] = asyncio.Future(loop=self.engine.loop)
        timer = self.engine.loop.call_later(seconds, _complete, future)
        try:
            self.block(future)
        finally:
            timer.cancel()


def _complete(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)
