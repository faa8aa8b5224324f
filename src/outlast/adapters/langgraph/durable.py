"""Graphs as runs: supervised by workers, one owner each, resumed by whoever takes the run over.

The run's thread bears its id. Its input is in the run's row before anybody hears that it was started. A worker invokes
the graph with the input, or, where the head of the thread was put by this run, has it go on from there. So the body has
a state of its own, and passes by what its journal has of questions that were answered before (`Workflow.resumes`).

**Interrupts** are asked as approvals. A task may interrupt again and again under one id, so a question is known by that
id and by how many answers its task has been given; those are stored with the interrupt that follows them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.errors import GraphDrained
from langgraph.pregel import Pregel
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt
from pydantic import ValidationError

import outlast
from outlast.adapters.langgraph.asking import Refused, answer_of, is_invalid_resume, problem_of, question_of
from outlast.adapters.langgraph.clients import Asked, StoreClient
from outlast.adapters.langgraph.saver import Saver
from outlast.adapters.langgraph.tasks import TaskBranch, Tasks
from outlast.adapters.langgraph.writing import Writing
from outlast.core.arguments import check_text
from outlast.core.effects import InBody
from outlast.core.errors import StoreError, WrongUse
from outlast.core.identity import here, placed
from outlast.core.native_engine import NativeEngine
from outlast.core.workflows import Workflow
from outlast.runtime.approvals import MAX_TEXT_BYTES
from outlast.runtime.native import TaskBody
from outlast.runtime.registry import register
from outlast.runtime.worker import Worker
from outlast.stores.protocol import Store
from outlast.stores.verbs import Answer, Failed

INTERRUPT, RESUME = "__interrupt__", "__resume__"
OURS = "outlast_run"
"""The key in the metadata of checkpoints that says which incarnation of a run has put them."""
UNNAMED = "LangGraph"


OF_A_PROCESS = {
    "callbacks": "they are objects of this process, and another one may go on: give them to the graph, with_config()",
    "run_id": "the run has an id, which is the thread's, too: app.start(..., id=...)",
}
OF_THE_THREAD = {"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map"}
"""What a call's config cannot say, since the run does."""


class DurableGraph(Workflow[[Any, "RunnableConfig | None", Any], Any]):
    """A workflow whose body runs a graph. Made by `outlast.langgraph.durable`."""

    resumes = True

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise WrongUse for a config that a run cannot keep, too."""
        super().check(args, kwargs)
        config = kwargs.get("config", args[1] if len(args) > 1 else None) or {}
        for name, why in OF_A_PROCESS.items():
            if name in config:
                raise WrongUse(f"graph {self.name}: a run's config cannot have {name}: {why}")
        of_thread = sorted(OF_THE_THREAD.intersection(config.get("configurable", {})))
        if of_thread:
            raise WrongUse(
                f"graph {self.name}: a run's config cannot have {', '.join(of_thread)}: the thread of a run has the "
                "run's id, app.start(..., id=...), and begins with its input"
            )


def durable(graph: Pregel[Any, Any, Any, Any], *, name: str | None = None, to: str = "") -> DurableGraph:
    """Make a compiled graph a workflow: `app.start(agent(input), id=...)` runs it, and `result()` gives its output.

    It is called as the graph is: `agent(input, config=None, context=None)`. Both are kept with the run, so a config has
    `recursion_limit`, `configurable`, `tags` and the like, and neither callbacks nor a thread.

    The run survives its process: another worker goes on from the last checkpoint, with durability "sync". Its thread
    has the run's id, belongs to it, and is kept in the run's store; a checkpointer that the graph was compiled with is
    not used. When its worker is drained the run moves on before the next step of the graph.

    An `interrupt(value)` is asked as an approval, whose data is the value, and whose form is any JSON:
    `app.approve(id, form={"decisions": [...]})`. The node gets the form that was filled in, else True or False;
    LangChain's `HumanInTheLoopMiddleware` gets decisions. `to` is for whom the approvals are: `app.approvals(to=...)`.

    `name` is the workflow's name in stores, by default that of the graph. Raises WrongUse where it has none.
    """
    check_text("durable", "to", to, MAX_TEXT_BYTES)
    called = name or graph.get_name()
    if called == UNNAMED:
        raise WrongUse(
            "this graph has no name by which its runs would find it: compile(name=...), or durable(name=...)"
        )

    async def run(input: Any, config: RunnableConfig | None = None, context: Any = None) -> Any:
        return await _Supervised(graph, config or {}, context, to).invoke(input)

    caller = sys._getframe(1).f_globals  # whose module a worker has to import
    run.__module__, run.__qualname__ = str(caller.get("__name__")), called
    made = DurableGraph(run, called, native=True)
    register(made)
    return made


class _OfWorker:
    """A worker, as a checkpointer needs it."""

    def __init__(self, worker: Worker) -> None:
        self.loop: asyncio.AbstractEventLoop = worker.loop
        self.store: Store = worker.store
        self._writer = worker.writer

    async def ask(self, verb: Any) -> Answer:
        """Have a verb committed, however long the store is away."""
        answer = await self._writer.ask(verb)
        if isinstance(answer, Failed):
            raise StoreError(f"a checkpoint cannot be stored: {answer.why}")
        return answer


class _WorkersClient(StoreClient):
    """The client of a checkpointer that a body uses, which no other client may be used in."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(None)
        self._asked = _OfWorker(worker)

    def _refuse(self) -> None: ...

    def _open(self) -> Asked:
        return self._asked

    async def _opened(self) -> Asked:
        return self._asked


