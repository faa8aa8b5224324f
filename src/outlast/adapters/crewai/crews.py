"""`durable`: a crew whose calls of models and tools are steps of the run in whose workflow it works.

Theory of operation
-------------------

The framework's hooks can see a call and forbid it, and none can say what it gave. So a crew is copied: each of its
models, tools, agents and tasks becomes a copy, with a class of its own, in which the methods that make calls make them
in steps. All else is the framework's own code and runs again after a crash: it comes to the same calls, and is told
what is recorded of them. Elsewhere than in the body of a run the copy does what the crew does.

Calls are told apart by where in the crew's work they are made (`places.py`). The framework makes most of them in
threads, which wait for the outcome (`calls.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from crewai import Crew
from crewai.core.providers.human_input import reset_provider, set_provider

from outlast.adapters.crewai.calls import unwrapped
from outlast.adapters.crewai.classes import said_of
from outlast.adapters.crewai.making import Making
from outlast.adapters.crewai.models import ModelCalls
from outlast.adapters.crewai.people import provider_for
from outlast.adapters.crewai.places import kickoff_of, operations
from outlast.adapters.crewai.refusals import check_crew, check_place, refuse
from outlast.adapters.crewai.tools import Effects, ToolMaker
from outlast.adapters.journaled import MODEL, in_body
from outlast.core.errors import WrongUse
from outlast.core.queues import Rate
from outlast.core.retry import Retry

if TYPE_CHECKING:
    CrewLikeness = Crew
else:
    CrewLikeness = object  # its methods are mixed into the crew's own class

C = TypeVar("C", bound=Crew)


def durable(
    crew: C,
    *,
    effects: Effects | None = None,
    approve: Collection[str] = (),
    to: str = "",
    tokens: str | None = None,
    rate: Rate | tuple[Rate, ...] | None = None,
    retry: Retry | None = None,
    timeout: float | None = None,
) -> C:
    """Return a copy of a crew each of whose calls of a model and of a tool is a step, in a workflow.

    `await durable(crew).akickoff(inputs)` in a `@workflow(loop="native")`. Elsewhere it does what the crew does. The
    crew itself is left alone; the copy has used nothing yet.

    - `effects`: by the names of tools, what a call does to the world: `"pure"`, `"idempotent"` or `"once"`, or a dict
      of what `outlast.effect` takes, and `effect`. It goes before the mark of the tool.
    - `approve`: names of tools whose calls people have to approve, each by itself. `to`: who is asked, for those and
      for tasks with `human_input=True`, as in `outlast.approve`.
    - `tokens`: the name of a stream of the run to which text is written as it comes in, where answers are streamed.
    - `rate`, `retry`, `timeout`: of each call of a model; as a rule the client library has retries and a timeout.

    Raises WrongUse for agents whose calls cannot be recorded, and a kickoff in a run does for what a crash would break.
    """
    if said_of(crew) is not None:
        raise WrongUse(f"the crew {crew.name} is durable already; write all that is to be said of it in one place")
    if isinstance(approve, str):
        raise WrongUse(f"durable(approve={approve!r}): must be a list of the names of tools, such as [{approve!r}]")
    calls = ModelCalls(MODEL.with_(rate=rate, retry=retry, timeout=timeout), tokens)
    making = Making(calls, ToolMaker(dict(effects or {}), approve, to), to)
    made: C = making.crew(crew, StepCrew)
    return made


class StepCrew(CrewLikeness):
    """The behaviour of a crew whose calls are steps."""

    _outlast: Making

    def kickoff(self, inputs: Any = None, input_files: Any = None, from_checkpoint: Any = None) -> Any:
        """Have the crew do its tasks."""
        with self._entered("kickoff", inputs, from_checkpoint):
            return super().kickoff(inputs, input_files, from_checkpoint)

    async def kickoff_async(self, inputs: Any = None, input_files: Any = None, from_checkpoint: Any = None) -> Any:
        """Have the crew do its tasks, in a thread."""
        with self._entered("kickoff_async", inputs, from_checkpoint):
            return await super().kickoff_async(inputs, input_files, from_checkpoint)

    async def akickoff(self, inputs: Any = None, input_files: Any = None, from_checkpoint: Any = None) -> Any:
        """Have the crew do its tasks, on this loop."""
        with self._entered("akickoff", inputs, from_checkpoint):
            return await super().akickoff(inputs, input_files, from_checkpoint)

    def kickoff_for_each(self, inputs: Any, input_files: Any = None) -> Any:
        """Have copies of the crew do its tasks, one after the other."""
        if in_body():
            check_place("kickoff_for_each")
        return super().kickoff_for_each(inputs, input_files)

    def copy(self) -> Any:  # type: ignore[override]  # as the framework's own
        """Return a copy of the crew, whose calls are steps, too."""
        return self._outlast.anew().crew(super().copy(), StepCrew)

    def _create_manager_agent(self) -> None:
        super()._create_manager_agent()
        if self.manager_agent is not None and said_of(self.manager_agent) is None:
            self.manager_agent = self._outlast.agent(self.manager_agent)
            self.manager_agent.crew = self

    def train(self, *args: Any, **kwargs: Any) -> None:
        """Train the crew, elsewhere than in a run."""
        self._refuse("train")
        super().train(*args, **kwargs)

    def test(self, *args: Any, **kwargs: Any) -> None:
        """Test the crew, elsewhere than in a run."""
        self._refuse("test")
        super().test(*args, **kwargs)

    def replay(self, *args: Any, **kwargs: Any) -> Any:
        """Do tasks again, elsewhere than in a run."""
        self._refuse("replay")
        return super().replay(*args, **kwargs)

    def _refuse(self, form: str) -> None:
        ops = operations()
        if ops is not None:
            refuse(f"crew.{form}()", ops.run_id)

    @contextmanager
    def _entered(self, form: str, inputs: Any, from_checkpoint: Any) -> Iterator[None]:
        """Enter a kickoff. One that streams begins when its pieces are asked for, by a kickoff that does not."""
        ops = operations()
        if ops is None:
            yield
            return
        check_place(form)
        check_crew(self, ops.run_id)
        if from_checkpoint is not None:
            refuse("from_checkpoint", ops.run_id)
        if self.stream:
            yield
            return
        with kickoff_of(self, self.name or "crew", [self.key, inputs]):
            token = set_provider(provider_for(self._outlast.to))
            try:
                with unwrapped():
                    yield
            finally:
                reset_provider(token)
