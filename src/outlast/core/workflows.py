"""What `@workflow` makes, and its settings for some calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, ParamSpec, TypeVar, Unpack

from outlast.core.definitions import Call
from outlast.core.durabilities import Durability
from outlast.core.durabilities import durability as durability_of
from outlast.core.effects import InBody
from outlast.core.errors import WrongUse
from outlast.core.functions import Definition
from outlast.core.identity import check_run_id, here
from outlast.core.settings import Settings
from outlast.core.terms import SHARED_ID, Terms, TermsOfCall, terms_of

P = ParamSpec("P")
R = TypeVar("R")


class Workflow(Definition[P, R]):
    """A function whose progress is durable. Made by `@workflow`; `fn` is the plain function."""

    noun = "workflow"
    terms: Terms | None = None
    """On which its runs are started unless a call has its own."""

    resumes = False
    """Whether a native body has a state of its own to go on from, and so does not come by all that is recorded."""

    def __init__(
        self, fn: Callable[P, Any], name: str | None, durability: Durability = Durability.SYNC, *, native: bool = False
    ) -> None:
        super().__init__(fn, name)
        self.durability = durability
        self.native = native
        if native and not self.is_async:
            raise WrongUse(
                f"workflow {self.name} has loop='native', which is for async functions: write an async def; "
                "what blocks it can call by asyncio.to_thread"
            )

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        self.check(args, kwargs)
        return self.on_terms(self.terms, None, args, kwargs)

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise WrongUse for a method, TypeError for arguments that the function does not take."""
        if self.has_self:
            raise WrongUse(
                f"workflow {self.name} cannot be a method: its object would be missing where its run is taken over; "
                "write a function, and pass what it needs as arguments"
            )
        self.check_arguments(args, kwargs)

    def on_terms(self, terms: Terms | None, id: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[R]:
        """Make a Call whose run is started on these terms, as a child of this id."""
        place = here.get()
        if type(place) is InBody and terms is not None and terms.is_shared:
            raise WrongUse(
                f"workflow {self.name}: dedup= and debounce= may give a run that somebody else has started, which is "
                f"no child of run {place.ops.run_id}; start it in a step, or give it an id="
            )
        call: Call[R] = Call(self, args, kwargs, Settings(), place)
        call.terms, call.child_id = terms, id
        if type(place) is InBody and place.ops.blocking:
            call.start()
        return call

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Make a Call, like calling the workflow."""
        return self(*args, **kwargs)

    def options(
        self,
        *,
        id: str | None = None,
        durability: Literal["sync", "async", "exit"] | None = None,
        **terms: Unpack[TermsOfCall],
    ) -> _WorkflowOptions[P, R]:
        """Return this workflow with settings for some calls: `id` of the child run, and on which terms it is started.

        - `durability` of the run: `"sync"`, `"async"` or `"exit"`; by default that of the workflow.
        - `queue`: the queue that the run is put on; by default that of the workflow. `queue_key` is its key there
          where the queue's own function is not to say, `priority` its turn: higher goes first, the usual is 0.
        - `delay`: seconds, or the time (a datetime with a time zone), before which it does not begin.
        - `dedup`: while a run of this workflow with the same `dedup` has not ended, the same call gives that run, and
          a call with other arguments is a RunConflict.
        - `debounce`: while a run of this workflow with the same `debounce` has not begun, another start gives it the
          new arguments and terms and puts it off by `delay` once more, until `max_wait` seconds after the first at
          most.
        - `max_tokens`, `max_cost`: what it may use of models before steps that call one are refused with
          BudgetExceeded; by default those of the workflow.
        - `timeout`: seconds from its start after which the run is cancelled, if it has not ended, and fails with
          RunTimeout.

        Raises WrongUse for what makes no sense.
        """
        chosen = terms_of(self.terms, terms)
        if id is not None and chosen.is_shared:
            raise WrongUse(SHARED_ID)
        kept = durability_of(durability) if durability is not None else None
        return _WorkflowOptions(self, check_run_id(id) if id is not None else None, chosen, kept)


class _WorkflowOptions(Generic[P, R]):
    def __init__(self, workflow: Workflow[P, R], id: str | None, terms: Terms, durability: Durability | None) -> None:
        self._workflow = workflow
        self._id = id
        self._terms = terms
        self._durability = durability

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        self._workflow.check(args, kwargs)
        call = self._workflow.on_terms(self._terms, self._id, args, kwargs)
        call.durability = self._durability
        return call
