"""The end of a turn: a body that asks to go on as another call, with an empty journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outlast.core.body import Outcome
from outlast.core.definitions import Call
from outlast.core.errors import TurnOver, WrongUse
from outlast.core.transitions import Status

if TYPE_CHECKING:
    from outlast.core.engine import Engine


@dataclass(frozen=True, slots=True)
class Continuation:
    """The call that a run goes on as, and its arguments as they were when that was asked for."""

    call: Call[Any]
    encoded: bytes


def is_turn_over(error: BaseException | None) -> bool:
    """Tell whether this is nothing but the end of a turn, as a task group may have wrapped it."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_turn_over(member) for member in error.exceptions)
    return isinstance(error, TurnOver)


def check_not_swallowed(engine: Engine) -> None:
    """Raise WrongUse where a body has returned, though its turn was to be over before."""
    if engine.continuation is not None:
        name = engine.continuation.call.definition.name
        raise WrongUse(
            f"run {engine.run_id}: the workflow {engine.workflow} asked to continue as {name}(...), caught what ends "
            "its turn (outlast.continue_as raises a BaseException) and returned; let it pass"
        )


def end_of_turn(engine: Engine, outcome: Outcome) -> Outcome:
    """Return how a body ended that may have asked to continue. A run that is being cancelled does not go on."""
    if engine.continuation is None or not is_turn_over(outcome.error):
        return outcome
    if engine.cancel_asked:
        return Outcome(Status.CANCELLED)
    return Outcome(Status.RUNNING, continues=engine.continuation)
