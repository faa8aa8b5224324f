"""What executes a workflow's code, a turn at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import msgspec

from outlast.core.closing import aclose, suspended
from outlast.core.deadlines import run_timeout
from outlast.core.errors import StepError
from outlast.core.frames import keep_where, where_of
from outlast.core.identity import Branch
from outlast.core.telling import text_of_error
from outlast.core.transitions import Status

if TYPE_CHECKING:
    from outlast.core.engine import Engine


MOST_DRAINS = 100
"""So often in one turn a body goes on whose loop is not done when a drain of it reaches `CALLBACKS_PER_DRAIN`.

Then the turn is over all the same, so that a body which yields until something has come sees it come; one that nothing
can come for counts as spinning.
"""


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended: `value` when it succeeded, else `error`; `culprit` is the call whose uncaught error it is.

    With `continues` only its turn has ended, and it is still `running`.
    """

    status: Status
    value: Any = None
    error: BaseException | None = None
    culprit: str = ""
    continues: Any = None  # a Continuation


def failed(engine: Engine, error: BaseException) -> Outcome:
    """Return how a run ended whose body raised this. What is no answer of a body becomes a StepError that says so."""
    which = f"run {engine.run_id}: the workflow {engine.workflow}"
    if isinstance(error, asyncio.CancelledError):
        if engine.expired is not None:
            return Outcome(Status.FAILED, error=run_timeout(engine.row, engine.expired.due or engine.expired.at))
        if engine.cancel_asked:
            return Outcome(Status.CANCELLED)
        text = f"{which} raised CancelledError though nobody cancelled its run"
        return Outcome(Status.FAILED, error=StepError(text, type_name="asyncio.exceptions:CancelledError", text=""))
    if isinstance(error, (SystemExit, KeyboardInterrupt)):
        where, name, code = where_of(error), type(error).__name__, text_of_error(error)
        text = f"{which} asked the process to exit ({name}{f': {code}' if code else ''})"
        error = StepError(text, type_name=f"builtins:{name}", text=code)
        keep_where(error, where)
    return Outcome(Status.FAILED, error=error, culprit=engine.culprit(error))


class Body(Protocol):
    """What executes the workflow's code, a turn at a time."""

    @property
    def blocking(self) -> bool:
        """Whether the code that asks waits by blocking its thread."""
        ...

    def begin(self, engine: Engine) -> None:
        """Prepare the first turn."""
        ...

    def turn(self) -> bool:
        """Let the code run until it waits. True: it does now. False: `engine.turned()` will be called."""
        ...

    def finished(self) -> Outcome | None:
        """Return how the body ended, once nothing of it runs any more."""
        ...

    def raised(self) -> BaseException | None:
        """Return the error that the body has raised, even while something of it still runs."""
        ...

    def cancel(self) -> None:
        """Deliver a cancellation to the body."""
        ...

    def spins(self) -> bool:
        """Tell whether the last turn was ended by the limit, with more to do."""
        ...

    def stop(self) -> None:
        """End the code from outside."""
        ...

    def is_here(self) -> bool:
        """Tell whether the caller is the body's code."""
        ...

    def refuse(self) -> NoReturn:
        """Raise Suspended, since the run was stopped. Code that nothing ends is kept from going round for ever."""
        ...


class AsyncBody:
    """An `async def` body on the run's own loop. `soon` calls what goes on with a long turn, once others had theirs."""

    blocking = False

    def __init__(self, make: Callable[[], Any], soon: Callable[[Callable[[], None]], object] | None = None) -> None:
        self._make = make
        self._soon = soon
        self._drains = 0
        self._spins = False
        self._ending = False

    def begin(self, engine: Engine) -> None:
        self.engine = engine
        self._main = engine.loop.main(self._make(), engine, Branch("main"))

    def turn(self) -> bool:
        self._drains = 0
        return self._drain()

    def _drain(self) -> bool:
        while True:
            self._spins = not self._drain_once()
            self._drains += 1
            if not self._spins or self._drains > MOST_DRAINS:
                return True
            if self._soon is not None:
                self._soon(partial(self.engine.guard, self._go_on))
                return False

    def _go_on(self) -> None:
        if not self.engine.closed:
            with self.engine.loop.at_work():
                over = self._drain()
            if over:
                self.engine.turned()

    def _drain_once(self) -> bool:
        loop = self.engine.loop
        drained = loop.drain()
        if self._main.done():
            if not self._ending:
                self._ending = True
                for task in list(loop.unfinished()):
                    task.cancel()
                drained = loop.drain()
            while not loop.unfinished() and (left := loop.open_asyncgens()):  # no task is in the midst of one any more
                for generator in left:
                    loop.create_task(aclose(generator), context=self._main.context)
                drained = loop.drain()
        return drained

    def spins(self) -> bool:
        return self._spins

    def is_here(self) -> bool:
        return self.engine.loop.is_here()

    def refuse(self) -> NoReturn:
        raise suspended(self.engine.run_id)

    def cancel(self) -> None:
        if self.engine.compensating:
            return  # it is ending already, and is to undo the rest all the same
        for task in list(self.engine.loop.unfinished()) if self._main.done() else [self._main]:
            task.cancel()

    def finished(self) -> Outcome | None:
        main = self._main
        if not main.done() or self.engine.loop.unfinished():
            return None
        if main.cancelled():
            return failed(self.engine, asyncio.CancelledError())
        error = main.exception()
        if error is None:
            return Outcome(Status.SUCCEEDED, value=main.result())
        return failed(self.engine, error)

    def raised(self) -> BaseException | None:
        return self._main.exception() if self._main.done() and not self._main.cancelled() else None

    def stop(self) -> None:
        self.engine.loop.stop()
