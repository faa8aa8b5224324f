"""What code in a workflow or a step asks of Outlast: `outlast.now()`, `outlast.uuid4()`, `outlast.idempotency_key()`...

In a workflow these are the same on every replay. In a step, and outside of
any run, `now`, `uuid4` and `random` are the plain ones.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import random as _random
import sys
import uuid as _uuid
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from outlast.core import scopes
from outlast.core.arguments import check_name
from outlast.core.definitions import AsyncStep, Call, Step, SyncStep
from outlast.core.effects import InBody, InStep
from outlast.core.errors import WrongUse
from outlast.core.functions import is_async
from outlast.core.identity import check_run_id, here
from outlast.core.lost import refuse_lost
from outlast.core.settings import Settings
from outlast.core.workflows import Workflow
from outlast.runtime.clock import SystemClock

P = ParamSpec("P")
R = TypeVar("R")

_clock = SystemClock()
_log = logging.getLogger("outlast.run")


def body_here(what: str) -> InBody:
    """Return the place in a workflow body. Raises WrongUse elsewhere, LostRun where the run was lost."""
    place = here.get()
    if isinstance(place, InBody):
        place.ops.check()
        return place
    if place is None:
        refuse_lost(f"outlast.{what}")
    where = "in a step" if isinstance(place, InStep) else "outside of any run"
    raise WrongUse(f"outlast.{what} belongs in a workflow, and was called {where}")


def _in_body(what: str) -> InBody | None:
    """Return the place in a workflow body; None where `what` is the plain one. Raises LostRun."""
    place = here.get()
    if place is None:
        refuse_lost(f"outlast.{what}")
    return body_here(what) if isinstance(place, InBody) else None


def step_here(what: str, belongs: str = "in a step") -> InStep:
    """Return the place in a step. Raises WrongUse elsewhere, which says where it belongs."""
    place = here.get()
    if isinstance(place, InStep):
        return place
    where = "in a workflow body" if isinstance(place, InBody) else "outside of any run"
    raise WrongUse(f"outlast.{what} belongs {belongs}, and was called {where}")


# -- in a workflow ----------------------------------------------------------------------


def now() -> dt.datetime:
    """Return the time in UTC; in a workflow it is the time of the last recorded event, so replay sees the same."""
    place = _in_body("now()")
    seconds = _clock.wall() if place is None else place.ops.now()
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def uuid4() -> _uuid.UUID:
    """Return a random UUID; in a workflow it is derived from the run, so replay gets the same."""
    place = _in_body("uuid4()")
    if place is None:
        return _uuid.uuid4()
    digits = place.ops.draw(place.branch.draw("uuid4"))
    return _uuid.UUID(hex=digits, version=4)


class DurableRandom(_random.Random):
    """A `random.Random` whose numbers, in a workflow, are derived from the run. Calling it is `random.random()`.

    All methods (`choice`, `shuffle`, `randint`, `gauss`...) draw from it. `seed` and the state cannot be set.
    """

    def __call__(self) -> float:
        """Return a float from 0 up to 1."""
        return self.random()

    def random(self) -> float:
        """Return a float from 0 up to 1."""
        return self.getrandbits(53) / 2**53

    def getrandbits(self, k: int, /) -> int:
        """Return an int of `k` random bits."""
        place = _in_body("random")
        if place is None:
            return _system_random.getrandbits(k)
        bits, have = 0, 0
        while have < k:
            bits = (bits << 128) | int(place.ops.draw(place.branch.draw("random")), 16)
            have += 128
        return bits >> (have - k)

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """Return a normally distributed float. Keeps nothing between calls, unlike the original."""
        return self.normalvariate(mu, sigma)

    def seed(self, *_: Any, **__: Any) -> None:
        """Do nothing: the run is the seed."""


_system_random = _random.SystemRandom()
random = DurableRandom()
"""Random numbers that replay repeats: `outlast.random()`, `outlast.random.choice(seq)`..."""


@contextmanager
def scope(key: str) -> Iterator[None]:
    """Name a branch: the calls made inside are numbered in it, whatever surrounds it.

    Use it where the number of calls before may change (a loop over a collection that grows):
    `with outlast.scope(order.id): ...`. In a generator it holds for the generator's own code and not for who iterates
    it. Raises WrongUse outside of a workflow, and when it is left by another task than the one that entered it.
    """
    before = body_here(f"scope({key!r})")
    mine = scopes.enter(before, str(key), sys._getframe(1))
    try:
        yield
    except BaseException:
        scopes.leave(mine, before)
        raise
    if not scopes.leave(mine, before):
        raise WrongUse(
            f"outlast.scope({key!r}) was entered by one task and left by another, so what was called in between had no "
            "scope; let one task iterate over a generator that yields inside of a scope, or leave the scope before "
            "each yield"
        )


def patched(key: str) -> bool:
    """Guard a change of a workflow: False in runs that passed here before the change, True in all others.

    `key` names the change. True is recorded, so the answer stays the same for the run. Raises WrongUse outside of a
    workflow, and for a key that is no printable text of 1 to 255 characters.
    """
    key = check_name(key, "name a change")
    return body_here(f"patched({key!r})").ops.patched(key)


@overload
def call(fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> Call[R]: ...


@overload
def call(fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Call[R]: ...


def call(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Call[Any]:
    """Call a plain function as an `idempotent` step: `await outlast.call(fetch, url)`.

    `fn` may be sync, and then runs in a thread. Returns a Call; awaited outside of a workflow, that is the plain call.
    """
    if isinstance(fn, Step | Workflow):
        return fn.call(*args, **kwargs)
    kind = AsyncStep if is_async(fn) else SyncStep
    made: Step[..., Any] = kind(fn, None, Settings())
    return made.call(*args, **kwargs)


class Child(Generic[R]):
    """A child run that was started and not yet waited for."""

    def __init__(self, call: Call[R]) -> None:
        self._future = detach(call)
        self._id = call.place.ops.child_id(call)

    @property
    def id(self) -> str:
        """The child's run id."""
        return cast("str", self._id)

    async def result(self) -> R:
        """Wait for the child's end; return its result or raise its error."""
        return cast("R", await self._future)


