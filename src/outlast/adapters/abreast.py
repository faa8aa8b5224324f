"""Runs of one agent that go on side by side, in one scope: refused, since nothing certain tells them apart.

They are alike to the journal (one agent, one input), so it is their order that says which recorded answer is whose.
That is certain in code that makes them one after another. It is not in tasks beside each other, which may come to them
in another order after a crash. It would give one user the answer of another, and nobody would notice.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakSet

from outlast.core.effects import InBody, Operations
from outlast.core.errors import WrongUse
from outlast.core.identity import here

Task = asyncio.Task[Any]

SETTLED_AFTER_TURNS = 50
"""In so many turns of the loop a generator ends that was broken off."""

_NUMBERED = re.compile(r"Task-(\d+)")

_begun: WeakKeyDictionary[Operations, dict[tuple[str, str], Alike]] = WeakKeyDictionary()
"""By execution, and by the scope and what is alike: the runs of agents that have begun."""


class Alike:
    """Runs that are alike, and have begun in one scope.

    Tasks of numbers below `beside` were there when the last one ended. Those that have had runs come to them in order.
    """

    def __init__(self) -> None:
        self.going: list[Begun] = []
        self.beside = 0
        self.in_order: WeakSet[Task] = WeakSet()

    def may_come_now(self, task: Task | None) -> bool:
        """Tell whether a run that this task begins is certain to come after all of these."""
        self.going = [run for run in self.going if not run.over()]
        alone = all(task is not None and run.task is task for run in self.going)
        return alone and (task in self.in_order or not 0 < _number(task) < self.beside)


class Begun:
    """One run of an agent, in the task that asked for it. `over` tells whether it has ended, also if nobody said so."""

    def __init__(self, alike: Alike, task: Task | None) -> None:
        self._alike = alike
        self.task = task
        self.over: Callable[[], bool] = lambda: task is not None and task.done()

    def end(self, *, answered: bool) -> None:
        """It has ended. `answered`: with an answer, not by an error, after which another task may try it again."""
        if answered and self.task is not None and _number(self.task):
            self._alike.beside = _next_number()
            self._alike.in_order.add(self.task)
        self.over = lambda: True


def begin(alike: str, agent: str) -> Begun:
    """Note that a run of an agent begins here, in the body; raise WrongUse where one like it goes on beside it.

    `alike`: what two runs have in common that the journal cannot tell apart. `agent` is the agent's name, for people.
    """
    runs, task = _runs(alike), _current_task()
    if not runs.may_come_now(task):
        run_id = cast("InBody", here.get()).ops.run_id
        raise WrongUse(
            f"run {run_id}: the agent {agent} runs twice in tasks side by side, with nothing in the journal to tell "
            "the two apart, so after a crash one could be given the other's answers; give each a scope: "
            "with outlast.scope('a name of its own'): ..."
        )
    begun = Begun(runs, task)
    runs.going.append(begun)
    return begun


async def begin_soon(alike: str, agent: str) -> Begun:
    """Do so once those have ended that nobody reads any more: code that breaks off a generator does not wait for it."""
    runs, task, turns = _runs(alike), _current_task(), 0
    while turns < SETTLED_AFTER_TURNS and not runs.may_come_now(task):
        turns += 1
        await asyncio.sleep(0)
    return begin(alike, agent)


def _runs(alike: str) -> Alike:
    place = cast("InBody", here.get())
    return _begun.setdefault(place.ops, {}).setdefault((place.branch.current().path, alike), Alike())


@contextmanager
def alone(alike: str, agent: str) -> Iterator[None]:
    """Run an agent in the block: `begin`, and the end of it."""
    begun, answered = begin(alike, agent), False
    try:
        yield
        answered = True
    finally:
        begun.end(answered=answered)


def _current_task() -> Task | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # a thread without a loop
        return None


def _number(task: Task | None) -> int:
    """Return the number of a task, by which it is known what was made before it; 0 for one with a name of its own.

    The body's own task has a name: what it does comes after all that it has waited for.
    """
    numbered = None if task is None else _NUMBERED.fullmatch(task.get_name())
    return int(numbered[1]) if numbered else 0


def _next_number() -> int:
    """Return the number of a task that is made now."""
    return _number(asyncio.get_running_loop().create_task(_nothing(), context=contextvars.Context()))


async def _nothing() -> None:
    pass
