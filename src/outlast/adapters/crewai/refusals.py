"""What cannot be kept across a crash, and is refused by name before anything is done."""

from __future__ import annotations

from typing import Any, cast

from crewai import Agent, Crew
from crewai.agents.agent_builder.base_agent import BaseAgent

from outlast.core.effects import InBody
from outlast.core.errors import WrongUse
from outlast.core.identity import here


def check_agent(agent: BaseAgent) -> None:
    """Raise WrongUse for an agent some of whose calls nobody would record."""
    if not isinstance(agent, Agent):
        raise WrongUse(
            f"the agent {agent.role} is a {type(agent).__name__}, which makes calls that Outlast does not see and that "
            "would be made again after a crash; give the work to a tool, whose calls are steps"
        )
    if agent.a2a is not None:
        raise WrongUse(
            f"the agent {agent.role} hands work to remote agents (a2a), in conversations that would begin again after "
            "a crash; have a tool ask them, whose calls are steps"
        )


def check_place(form: str) -> None:
    """Raise WrongUse where a crew cannot work: in a body that is not native, or blocking, on the worker's loop."""
    ops: Any = cast("InBody", here.get()).ops
    if not hasattr(ops, "scopes"):
        raise WrongUse(
            f"run {ops.run_id}: CrewAI does I/O and uses threads between its calls, which the body of {ops.workflow} "
            "cannot; write @workflow(loop='native') above it"
        )
    if form in _BLOCKING and ops.body.is_here():
        raise WrongUse(
            f"run {ops.run_id}: crew.{form}() would block the worker's event loop, and with it the run that it waits "
            f"for; write `await crew.{_BLOCKING[form]}(...)`, or `await asyncio.to_thread(crew.{form}, ...)`"
        )


_BLOCKING = {"kickoff": "akickoff", "kickoff_for_each": "akickoff_for_each"}


def check_crew(crew: Crew, run_id: str) -> None:
    """Raise WrongUse for what a crew does between calls that would be done again after a crash, or go wrong then."""
    for agent in {id(agent): agent for agent in (*crew.agents, *(task.agent for task in crew.tasks))}.values():
        if agent is not None:
            _check_settings(agent, f"the agent {agent.role}", run_id)
    if crew.manager_agent is not None:
        _check_settings(crew.manager_agent, f"the agent {crew.manager_agent.role}", run_id)
    _check_settings(crew, f"the crew {crew.name}", run_id)


def _check_settings(of: Any, who: str, run_id: str) -> None:
    settings = vars(of)
    if settings.get("memory") or getattr(of, "_memory", None):
        raise WrongUse(
            f"run {run_id}: {who} has a memory, which would remember again after a crash what it remembers already; "
            "leave `memory` out, and give its agents tools that remember and recall, whose calls are steps"
        )
    if settings.get("max_rpm"):
        raise WrongUse(
            f"run {run_id}: {who} has max_rpm={settings['max_rpm']}, which would make a run wait again for calls that "
            "are recorded; leave it out, and write durable(crew, rate=outlast.Rate(...)), which all runs share"
        )
    if settings.get("checkpoint"):
        raise WrongUse(f"run {run_id}: {who} has checkpoints of CrewAI's, besides the run's own journal; leave one out")


def refuse(form: str, run_id: str) -> None:
    """Raise WrongUse for a way to use a crew that is none in a run."""
    raise WrongUse(
        f"run {run_id}: {form} cannot be used in a run, whose journal tells what was done and what goes on from where; "
        "use it outside of workflows"
    )
