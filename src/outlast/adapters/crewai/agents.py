"""Agents and tasks of a crew: where in its work a call is made, and what the framework does there in threads."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crewai import Agent, Task
from crewai.utilities.tool_result_artifacts import ToolResultArtifact, ToolResultArtifactStore

from outlast.adapters.crewai.places import call_number, role_of, scope, told_apart, working
from outlast.adapters.journaled import in_body

if TYPE_CHECKING:
    from outlast.adapters.crewai.making import Making

    AgentLikeness = Agent
    TaskLikeness = Task
else:
    AgentLikeness = TaskLikeness = object  # their methods are mixed into the object's own class

_task_now: ContextVar[Task | None] = ContextVar("outlast_crewai_task", default=None)
_at_work: ContextVar[tuple[tuple[int, int], ...]] = ContextVar("outlast_crewai_at_work", default=())
"""The agents that are at work here, outermost first, each with the id of its task."""


class StepAgent(AgentLikeness):
    """The behaviour of an agent whose calls are steps."""

    _outlast: OfAgent

    def execute_task(self, task: Task, context: str | None = None, tools: Any = None) -> Any:
        """Do a task."""
        if not in_body():
            return super().execute_task(task, context, tools)
        with _working(self, task, context) as agent:
            return super(StepAgent, agent).execute_task(task, context, tools)

    async def aexecute_task(self, task: Task, context: str | None = None, tools: Any = None) -> Any:
        """Do a task."""
        if not in_body():
            return await super().aexecute_task(task, context, tools)
        if self.knowledge is not None or getattr(self.crew, "knowledge", None) is not None:
            # The framework asks a model what to look for, and blocks: not on the loop on which the answer is to come.
            return await asyncio.to_thread(self.execute_task, task, context, tools)
        with _working(self, task, context) as agent:
            return await super(StepAgent, agent).aexecute_task(task, context, tools)

    def create_agent_executor(self, tools: Any = None, task: Task | None = None) -> None:
        """Have all models and tools of the executor be such whose calls are steps."""
        making = self._outlast.making
        self.llm = making.model(self.llm)  # an overlay of the framework's may have put another there
        given = self.tools or [] if tools is None else tools
        super().create_agent_executor([making.tools.tool(tool) for tool in given], task)
        _same_each_time(self.agent_executor)


class OfAgent:
    """What is said of a copy of an agent. `root`: which agent of the crew it is."""

    def __init__(self, making: Making, root: int) -> None:
        self.making = making
        self.root = root


@contextmanager
def _working(agent: StepAgent, task: Task, context: str | None) -> Iterator[StepAgent]:
    """Enter an agent's work on a task; give the agent that does it.

    Work that another agent hands over is done by a copy: several may hand over work to one agent at once, whose
    executor does one thing at a time, so that it would be a matter of chance which call is refused.
    """
    chain, said = _at_work.get(), agent._outlast
    if chain and chain[-1] == (said.root, id(task)):
        yield agent  # it tries again
        return
    key = ""
    if task is not _task_now.get():
        key = told_apart(role_of(agent), [task.description, context])
        if said.root not in [root for root, _ in chain]:
            agent = said.making.again(agent)
    token = _at_work.set((*chain, (said.root, id(task))))
    try:
        with scope(key) if key else nullcontext(), working(role_of(agent)):
            yield agent
    finally:
        _at_work.reset(token)


def _same_each_time(executor: Any) -> None:
    """Have an executor do the same in each execution where the framework leaves something to chance.

    The steps of a plan may be taken side by side: they are known by their numbers. So are calls of tools that a model
    asks for at once, which may be alike. A result of a tool that is too long is put in a file, by whose name the model
    asks for it: that name is told again.
    """
    kind = type(executor)
    steps, prepare = kind._ensure_step_executor, kind._prepare_tool_result_for_context
    side_by_side, execute_call = kind._should_parallelize_native_tool_calls, kind._execute_single_native_tool_call
    numbers: dict[int, int] = {}

    def ensure() -> Any:
        made = steps(executor)
        if "execute" not in vars(made):
            execute = made.execute

            def execute_in_scope(todo: Any, *args: Any, **kwargs: Any) -> Any:
                with scope(f"step {todo.step_number}") if in_body() else nullcontext():
                    return execute(todo, *args, **kwargs)

            made.execute = execute_in_scope
        return made

    def prepared(execution_result: dict[str, Any]) -> str:
        if executor._tool_result_artifact_store is None and in_body():
            executor._tool_result_artifact_store = _Artifacts()
        result: str = prepare(executor, execution_result)
        return result

    def numbered(tool_calls: list[Any]) -> bool:
        numbers.clear()
        numbers.update({id(call): n for n, call in enumerate(tool_calls)})
        return bool(side_by_side(executor, tool_calls))

    def execute_numbered(tool_call: Any) -> Any:
        with call_number(numbers.get(id(tool_call), 0)):
            return execute_call(executor, tool_call)

    vars(executor).update(
        _ensure_step_executor=ensure,
        _prepare_tool_result_for_context=prepared,
        _should_parallelize_native_tool_calls=numbered,
        _execute_single_native_tool_call=execute_numbered,
    )


class _Artifacts(ToolResultArtifactStore):
    """Files of long results, which are named after what is in them."""

    def store(self, content: str, estimated_token_count: int) -> ToolResultArtifact:
        """Put a result in a file."""
        made = super().store(content, estimated_token_count)
        told = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
        name = f"tool-result-{len(self._artifact_ids)}-{told}"
        held = made.file_path.parent.rename(self.directory / name) / made.file_path.name
        return replace(made, artifact_id=name, relative_path=held.relative_to(self.directory), file_path=held)


class StepTask(TaskLikeness):
    """The behaviour of a task in whose work calls are steps."""

    _outlast: int

    def _execute_core(self, agent: Any, context: str | None, tools: Any) -> Any:
        with self._entered():
            return super()._execute_core(agent, context, tools)

    async def _aexecute_core(self, agent: Any, context: str | None, tools: Any) -> Any:
        with self._entered():
            return await super()._aexecute_core(agent, context, tools)

    def _execute_task_async(self, agent: Any, context: str | None, tools: Any, future: Future[Any]) -> None:
        try:
            super()._execute_task_async(agent, context, tools, future)
        except BaseException as error:  # noqa: BLE001 - or whoever waits for the task would wait for ever
            future.set_exception(error)

    async def _ainvoke_guardrail_function(self, *args: Any, **kwargs: Any) -> Any:
        if not in_body():
            return await super()._ainvoke_guardrail_function(*args, **kwargs)
        # A guardrail may ask a model, and blocks: not on the loop on which the answer is to come.
        return await asyncio.to_thread(self._invoke_guardrail_function, *args, **kwargs)

    @contextmanager
    def _entered(self) -> Iterator[None]:
        token = _task_now.set(self)
        try:
            with scope(f"{self._outlast}") if in_body() else nullcontext():
                yield
        finally:
            _task_now.reset(token)
