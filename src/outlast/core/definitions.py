"""What users define: steps, workflows, and the calls made of them.

Where a definition is called decides what the call does; the table is in the
documentation ("Calling things"). The rule behind it: no accident turns a durable
step into a plain call in silence.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import warnings
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from outlast.core.asking import check_confirm
from outlast.core.codec import Codec
from outlast.core.durabilities import Durability, with_durability
from outlast.core.effects import InBody, InStep, Operations
from outlast.core.errors import LostRun, WrongUse
from outlast.core.functions import Definition
from outlast.core.identity import here, shown
from outlast.core.lost import refuse_lost
from outlast.core.records import Effect
from outlast.core.settings import Changes, Settings
from outlast.core.terms import Terms

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Q = ParamSpec("Q")  # what a method takes beside its object
Owner = TypeVar("Owner")


class Step(Definition[P, R]):
    """A function whose result is journaled. Made by `@step`; `fn` is the plain function."""

    noun = "step"
    is_step = True

    database: Any = None
    """The user's database that it records itself in, if it does."""

    def __init__(self, fn: Callable[P, Any], name: str | None, settings: Settings) -> None:
        super().__init__(fn, name)
        self.settings = settings
        if settings.confirm is not None:
            check_confirm(self.name, fn, settings.confirm)

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Make a Call, also of a sync step; in a sync workflow it starts when that next waits, and `.result()`
        waits for it.

        Raises TypeError for arguments that the function does not take.
        """
        self.check_arguments(args, kwargs)
        place = here.get()
        call: Call[R] = Call(self, args, kwargs, self.settings, place)
        if type(place) is InBody and place.ops.blocking:
            call.start()
        return call

    def in_attempt(self, place: InStep, codec: Codec) -> Callable[P, Any]:
        """Return what an attempt calls: the function. A step that commits its outcome by itself, too, does that there.

        `place` is where the attempt runs, `codec` what the journal's values are made by.
        """
        return self.fn

    def changed(self, changes: Changes) -> Self:
        """Return this step with other settings. Raises WrongUse for those that it cannot have."""
        other = copy.copy(self)
        other.settings = self.settings.with_(**changes)
        if changes.get("confirm") is not None:
            check_confirm(self.name, self.fn, changes["confirm"])
        return other

    def _outside(self, place: InStep | None) -> None:
        """Refuse what must not be a plain call where no journal would see it."""
        if place is None:
            refuse_lost(f"step {self.name}")
        if self.settings.effect is Effect.ONCE:
            where = f"inside step {place.step_id} of run {place.run_id}" if place is not None else "outside of any run"
            raise WrongUse(
                f"step {self.name} has effect='once' and was called {where}, where nothing would keep it from "
                "happening twice; "
                f"call it in a workflow, give it to app.start(), or call the plain function: {self.name}.fn(...)"
            )


class AsyncStep(Step[P, R]):
    """A step made of an `async def` function: calling it makes a Call."""

    fn: Callable[P, Coroutine[Any, Any, R]]

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        return self.call(*args, **kwargs)

    def options(self, **changes: Unpack[Changes]) -> AsyncStep[P, R]:
        """Return this step with other settings (`key=`, `retry=`, `timeout=`, ...) for some calls."""
        return self.changed(changes)

    if TYPE_CHECKING:  # so that a method's arguments are checked, too; Definition does it

        @overload
        def __get__(self, instance: None, owner: type | None = None) -> AsyncStep[P, R]: ...

        @overload
        def __get__(
            self: AsyncStep[Concatenate[Owner, Q], R], instance: Owner, owner: type | None = None
        ) -> AsyncStep[Q, R]: ...

        def __get__(self, instance: Any, owner: type | None = None) -> Any: ...


class SyncStep(Step[P, R]):
    """A step made of a plain function.

    In a sync workflow calling it returns its value; `.call(...)` always makes a Call.
    """

    fn: Callable[P, R]

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        place = here.get()
        if type(place) is InBody:
            if place.ops.blocking:
                return self.call(*args, **kwargs).result()
            raise WrongUse(
                f"sync step {self.name} was called directly in async workflow {place.ops.workflow} (run "
                f"{place.ops.run_id}), "
                f"where it would block the worker; write: await {self.name}.call(...)"
            )
        self._outside(place)  # type: ignore[arg-type]
        return self.fn(*args, **kwargs)

    def options(self, **changes: Unpack[Changes]) -> SyncStep[P, R]:
        """Return this step with other settings (`key=`, `retry=`, `timeout=`, ...) for some calls."""
        return self.changed(changes)

    if TYPE_CHECKING:  # so that a method's arguments are checked, too; Definition does it

        @overload
        def __get__(self, instance: None, owner: type | None = None) -> SyncStep[P, R]: ...

        @overload
        def __get__(
            self: SyncStep[Concatenate[Owner, Q], R], instance: Owner, owner: type | None = None
        ) -> SyncStep[Q, R]: ...

        def __get__(self, instance: Any, owner: type | None = None) -> Any: ...


class Call(Coroutine[Any, Any, R_co]):
    """A call that was made and not yet awaited: what `app.start`, `asyncio.gather` and `await` take.

    Its identity is fixed when it is made. It hashes by order of creation
    within its branch, so that sets of calls iterate alike on every replay.
    """

    _outlast_call = True
    __slots__ = (
        "args",
        "branch",
        "child_id",
        "definition",
        "detached",
        "durability",
        "future",
        "generator",
        "key",
        "kwargs",
        "ordinal",
        "outlives",
        "place",
        "settings",
        "terms",
        "used",
        "waited_for",
    )

    def __init__(
        self, definition: Definition[..., Any], args: Any, kwargs: Any, settings: Settings, place: Any
    ) -> None:
        self.definition = definition
        self.args: tuple[Any, ...] = args
        self.kwargs: dict[str, Any] = kwargs
        self.settings = settings
        self.place = place
        self.future: asyncio.Future[Any] | None = None
        self.generator: Generator[Any, None, R_co] | None = None
        self.child_id: str | None = None
        self.terms: Terms | None = None
        self.durability: Durability | None = None  # of the run, where it is not its workflow's
        self.detached = False  # a child run that the end of its parent's body leaves alone
        self.outlives = False  # ... and that goes on when its parent ends
        self.used = True  # until it is made: one whose key is refused was not forgotten
        self.waited_for = False  # in a sync workflow, where every call is used as soon as it is made
        self.key = ""
        if type(place) is InBody:
            self.key = place.branch.call(definition.name, settings.key)
            self.ordinal: int = place.branch.ordinal()
        else:
            self.ordinal = id(self)
        self.used = False

    @property
    def is_step(self) -> bool:
        """Whether this is a call of a step, not of a workflow."""
        return self.definition.is_step

    @property
    def run_options(self) -> str:
        """The options of the run that the call makes, as its row has them."""
        chosen = self.durability
        if chosen is None:
            chosen = getattr(self.definition, "durability", Durability.SYNC)
        assert isinstance(chosen, Durability)
        return "{}" if chosen is Durability.SYNC else with_durability("{}", chosen)

    def __hash__(self) -> int:
        return self.ordinal

    def __repr__(self) -> str:
        return f"<Call of {self.definition!r}{' ' + shown(self.key) if self.key else ''}>"

    # -- awaiting ------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, R_co]:
        if self.used and self.future is None:
            raise RuntimeError(f"{self!r} was awaited before; call {self.definition.written} again for a new call")
        self.used = True
        place = self.place
        if type(place) is not InBody:
            return self._plain(place).__await__()
        if place.ops.closed:
            self._refuse_elsewhere(place)
            return _wait_for_nothing(place.ops)
        future = self.future
        if future is None:
            future = place.ops.issue(self)
        else:
            place.ops.check()
            if place.ops.blocking:
                raise WrongUse(
                    f"{self!r} was awaited in sync workflow {place.ops.workflow} (run {place.ops.run_id}), where no "
                    f"event loop can wait for it; write: {self.definition.written}(...).result(), or make the workflow "
                    "an async def"
                )
            self.future = None
        return future.__await__()

    def _refuse_elsewhere(self, made: InBody | InStep | None) -> None:
        """Raise LostRun when the body of another run than the one in which the call was made waits for it."""
        waits = here.get()
        if type(waits) is InBody and (type(made) is not InBody or made.ops is not waits.ops):
            where = "outside of a run, or in a context that has lost its run," if made is None else "in a step"
            where = f"in run {made.ops.run_id}" if type(made) is InBody else where
            raise LostRun(
                f"{self.definition.noun} {self.definition.written} was called {where} and is awaited in run "
                f"{waits.ops.run_id}; call it where it is awaited"
            )

    def start(self) -> asyncio.Future[Any]:
        """Hand the call to its run now. (`await` does it by itself.)"""
        self.used = True
        self.future = self.place.ops.issue(self)
        return self.future

    def result(self) -> R_co:
        """In a sync workflow: wait for the call's outcome and return it, or raise its error."""
        self.used = self.waited_for = True  # it was not forgotten, even where it is refused
        if self.place is None:
            refuse_lost(f"{self.definition.noun} {self.definition.written}")
        if type(self.place) is not InBody or not self.place.ops.blocking:
            raise WrongUse(
                f"{self!r}.result() waits by blocking, which only a sync workflow may do; write: await "
                f"{self.definition.written}(...)"
            )
        ops: Operations = self.place.ops
        result: R_co = ops.block(self.future if self.future is not None else self.start())
        return result

    def take(self) -> None:
        """Mark the call as used: it was given to something that will run it."""
        self.used = True

    async def _plain(self, place: InStep | None) -> Any:
        """The call outside of a run: a step is its plain function, a workflow is refused."""
        definition = self.definition
        self._refuse_elsewhere(place)
        if isinstance(definition, Step):
            definition._outside(place)
            if definition.is_async:
                return await definition.fn(*self.args, **self.kwargs)
            return await asyncio.to_thread(definition.fn, *self.args, **self.kwargs)
        if place is None:
            refuse_lost(f"workflow {definition.name}")
        where = f"inside step {place.step_id} of run {place.run_id}" if place is not None else "outside of a run"
        raise WrongUse(
            f"workflow {definition.name} was awaited {where}, where nothing would survive a crash; "
            f"start it: run = await app.start({definition.name}(...)); await run.result()"
        )

    def send(self, value: Any) -> Any:
        if self.generator is None:
            self.generator = self.__await__()
        return self.generator.send(value)

    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> Any:
        if self.generator is None:
            self.used = True
            error = typ if isinstance(typ, BaseException) else typ() if val is None else val
            raise error
        if val is None and tb is None:
            return self.generator.throw(typ)
        return self.generator.throw(typ, val, tb)

    def close(self) -> None:
        self.used = True
        if self.generator is not None:
            self.generator.close()

    @property
    def __name__(self) -> str:
        return self.definition.name

    def warn_given_up(self) -> None:
        """Tell that a sync workflow has returned and never waited for this call, which had no outcome yet."""
        if self.waited_for or self.detached or not self.place.ops.forgot(self):
            return
        what = f"run {self.place.ops.run_id}: {self.definition.noun} {self.key} was called"
        with contextlib.suppress(RuntimeWarning):  # where warnings are errors: it is nobody's to catch
            warnings.warn(
                f"{what} but its .result() was never asked for, so it was given up when the workflow ended",
                RuntimeWarning,
                stacklevel=2,
            )

    def __del__(self) -> None:
        if self.used:
            return
        what = f"{self.definition.noun} {self.definition.written} was called"
        if type(self.place) is InBody:
            if not self.place.ops.forgot(self):
                return
            what = f"run {self.place.ops.run_id}: {self.definition.noun} {self.key} was called"
        warnings.warn(f"{what} but its Call was never awaited, so it did not run", RuntimeWarning, stacklevel=2)


def _wait_for_nothing(ops: Operations) -> Generator[Any, None, Any]:
    """Wait in a stopped run. To raise at once would send code that catches everything round and round."""
    yield
    ops.check()