WhenParentEnds = Literal["continue", "cancel"]


def start(
    call: Call[R], *, id: str | None = None, when_parent_ends: WhenParentEnds = "continue"
) -> Coroutine[Any, Any, Child[R]]:
    """Start a child run and go on without waiting for it.

    Returns a handle with the child's `id` and an async `result()`. `id` chooses the child's run id; by default it is
    derived from the parent's. The child goes on when its parent ends, unless somebody waits for its result and is
    cancelled; with `when_parent_ends="cancel"` it is cancelled when the parent ends, in whichever way, by the same
    commit. (A child that is simply awaited never goes on without its parent.) Raises WrongUse outside of a workflow,
    and for what is not the call of a workflow.
    """
    if check_child(call, id, when_parent_ends).ops.blocking:
        raise WrongUse("outlast.start is awaited, which a sync workflow cannot do; there it is outlast.sync.start(...)")
    return _Start(call)


class _Start(Coroutine[Any, Any, Child[R]]):
    """The start of a child run. Where it is never awaited its call was forgotten, and says so itself."""

    __slots__ = ("_call", "_started")

    def __init__(self, call: Call[R]) -> None:
        self._call = call
        self._started: Coroutine[Any, Any, Child[R]] | None = None
        call.used = False

    @property
    def __name__(self) -> str:
        return "_start"  # part of the identity of a task that is made of it

    def _coroutine(self) -> Coroutine[Any, Any, Child[R]]:
        if self._started is None:
            self._call.take()
            self._started = _start(self._call)
        return self._started

    def __await__(self) -> Generator[Any, Any, Child[R]]:
        return self._coroutine().__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine().send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine().throw(*error)

    def close(self) -> None:
        self._call.take()
        if self._started is not None:
            self._started.close()


async def _start(call: Call[R]) -> Child[R]:
    return Child(call)


