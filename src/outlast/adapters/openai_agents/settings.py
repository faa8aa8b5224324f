"""What a durable runner was told, and where it holds: in the body of a run, in what the runner runs there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from outlast.adapters.journaled import MODEL, in_body
from outlast.core.effects import InBody
from outlast.core.identity import here
from outlast.core.settings import Settings

NOTED = Settings().with_(effect="pure", check_args=False)
"""How that is recorded which calls no model."""


@dataclass(frozen=True)
class Told:
    """The settings of a runner: of calls of models, the effects of tools by name, the stream of tokens."""

    model: Settings = MODEL
    effects: Mapping[str, Any] = field(default_factory=dict)
    tokens: str | None = "tokens"


@dataclass
class Entered:
    """One run of an agent that is under way: what it was told, how deep it is, and the models it has met."""

    told: Told
    depth: int = 0
    models: dict[tuple[int, str], Any] = field(default_factory=dict)


entered: ContextVar[Entered | None] = ContextVar("outlast_openai_agents", default=None)
"""The run of an agent in which this code is."""


@contextmanager
def scoped(key: str) -> Iterator[None]:
    """Enter a scope of the body, in whichever thread its code is: agents may be run in one by `Runner.run_sync`."""
    place = here.get()
    assert isinstance(place, InBody)
    token = here.set(InBody(place.ops, place.branch.current().scope(key)))
    try:
        yield
    finally:
        here.reset(token)


def durable() -> Entered | None:
    """Return the run of an agent whose calls are recorded here.

    None outside of a durable runner, and in a step: what a tool's function runs is part of that step.
    """
    return entered.get() if in_body() else None
