"""Which part of a crew's work a call belongs to: what its step is named after, the same in each execution.

A kickoff, a task, a step of a plan, and work that one agent hands to another are each a scope of the run's journal.
Several may go on side by side, and each is told what is recorded of it in an order of its own: in one scope a call
could wait for another, and that for the thread of the first. A kickoff is known by the crew and its inputs, a task by
its place in the crew, handed-over work by what was said, an agent's own work by its role.

All of it is found in context variables, which the framework hands to the threads that it starts.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from outlast.adapters.journaled import in_body
from outlast.core.effects import InBody, Operations
from outlast.core.errors import OutlastError
from outlast.core.identity import Branch, here, placed

LONGEST_ROLE = 80
"""So many characters of an agent's role stand in the names of steps; a longer one has a digest behind them."""

numbering = threading.Lock()
"""Held while a call or a scope gets its name: threads that come at once would get one number."""


class Kickoff:
    """One kickoff of a crew. `stopped`: what ended it, past the framework's handlers."""

    def __init__(self, crew: object) -> None:
        self.crew = crew
        self.stopped: OutlastError | None = None


now: ContextVar[Kickoff | None] = ContextVar("outlast_crewai_now", default=None)
"""The kickoff that this code is part of."""

_at_work: ContextVar[str] = ContextVar("outlast_crewai_at_work", default="")

_call_number: ContextVar[int] = ContextVar("outlast_crewai_call_number", default=0)


def operations() -> Operations | None:
    """Return what stands for this execution of the run's body; None elsewhere than in one."""
    return cast("InBody", here.get()).ops if in_body() else None


def key_here() -> str:
    """Return the key of a call of a model that is made here: who makes it."""
    return _at_work.get() or "crew"


def told_apart(who: str, what: Any) -> str:
    """Return the key of one of the calls of tools that a model may ask for at once: who makes it, or does it, and what
    is said in it.
    """
    n = _call_number.get()
    return f"{who}~{digest(what)}{f'~{n}' if n else ''}"


@contextmanager
def call_number(n: int) -> Iterator[None]:
    """Say which this is of the calls of tools that a model has asked for at once, from 0."""
    token = _call_number.set(n)
    try:
        yield
    finally:
        _call_number.reset(token)


def is_recorded(name: str, key: str) -> bool:
    """Tell whether something is recorded of the call with this name and key that would be made here next."""
    place = cast("InBody", here.get())
    ops: Any = place.ops
    branch = place.branch.current()
    with numbering:
        ahead = Branch(branch.path)
        ahead.counts = dict(branch.counts)
        identity = ahead.call(name, key)
    known = ops.scopes.of(branch.path)
    return identity in known.outcomes or identity in known.notes


@contextmanager
def scope(key: str) -> Iterator[None]:
    """Enter a scope of the body, in whatever thread."""
    place = cast("InBody", here.get())
    with numbering:
        branch = place.branch.current().scope(key)
    with placed(InBody(place.ops, branch)):
        yield


@contextmanager
def working(role: str) -> Iterator[None]:
    """Have calls in the block be those of an agent."""
    token = _at_work.set(role)
    try:
        with call_number(0):
            yield
    finally:
        _at_work.reset(token)


@contextmanager
def kickoff_of(crew: object, name: str, inputs: Any) -> Iterator[Kickoff]:
    """Begin a kickoff of a crew, or go on with the one that has begun: one form of it calls another, in a thread."""
    under_way = now.get()
    if under_way is not None and under_way.crew is crew:
        yield under_way
        return
    with scope(f"{name}~{digest(inputs)}"), working(""):
        kickoff = Kickoff(crew)
        token = now.set(kickoff)
        try:
            yield kickoff
        finally:
            now.reset(token)


def role_of(agent: Any) -> str:
    """Return an agent's role, as names of steps have it."""
    role = " ".join(str(agent.role).split())
    return role if len(role) <= LONGEST_ROLE else f"{role[:LONGEST_ROLE]}~{digest(role)}"


def digest(value: Any) -> str:
    """Return what tells a value from others, the same in each execution."""
    text = json.dumps(value, sort_keys=True, default=_told)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def _told(value: Any) -> str:
    """Return a value as text, if that says nothing of where it stands in memory."""
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text
