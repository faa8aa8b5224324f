"""Calls of models and tools as steps, made by code of a body on a loop or in one of the framework's many threads.

The framework takes an `Exception` of a tool for an answer to the model, and tries a task again after one of a model.
What ends a run's work (a budget that is used up, a value that no journal keeps, a use that is refused) is none of its
business: it passes as a `Stop`, which no handler of the framework catches, and is raised by the kickoff as it was.
"""

from __future__ import annotations

import contextvars
import copy
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar, cast

from msgspec import structs

from outlast.adapters.crewai.places import now, numbering
from outlast.core.definitions import AsyncStep, Call, Step, SyncStep
from outlast.core.effects import InBody
from outlast.core.errors import BudgetExceeded, DecodingError, EncodingError, OutlastError, StoreError, WrongUse
from outlast.core.identity import here
from outlast.core.settings import Settings

T = TypeVar("T")

_ENDS_THE_WORK = (BudgetExceeded, DecodingError, EncodingError, StoreError, WrongUse)


class Stop(BaseException):
    """Carries an error past the framework's handlers."""

    def __init__(self, error: OutlastError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def stopping() -> Iterator[None]:
    """Have what ends the work do so. What follows in the same kickoff ends, too, where a `Stop` was caught."""
    kickoff = now.get()
    if kickoff is not None and kickoff.stopped is not None:
        raise Stop(kickoff.stopped)
    try:
        yield
    except _ENDS_THE_WORK as error:
        if kickoff is None:
            raise
        kickoff.stopped = error
        raise Stop(error) from error


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise what a `Stop` carries."""
    try:
        yield
    except Stop as stop:
        raise stop.error from None


async def recorded(
    name: str,
    make: Callable[[], Awaitable[T]],
    *,
    encode: Callable[[T], Any],
    decode: Callable[[Any], T],
    settings: Settings,
    key: str,
    arguments: Mapping[str, Any],
) -> T:
    """Return what `make()` gives, in a step: see `journaled`. On a loop of the body, or of a thread that it uses."""
    around = contextvars.copy_context()

    async def attempt(**arguments: Any) -> Any:
        _enter(around)
        return encode(await make())

    with stopping():
        return decode(await _call(_async_pattern(name), attempt, settings, key, arguments))


def recorded_in_thread(
    name: str,
    make: Callable[[], T],
    *,
    encode: Callable[[T], Any],
    decode: Callable[[Any], T],
    settings: Settings,
    key: str,
    arguments: Mapping[str, Any],
) -> T:
    """Do so, blocking, for code of a native body in a thread."""
    around = contextvars.copy_context()

    def attempt(**arguments: Any) -> Any:
        _enter(around)
        return encode(make())

    with stopping():
        return decode(wait_in_thread(lambda: _call(_pattern(name), attempt, settings, key, arguments).result(), name))


def _call(
    pattern: Step[..., Any], attempt: Callable[..., Any], settings: Settings, key: str, arguments: Mapping[str, Any]
) -> Call[Any]:
    """Make a call of a step, named after this pattern."""
    step: Any = copy.copy(pattern)
    step.fn = step.plain = attempt
    step.settings = structs.replace(settings, key=key)
    with numbering:
        made: Call[Any] = step.call(**arguments)
    return made


def wait_in_thread(ask: Callable[[], T], what: str) -> T:
    """Return what `ask()` gives, which blocks, in a thread that may. Raises WrongUse on the worker's own loop."""
    place = cast("InBody", here.get())
    ops: Any = place.ops
    if ops.body.is_here():
        raise WrongUse(
            f"run {ops.run_id}: CrewAI made the call {what} without `await` on the worker's event loop, which would "
            "wait for itself; write `await crew.kickoff_async(...)`, which does its work in a thread"
        )
    if ops.blocking:
        return ask()
    return _beside(ask)  # in a thread that has a loop of its own


def _beside(ask: Callable[[], T]) -> T:
    """Wait in another thread, as the framework's own blocking calls would block this loop."""
    outcome: list[T] = []
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            outcome.append(ask())
        except BaseException as error:  # noqa: BLE001 - it is raised below
            raised.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(wait,), name="outlast-crewai", daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return outcome[0]


def _enter(around: contextvars.Context) -> None:
    """Give an attempt, which begins in a context of its own, the one in which the framework has made the call."""
    for var, value in around.items():
        if var is not here:
            var.set(value)


@lru_cache(maxsize=1_000)
def _pattern(name: str) -> SyncStep[..., Any]:
    """Return a step of this name, for copies: looking into a function takes longer than recording a call."""

    def attempt(**arguments: Any) -> Any: ...

    step: SyncStep[..., Any] = SyncStep(attempt, name, Settings())
    _ = step.returns, step.input_type, step.definition
    return step


@lru_cache(maxsize=1_000)
def _async_pattern(name: str) -> AsyncStep[..., Any]:
    async def attempt(**arguments: Any) -> Any: ...

    step: AsyncStep[..., Any] = AsyncStep(attempt, name, Settings())
    _ = step.returns, step.input_type, step.definition
    return step