def check_child(call: Call[Any], id: str | None, when_parent_ends: str) -> InBody:
    """Give the call of a child its id; return where it is made. Raises WrongUse for what cannot be started here."""
    if isinstance(call, Call):
        call.take()  # whatever becomes of it here, it was not forgotten
    place = body_here("start()")
    if not isinstance(call, Call) or call.is_step:  # type: ignore[redundant-expr]
        raise WrongUse(
            f"outlast.start takes the call of a workflow, not {call!r}; a step is awaited, or given to "
            "asyncio.create_task"
        )
    if when_parent_ends not in ("continue", "cancel"):
        raise WrongUse(f"when_parent_ends={when_parent_ends!r}: must be 'continue' or 'cancel'")
    call.outlives = when_parent_ends == "continue"
    if id is not None:
        call.child_id = check_run_id(id)
    return place


def detach(call: Call[Any]) -> asyncio.Future[Any]:
    """Start the run of a call whether or not anybody will wait for it."""
    call.detached = True
    return call.future if call.future is not None else call.start()


# -- in a step --------------------------------------------------------------------------


def idempotency_key() -> str:
    """Return the key of this step: the same on every attempt, recovery and replay, and no other step's.

    32 hexadecimal digits, to be sent along with a request. Raises WrongUse outside of a step.
    """
    return step_here("idempotency_key()").idempotency_key


def attempt() -> int:
    """Return which attempt of the step this is; the first is 1. Raises WrongUse outside of a step."""
    return step_here("attempt()").attempt


def fence() -> int:
    """Return how often the run was claimed, a number that only grows.

    A system that keeps the highest one it has seen for a run can refuse a worker that was replaced. Raises WrongUse
    outside of a step.
    """
    return step_here("fence()").fence


def heartbeat() -> None:
    """Ask in a long step whether its outcome still matters.

    Raises CancelledError when it does not: the step was cancelled or timed out, or the run is no longer this worker's.
    For sync steps, whose thread nothing can stop from outside. Raises WrongUse outside of a step.
    """
    place = step_here("heartbeat()")
    if place.given_up:
        raise asyncio.CancelledError(
            f"step {place.step_id} of run {place.run_id} was given up; its result will not be used"
        )
    place.beat = _clock.wall()


def annotate(**facts: Any) -> None:
    """Add facts to this step's record, for people: `outlast.annotate(tokens=512)`.

    They stand as JSON in `StepInfo.note` once the step has its outcome; what JSON cannot hold becomes its text. Raises
    WrongUse outside of a step.
    """
    step_here("annotate()").annotations.update(facts)


# -- both -------------------------------------------------------------------------------


class Current:
    """Where this code runs: `outlast.current.run_id`, `.workflow`, `.step_id` and `.logger`.

    Outside of any run the first three are None.
    """

    @property
    def run_id(self) -> str | None:
        """The run's id."""
        place = here.get()
        return place.ops.run_id if isinstance(place, InBody) else place.run_id if isinstance(place, InStep) else None

    @property
    def workflow(self) -> str | None:
        """The name of the run's workflow."""
        place = here.get()
        return (
            place.ops.workflow if isinstance(place, InBody) else place.workflow if isinstance(place, InStep) else None
        )

    @property
    def step_id(self) -> str | None:
        """The identity of the step; None in a workflow body."""
        place = here.get()
        return place.step_id if isinstance(place, InStep) else None

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines name the run and the step. In a workflow body it is silent during replay."""
        place = here.get()
        if isinstance(place, InBody) and getattr(place.ops, "live", True) is False:
            return _SILENT
        return logging.LoggerAdapter(_log, {"run_id": self.run_id, "step_id": self.step_id, "workflow": self.workflow})


_silent_logger = logging.getLogger("outlast.replay")
_silent_logger.setLevel(logging.CRITICAL + 1)
_SILENT: logging.LoggerAdapter[logging.Logger] = logging.LoggerAdapter(_silent_logger, {})
current = Current()
"""Where this code runs."""
