"""Steps that have a rate: each attempt waits for its turn, which the store gives for the whole fleet.

A turn is a moment, kept in the store. An attempt whose turn is far off lets its run rest, and asks again when the
moment has come, whichever worker has the run by then. Who comes too late for a turn gets another.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from outlast.core.certainty import DID_NOT_HAPPEN
from outlast.core.errors import StoreError, WrongUse
from outlast.core.pending import Pending
from outlast.core.records import Effect
from outlast.stores.queue_verbs import Drawn, DrawRate
from outlast.stores.verbs import Answer, Refused

if TYPE_CHECKING:
    from outlast.runtime.steps import Steps

WAKE_S = 0.5
"""So long before its turn a run that rests is woken: a worker has to claim and to replay it."""
NOT_STARTED = "not started: the lease had run out, or the time for it"
"""The note of an attempt that was written down and not begun."""
AGAIN_S = 0.02
"""Within so long it asks again where another worker was just being given a turn."""


def next_number(pending: Pending) -> int:
    """Return the number of a step's next attempt."""
    return pending.attempts[-1].attempt + 1 if pending.attempts else 1


def not_started(pending: Pending) -> int:
    """Return how many attempts were written down and never begun: they count for nothing."""
    return sum(attempt.note == NOT_STARTED for attempt in pending.attempts)


class StepTurns:
    """The turns of one run's steps. `asking` counts the questions that are on their way."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._run = steps.run
        self._worker = steps.run.worker
        self._has: dict[str, tuple[int, float]] = {}  # by step: which attempt, and until when it may begin
        self.asking = 0

    def is_on(self, pending: Pending) -> bool:
        """Tell whether the next attempt may begin now: its step has no rate, or it has its turn."""
        if not pending.call.settings.rate:
            return True
        attempt, until = self._has.get(pending.key, (0, 0.0))
        return attempt == next_number(pending) and self._worker.now() <= until

    def ask(self, pending: Pending) -> None:
        """Ask for the turn of the next attempt; it begins when it has it."""
        rates, arguments = pending.call.settings.rate, (pending.call.args, pending.call.kwargs)
        run, key, number = self._run, pending.key, next_number(pending)
        try:
            draws = tuple(rate.draw(*arguments, f"step {key} of run {run.row.id}") for rate in rates)
        except Exception as error:  # noqa: BLE001 - a weight is the user's function
            self._fail(pending, number, error)
            return
        verb = DrawRate(
            worker=self._worker.id,
            run=run.row.pk,
            claim=run.row.claim,
            key=f"{run.row.incarnation}/{key}/{number}",
            draws=draws,
            slack=min(rate.slack for rate in rates),
        )
        self.asking += 1

        def heard(answer: Answer | StoreError) -> None:
            if isinstance(answer, Refused) and not run.closed:
                self._worker.loop.call_later(random.uniform(AGAIN_S / 4, AGAIN_S), again)
                return
            self.asking -= 1
            if run.closed:
                return
            if isinstance(answer, Drawn):
                run.calmly(self._drawn, pending, number, answer.at, verb.slack)
            else:
                self._worker.lost_run(run, answer)

        def again() -> None:
            if run.closed:
                self.asking -= 1
            else:
                self._worker.writer.submit(verb, heard)

        self._worker.writer.submit(verb, heard)

    def _fail(self, pending: Pending, number: int, error: Exception) -> None:
        if not isinstance(error, WrongUse):
            error = WrongUse(f"step {pending.key} of run {self._run.row.id}: the weight of its rate raised {error!r}")
        note = DID_NOT_HAPPEN if pending.effect is Effect.ONCE else ""
        self._run.calmly(lambda: self._steps.outcome(pending, number, self._worker.now(), b"", None, error, note=note))

    def _drawn(self, pending: Pending, number: int, at: float, slack: float) -> None:
        """The attempt has its turn: now, or at a time that is to come."""
        if at <= self._worker.now():
            self._has[pending.key] = number, at + slack
            self._steps.prepare(pending)
        elif not self._steps.not_now(pending):
            self._steps.retries[pending.key] = at - WAKE_S
            self._worker.at(at, self._steps.retry, pending)
        self._run.settle_down()
