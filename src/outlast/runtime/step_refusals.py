"""Attempts of steps that are not begun, since their time is over, or the run's budget is used up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from outlast.core.certainty import DID_NOT_HAPPEN
from outlast.core.pending import Pending
from outlast.core.records import Effect
from outlast.core.usage import shown_note
from outlast.runtime.step_turns import NOT_STARTED, next_number

if TYPE_CHECKING:
    from outlast.runtime.steps import Steps


def refusal(steps: Steps, pending: Pending) -> Callable[[], None] | None:
    """Return what ends a step whose next attempt may not begin, None where it may."""
    return refused_for_budget(steps, pending) or _refused_for_time(steps, pending)


def refused_for_budget(steps: Steps, pending: Pending) -> Callable[[], None] | None:
    """Return what ends a step that calls a model, where its run has used up its budget."""
    error = steps.run.spending.refusal(pending)
    if error is None:
        return None
    return partial(_end, steps, pending, next_number(pending), steps.run.worker.now(), error)


def _refused_for_time(steps: Steps, pending: Pending) -> Callable[[], None] | None:
    """Return what ends a step whose time for attempts is over, though it was not when the next one was planned."""
    worker, within = steps.run.worker, pending.call.settings.retry.within
    failed = next((attempt for attempt in reversed(pending.attempts) if attempt.note != NOT_STARTED), None)
    if within is None or failed is None or shown_note(failed.note) or failed.value is None:
        return None  # it is no `Retry` that asks for this attempt
    if worker.now() - pending.attempts[0].started <= within:
        return None
    error = worker.codec.decode_error(failed.value)
    return partial(_end, steps, pending, failed.attempt, failed.started, error)


def _end(steps: Steps, pending: Pending, number: int, started: float, error: BaseException) -> None:
    note = DID_NOT_HAPPEN if pending.effect is Effect.ONCE else ""  # what failed before was in `Retry(on=)`
    steps.run.calmly(partial(steps.outcome, pending, number, started, b"", None, error, note=note))
