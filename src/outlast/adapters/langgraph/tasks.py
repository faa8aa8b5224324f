"""Where in a graph code runs: each execution of a node, or of a `@task`, is a scope of the run.

What is called in a scope is recorded under its name, so a node that starts again, after a crash, an interrupt or the
failure of a sibling, is told what it had done. The name of a scope has to be the same then. The ids of tasks are not:
they are made of those of checkpoints, which are made of times. So it is the place of the task in its graph (the names
of the subgraphs around it, its own, the step of the graph), and for a `Send` or a `@task` which of its step it is.

LangGraph tells its callbacks when a task begins, in the context in which the task then runs, whether its graph is the
run's own, a subgraph, or one that a node calls as a function. That is all that is used here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from outlast.core.effects import InBody
from outlast.core.identity import Branch, here
from outlast.core.native_engine import NativeEngine
from outlast.core.native_scopes import NativeBranch

NAMESPACE, STEP, PATH = "langgraph_checkpoint_ns", "langgraph_step", "langgraph_path"
"""The keys in the metadata of a task's callbacks that say where it is."""
PUSH = "__pregel_push"
"""How the path begins of a task that was sent or called, and not set off by a channel."""

tool_errors: ContextVar[list[BaseException] | None] = ContextVar("outlast_tool_errors", default=None)
"""Where an attempt of a tool's call hears of errors that LangGraph makes answers of."""


class TaskBranch(NativeBranch):
    """The scope of one execution of a task. Where it has ended, a context that still holds it is in the one around it.

    (LangGraph runs the only task of a step in the context of the graph itself, and tells of its end from another.)
    """

    __slots__ = ("_counts", "_path", "ended", "namespace", "outer", "raised", "within")

    def __init__(self, path: str, outer: TaskBranch | None = None, namespace: str = "") -> None:
        self._path = path
        self._counts: dict[str, int] = {}
        self.outer = outer
        self.namespace = namespace
        self.ended = False
        self.within: dict[str, dict[object, int]] = {}  # the scopes in it: by their names, the tasks that had them
        self.raised: set[str] = set() if outer is None else outer.raised
        """What failed steps this execution of the run's body was told of."""

    def current(self) -> TaskBranch:
        branch = self
        while branch.ended and branch.outer is not None:
            branch = branch.outer
        return branch

    @property
    def path(self) -> str:  # type: ignore[override]
        return self.current()._path

    @property
    def counts(self) -> dict[str, int]:  # type: ignore[override]
        return self.current()._counts

    def scope(self, key: str) -> TaskBranch:
        outer = self.current()
        return TaskBranch(super().scope(key).path, outer, outer.namespace)

    def number(self, name: str) -> int:
        """Return which this is of what is called by this name here, in this execution."""
        return self.current()._number(name)

    def enter(self, engine: NativeEngine, name: str, task: object, namespace: str) -> TaskBranch:
        """Begin the scope of this name for a task, or begin it again where this task has had it.

        One that another task has had is left alone: that graph is called a second time here.
        """
        had = self.within.setdefault(name, {})
        n = had.setdefault(task, len(had) + 1)
        path = Branch(self._path).scope(name).path + (f"#{n}" if n > 1 else "")
        _begin(engine, path)
        return TaskBranch(path, self, namespace)


def _begin(engine: NativeEngine, path: str) -> None:
    """Begin a scope, on the loop of its run."""
    if engine.body.is_here():
        engine.scopes.begin(path)
        return

    def begin() -> asyncio.Future[None]:
        engine.scopes.begin(path)
        begun = engine.body.loop.create_future()
        begun.set_result(None)
        return begun

    engine.body.hand_over(begin)


class Tasks(BaseCallbackHandler):
    """Hears of the tasks of all graphs that a run executes, and enters their scopes."""

    run_inline = True  # in the context of the task
    raise_error = True

    def __init__(self, engine: NativeEngine) -> None:
        self._engine = engine
        self._open: dict[UUID, TaskBranch] = {}

    @property
    def ignore_llm(self) -> bool:
        """Whether this hears nothing of models."""
        return True

    ignore_chat_model = ignore_retriever = ignore_retry = ignore_custom_event = ignore_llm

    def on_chain_start(
        self,
        serialized: Any,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Enter the scope of a task that begins; what begins within a task is of the same namespace."""
        place, told = here.get(), metadata or {}
        namespace = told.get(NAMESPACE)
        if not isinstance(place, InBody) or place.ops is not self._engine or not namespace:
            return
        outer = place.branch.current()
        if isinstance(outer, TaskBranch) and outer.namespace != namespace:
            branch = outer.enter(self._engine, _name(outer.namespace, told), namespace, namespace)
            self._open[run_id] = branch
            here.set(InBody(self._engine, branch))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Leave the scope of a task that has ended."""
        branch = self._open.pop(run_id, None)
        if branch is not None:
            branch.ended = True

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Leave the scope of a task that has failed."""
        self.on_chain_end(None, run_id=run_id)

    def on_tool_error(self, error: BaseException, **kwargs: Any) -> None:
        """Tell the attempt in which a tool is called of an error."""
        errors = tool_errors.get()
        if errors is not None:
            errors.append(error)


def _name(outer: str, told: dict[str, Any]) -> str:
    """Return what tells a task from all others of the scope around it, whenever it begins."""
    around, segments = outer.split("|"), str(told[NAMESPACE]).split("|")
    while around and segments[1:] and around[0] == segments[0]:
        around, segments = around[1:], segments[1:]
    place = "|".join(segment.partition(":")[0] for segment in segments)
    path = told.get(PATH) or ()
    which = ":".join(_flat(path)) if path and path[0] == PUSH else ""
    return f"{place}@{told.get(STEP)}" + (f":{which}" if which else "")


def _flat(path: Any) -> Iterator[str]:
    """Give the parts of a task's path that say which it is; tasks that tasks call have paths in their paths."""
    for part in path:
        if isinstance(part, tuple | list):
            yield from _flat(part)
        elif part is not True and part is not False and part != PUSH:
            yield str(part)


def in_task() -> bool:
    """Tell whether this code is in a graph that is run as a run, whose tasks tell apart what they call."""
    place = here.get()
    return isinstance(place, InBody) and isinstance(place.branch.current(), TaskBranch)


@contextmanager
def within(name: str) -> Iterator[None]:
    """Enter a scope of a task for what is called in it under a name, such as a tool's call that runs other agents."""
    place = here.get()
    outer = place.branch.current() if isinstance(place, InBody) else None
    if not isinstance(place, InBody) or not isinstance(outer, TaskBranch) or not isinstance(place.ops, NativeEngine):
        yield
        return
    branch = outer.enter(place.ops, name, object(), outer.namespace)
    token = here.set(InBody(place.ops, branch))
    try:
        yield
    finally:
        branch.ended = True
        here.reset(token)
