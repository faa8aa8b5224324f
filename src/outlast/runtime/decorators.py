"""`@step` and `@workflow`: the decorators that make definitions known."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

from outlast.core.definitions import AsyncStep, Step, SyncStep
from outlast.core.durabilities import durability as durability_of
from outlast.core.errors import WrongUse
from outlast.core.functions import is_async
from outlast.core.queues import Queue, Rate
from outlast.core.retry import Retry
from outlast.core.settings import SETTLE_S, Settings
from outlast.core.terms import Terms
from outlast.core.workflows import Workflow
from outlast.runtime.registry import register

P = ParamSpec("P")
R = TypeVar("R")


class _StepDecorator(Protocol):
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncStep[P, R]: ...

    @overload
    def __call__(self, fn: Callable[P, R], /) -> SyncStep[P, R]: ...


class _WorkflowDecorator(Protocol):
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...

    @overload
    def __call__(self, fn: Callable[P, R], /) -> Workflow[P, R]: ...


@overload
def step(fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncStep[P, R]: ...  # type: ignore[overload-overlap]


@overload
def step(fn: Callable[P, R], /) -> SyncStep[P, R]: ...


@overload
def step(
    *,
    name: str | None = None,
    effect: Literal["pure", "idempotent", "once"] = "idempotent",
    retry: Retry | None = None,
    timeout: float | None = None,
    confirm: Callable[..., Any] | None = None,
    definite: tuple[type[BaseException], ...] | type[BaseException] = (),
    settle: float = SETTLE_S,
    check_args: bool = True,
    rate: Rate | tuple[Rate, ...] | None = None,
    spends: bool = False,
) -> _StepDecorator: ...


def step(fn: Any = None, /, *, name: str | None = None, **settings: Any) -> Any:
    """Make a function, sync or async, a step: its result is journaled, and a recorded step is never executed again.

    - `effect` says what it does to the world: `"pure"` (reads, model calls), `"idempotent"` (safe to repeat with the
      same `outlast.idempotency_key()`; the default) or `"once"` (must not happen twice).
    - `retry`: when a failed attempt is tried again, a `Retry`; by default it is not.
    - `timeout`: seconds an attempt may take; by default there is no limit, and 60 for a `once` step.
    - `name`: its name in journals; by default the function's.
    - `check_args=False`: its arguments may differ on replay.
    - `rate`: how often attempts may begin in the whole fleet, made by `outlast.rate`; one or several.
    - `spends=True`: it calls a model, so a run that has used up its `max_tokens` or `max_cost` does not begin it. A
      step that has told its usage by `outlast.record_usage` counts as one from then on. It tells what it used, if
      only that it is nothing: otherwise a run with a budget begins no further call.

    For `once` steps only:

    - `confirm(key, *args)` tells what became of an attempt in doubt: `Happened(value)`, `DidNotHappen()`, `Unknown()`.
    - `definite`: errors that are an answer, and so the step's outcome.
    - `settle`: seconds after which a "did not happen" is believed.

    What it makes is called like the function. Its `fn` is the plain function, `call(...)` makes a Call of a sync step,
    too, and `options(...)` returns the step with other settings for some calls: those above but `name`, and `key`,
    which names one call. Raises WrongUse for settings that make no sense, do not go together, or do not exist, and for
    a `confirm` that could not take the key and the step's arguments.
    """
    if "key" in settings:
        raise WrongUse("key= names one call and not a step; write it where the step is called: a_step.options(key=...)")
    chosen = Settings().with_(**settings)

    def decorate(function: Callable[..., Any]) -> Step[..., Any]:
        refuse_class(function, "step")
        kind = AsyncStep if is_async(function) else SyncStep
        made: Step[..., Any] = kind(function, name, chosen)
        register(made)
        return made

    return decorate if fn is None else decorate(fn)


@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...


@overload
def workflow(fn: Callable[P, R], /) -> Workflow[P, R]: ...


@overload
def workflow(
    *,
    name: str | None = None,
    queue: Queue | None = None,
    durability: Literal["sync", "async", "exit"] = "sync",
    loop: Literal["deterministic", "native"] = "deterministic",
    max_tokens: int | None = None,
    max_cost: float | None = None,
) -> _WorkflowDecorator: ...


def workflow(
    fn: Any = None,
    /,
    *,
    name: str | None = None,
    queue: Queue | None = None,
    durability: str = "sync",
    loop: str = "deterministic",
    max_tokens: int | None = None,
    max_cost: float | None = None,
) -> Any:
    """Make a function, sync or async, a workflow: its progress is durable.

    Its body must be deterministic; everything else goes in steps.

    - `name` is its name in stores, by default the function's; runs find their workflow by it, so keep it over renames.
    - `queue` is what its runs are put on, made by `outlast.queue`.
    - `durability` says what a crash may forget: with `"async"` an `idempotent` step does not wait until what was
      recorded before it is committed; with `"exit"` that is committed when the run rests or ends. Under either `once`
      steps are refused.
    - `loop="native"` runs an async body on the worker's own loop, for frameworks that do I/O or use threads between
      steps. What it does there is not journaled and may be done again; its steps are, and are told apart by their
      arguments.
    - `max_tokens`, `max_cost`: what a run of it may use of models, as its steps tell by `outlast.record_usage`; the
      next step that calls a model is then refused with BudgetExceeded.

    Calling it makes a Call, for `app.start` or, in another workflow, for a child run. Its `fn` is the plain function;
    `options(...)` says for some calls on which terms they start: the run id of a child, a durability, a queue, a turn
    there, a delay. Raises WrongUse for a name that cannot be one, for no such durability or loop, and for a native loop
    for a plain function.
    """
    chosen = durability_of(durability)
    if loop not in ("deterministic", "native"):
        raise WrongUse(f"loop={loop!r}: must be 'deterministic' or 'native'")
    terms = Terms(queue=queue, max_tokens=max_tokens, max_cost=max_cost)

    def decorate(function: Callable[..., Any]) -> Workflow[..., Any]:
        refuse_class(function, "workflow")
        made: Workflow[..., Any] = Workflow(function, name, chosen, native=loop == "native")
        made.terms = terms if terms != Terms() else None
        register(made)
        return made

    return decorate if fn is None else decorate(fn)


def refuse_class(thing: object, noun: str) -> None:
    if isinstance(thing, type):
        raise WrongUse(
            f"@outlast.{noun} decorates a function, and {thing.__name__} is a class; put it above a function "
            f"that makes or uses one"
        )
