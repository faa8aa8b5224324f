"""Agents and tasks of a crew: where in its work a call is made, and what the framework does there in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from crewai import Agent, Task

from outlast.adapters.crewai.places import digest, role_of, scope, working
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
        with _working(self, task, context) as agent:
            return await super(StepAgent, agent).aexecute_task(task, context, tools)

    def create_agent_executor(self, tools: Any = None, task: Task | None = None) -> None:
        """Have all models and tools of the executor be such whose calls are steps."""
        making = self._outlast.making
        self.llm = making.model(self.llm)  # an overlay of the framework's may have put another there
        given = self.tools or [] if tools is None else tools
        super().create_agent_executor([making.tools.tool(tool) for tool in given], task)
        _name_steps_of_plans(self.agent_executor)


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
        key = f"{role_of(agent)}~{digest([task.description, context])}"
        if said.root not in [root for root, _ in chain]:
            agent = said.making.again(agent)
    token = _at_work.set((*chain, (said.root, id(task))))
    try:
        with scope(key) if key else nullcontext(), working(role_of(agent)):
            yield agent
    finally:
        _at_work.reset(token)


def _name_steps_of_plans(executor: Any) -> None:
    """Have the steps of a plan, which may be taken side by side, be known by their numbers."""
    make = type(executor)._ensure_step_executor

    def ensure() -> Any:
        made = make(executor)
        if "execute" not in vars(made):
            execute = made.execute

            def execute_in_part(todo: Any, *args: Any, **kwargs: Any) -> Any:
                with scope(f"step {todo.step_number}") if in_body() else nullcontext():
                    return execute(todo, *args, **kwargs)

            made.execute = execute_in_part
        return made

    vars(executor)["_ensure_step_executor"] = ensure


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
