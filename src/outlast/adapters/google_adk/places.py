"""Which part of an agent's run a call belongs to: what its step is named after, the same in each execution.

An agent is known by its branch, which the framework gives to those that run side by side, and its name. An agent that
is called as a tool has a session of its own, with branches that begin anew: it is known by the tool's call, too.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import cast

from google.adk.agents.invocation_context import InvocationContext

from outlast.adapters.journaled import in_body
from outlast.core.effects import InBody, Operations
from outlast.core.identity import here

inside: ContextVar[str] = ContextVar("outlast_google_adk_inside", default="")
"""The tool's call in which an agent runs that is called as a tool."""


def place_of(context: InvocationContext) -> str:
    """Return what calls that are made in this place are named after."""
    agent = context.agent
    name = "" if agent is None else agent.name
    return ":".join(part for part in (inside.get(), context.branch, name) if part)


def operations() -> Operations | None:
    """Return what stands for this execution of the run's body; None elsewhere than in one."""
    return cast("InBody", here.get()).ops if in_body() else None


def scope_here() -> str:
    """Return the path of the scope of the run's body that this code is in."""
    return cast("InBody", here.get()).branch.current().path
