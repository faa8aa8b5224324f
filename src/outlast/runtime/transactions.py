"""`@transaction`: steps whose own rows and whose record commit in one transaction of the user's database."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, cast, overload

from outlast.core.codec import Codec
from outlast.core.definitions import AsyncStep, Step, SyncStep
from outlast.core.effects import InStep
from outlast.core.errors import WrongUse
from outlast.core.functions import is_async
from outlast.core.retry import Retry
from outlast.core.settings import Changes, Settings
from outlast.runtime.clock import SystemClock
from outlast.runtime.decorators import refuse_class
from outlast.runtime.registry import register
from outlast.runtime.results import returned
from outlast.stores.databases.driving import run_blocking
from outlast.stores.databases.recorded import RecordedStep, committed_alone, committed_once
from outlast.stores.databases.source import Source
from outlast.stores.databases.sources import source_of

clock = SystemClock()

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_S = 24 * 3600.0
"""An attempt that is older commits nothing: another may have done its step long ago, and its record be forgotten."""

SETTINGS = ("retry", "timeout", "key", "check_args")


class _TransactionDecorator(Protocol):
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /
    ) -> AsyncStep[P, R]: ...

    @overload
    def __call__(self, fn: Callable[Concatenate[Any, P], R], /) -> SyncStep[P, R]: ...


def transaction(
    source: Any,
    /,
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: float | None = None,
    check_args: bool = True,
) -> _TransactionDecorator:
    """Make a function a step that writes to your own database, exactly once.

    The function gets an open transaction of `source` as its first argument, which callers leave out. What it writes
    there and the step's record commit as one, under the step's key, in a table `outlast_transactions` of that database.
    Whatever dies when, the rows are written once; who comes second gets the recorded result.

    `source`, for a plain function: a SQLAlchemy `Engine` or `sessionmaker`, a `psycopg_pool.ConnectionPool`, a URL
    `postgresql://...` or `sqlite:///...`, a path, or a function that returns a new connection of sqlite3 or psycopg.
    For an `async def`: an `AsyncEngine` or `async_sessionmaker`, an `AsyncConnectionPool`, `postgresql://...`, or an
    async function that returns a new connection. The databases are PostgreSQL and SQLite.

    The other settings are those of `outlast.step`. The function must not commit or roll back: Outlast does. When it
    raises, all is rolled back. It may be called again, after a deadlock for example, so what it does beside its
    transaction has to be safe to repeat.

    Raises WrongUse for a source or a function that cannot be used. Outside of a workflow the step is its function, in a
    transaction of its own and without a record.
    """
    chosen = Settings().with_(retry=retry, timeout=timeout, check_args=check_args)

    def decorate(function: Callable[..., Any]) -> Step[..., Any]:
        refuse_class(function, "transaction")
        kind = _AsyncTransactionStep if is_async(function) else _SyncTransactionStep
        made: Step[..., Any] = kind(function, source_of(source, is_async=is_async(function)), name, chosen)
        register(made)
        return made

    return cast("_TransactionDecorator", decorate)


class _TransactionStep(Step[P, R]):
    """What both kinds have in common: in an attempt the function's rows are committed with the step's record."""

    def __init__(self, function: Callable[..., Any], source: Source, name: str | None, settings: Settings) -> None:
        self._function = function
        self._source = self.database = source
        super().__init__(_without_record(function, source), name, settings)

    def in_attempt(self, place: InStep, codec: Codec) -> Callable[P, Any]:
        def committed(*args: P.args, **kwargs: P.kwargs) -> Any:
            step = RecordedStep(
                key=place.idempotency_key,
                run_id=place.run_id,
                step_id=place.step_id,
                function=lambda given: self._function(given, *args, **kwargs),
                stored=lambda value: returned(value, codec, self.returns, place),
                decoded=lambda data: codec.decode(data, self.returns),
                check=partial(_check, place, clock.boot() + LONGEST_S),
            )
            return _run(self._source, committed_once(self._source, step))

        return committed

    def changed(self, changes: Changes) -> Self:
        for name in changes:
            if name not in SETTINGS:
                raise WrongUse(
                    f"step {self.name} is transactional, so its effects are exactly once, and {name}= is no setting of "
                    f"it; it has {', '.join(SETTINGS)}"
                )
        return super().changed(changes)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        raise WrongUse(
            f"transactional step {self.name} cannot be a method; write a function, and pass what it needs as arguments"
        )


class _SyncTransactionStep(_TransactionStep[P, R], SyncStep[P, R]): ...


class _AsyncTransactionStep(_TransactionStep[P, R], AsyncStep[P, R]): ...


def _run(source: Source, committing: Coroutine[Any, Any, R]) -> Any:
    """Return the result over a blocking driver; over an async one, what is to be awaited for it."""
    return committing if source.is_async else run_blocking(committing)


def _check(place: InStep, until: float) -> None:
    if place.given_up or clock.boot() > until:
        raise asyncio.CancelledError(f"step {place.step_id} of run {place.run_id} was given up; nothing was committed")


def _without_record(function: Callable[..., Any], source: Source) -> Callable[..., Any]:
    """Return what the step is outside of a workflow, with the face of its function without the transaction."""
    if source.is_async:

        @functools.wraps(function)
        async def alone(*args: Any, **kwargs: Any) -> Any:
            return await committed_alone(source, lambda given: function(given, *args, **kwargs))
    else:

        @functools.wraps(function)
        def alone(*args: Any, **kwargs: Any) -> Any:
            return _run(source, committed_alone(source, lambda given: function(given, *args, **kwargs)))

    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in (parameters[0].POSITIONAL_ONLY, parameters[0].POSITIONAL_OR_KEYWORD):
        raise WrongUse(
            f"{function.__qualname__} takes no transaction: its first argument is the open transaction, such as "
            f"def {function.__name__}(tx, ...)"
        )
    alone.__signature__ = signature.replace(parameters=parameters[1:])  # type: ignore[attr-defined]
    alone.__annotations__ = {n: a for n, a in alone.__annotations__.items() if n != parameters[0].name}
    return alone