class _Supervised:
    """One execution of a run of a graph, by one worker."""

    def __init__(self, graph: Pregel[Any, Any, Any, Any], config: RunnableConfig, context: Any, to: str) -> None:
        place = cast("InBody", here.get())
        self._engine = cast("NativeEngine", place.ops)
        row = self._engine.row
        worker = cast("TaskBody", self._engine.body).worker
        writing = Writing(row.id, (worker.id, row.pk, row.claim))
        self._saver = Saver._of_run(_WorkersClient(worker), writing, getattr(graph.checkpointer, "serde", None))
        self._graph = graph.copy(update={"checkpointer": self._saver})
        self._context = context
        self._to = to
        self._config: Any = {
            **config,
            "configurable": {**config.get("configurable", {}), "thread_id": row.id},
            "metadata": {**config.get("metadata", {}), OURS: row.incarnation},
            "callbacks": [Tasks(self._engine)],
        }
        self._place = InBody(place.ops, TaskBranch(place.branch.path))

    async def invoke(self, input: Any) -> Any:
        """Run the graph to its end; asks people what it asks."""
        with placed(self._place):
            return await self._to_the_end(input)

    async def _to_the_end(self, input: Any) -> Any:
        given = None if await self._has_begun() else input
        result, asked = None, cast("Sequence[Interrupt[Any]]", ())
        refused = Refused()
        while True:
            try:
                result = await self._until_it_asks(given)
            except ValidationError as error:
                if not (asked and is_invalid_resume(error)):
                    raise
                refused = refused.again(error)
            else:
                asked, refused = result.get(INTERRUPT, ()) if isinstance(result, dict) else (), Refused()
            if not asked:
                return result
            heads = await self._saver.aheads(self._engine.row.id)
            answers = await asyncio.gather(*(self._ask(one, _answers(heads, one.id), refused) for one in asked))
            given = Command(resume={question.id: answer for question, answer in zip(asked, answers, strict=True)})

    async def _has_begun(self) -> bool:
        head = await self._saver.aget_tuple(self._config)
        return head is not None and dict(head.metadata).get(OURS) == self._engine.row.incarnation

    async def _until_it_asks(self, given: Any) -> Any:
        control = RunControl()
        self._engine.on_leave(control.request_drain)
        try:
            with placed(self._place):  # a task of the graph may have been entered in this very context
                return await self._graph.ainvoke(
                    given, self._config, context=self._context, durability="sync", control=control
                )
        except GraphDrained:
            await self._engine.handed_back()
        finally:
            self._engine.on_leave(None)

    async def _ask(self, question: Interrupt[Any], answered: int, refused: Refused) -> Any:
        """Return what people answer. `answered` is how many answers its task has been given before."""
        asked, problem = question.value, refused.problem
        with outlast.scope(f"{question.id}-{answered}{f'~{refused.times}' if refused.times else ''}"):
            while True:
                text = question_of(self._engine.workflow, asked, problem)
                answer = answer_of(asked, await outlast.approve(text, data=asked, form=Any, to=self._to))
                problem = problem_of(question, answer)
                if not problem:
                    return answer


def _answers(heads: Sequence[CheckpointTuple], id: str) -> int:
    """Return how many answers the task that interrupts under this id has been given."""
    most = 0
    for head in heads:
        writes = head.pending_writes or []
        tasks = {task for task, channel, value in writes if channel == INTERRUPT and _has(value, id)}
        given = [len(value) for task, channel, value in writes if channel == RESUME and task in tasks]
        most = max([most, *given])
    return most


def _has(interrupts: Any, id: str) -> bool:
    return any(getattr(one, "id", None) == id for one in interrupts)
