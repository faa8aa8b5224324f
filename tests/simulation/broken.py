"""Broken variants of the library: each leaves one of its precautions out, so that a test can see the oracle notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

from outlast.core.codec import Codec
from outlast.core.effects import InStep
from outlast.core.identity import derive
from outlast.core.pending import Pending
from outlast.core.records import Effect
from outlast.runtime import steps as steps_module
from outlast.runtime.attempts import Attempt, _turn
from outlast.runtime.claims import Claims
from outlast.runtime.evidence import Evidence, Silence
from outlast.runtime.steps import Steps
from outlast.runtime.worker import Worker
from outlast.runtime.writer import Batch, Writer
from outlast.stores.memory import verbs
from outlast.stores.memory.tables import Tables
from outlast.stores.rules import Hold
from outlast.stores.verbs import Claim, TakenOver, TakeOver


def no_fence() -> AbstractContextManager[Any]:
    """The store takes every write for a run that runs, whoever sends it."""

    def hold(tables: Tables, run: int, worker: str, claim: int) -> Hold:
        return Hold.OWNED if tables.runs[run].row.owner is not None else Hold.PAST

    return _both(mock.patch.object(Tables, "hold", hold), mock.patch.object(Tables, "lease_lost", return_value=None))


def no_barrier() -> AbstractContextManager[Any]:
    """An effect starts before the records it rests on are committed."""
    real = Steps.start

    def start(steps: Steps, pending: Pending) -> None:
        if pending.intent is None and not pending.is_child and not pending.is_wait:
            steps.prepare(pending)
        else:
            real(steps, pending)

    return mock.patch.object(Steps, "start", start)


def no_intent() -> AbstractContextManager[Any]:
    """A `once` attempt begins without a trace in the journal."""
    real = Steps._attempt

    def attempt(steps: Steps, pending: Pending) -> None:
        effect, pending.effect = pending.effect, Effect.IDEMPOTENT
        try:
            real(steps, pending)
        finally:
            pending.effect = effect

    return mock.patch.object(Steps, "_attempt", attempt)


def takeover_drops_a_run() -> AbstractContextManager[Any]:
    """Of the runs of a dead worker, the last is not put back in the queue."""
    real = verbs.VERBS[TakeOver]

    def take_over(tables: Tables, verb: TakeOver) -> Any:
        answer = real(tables, verb)
        if isinstance(answer, TakenOver) and answer.runs:
            tables.runs[answer.runs[-1]].row.due = None
        return answer

    return mock.patch.dict("outlast.stores.memory.store.VERBS", {TakeOver: take_over})


def no_local_look_at_the_lease() -> AbstractContextManager[Any]:
    """A process that was frozen starts effects at once."""
    return mock.patch.object(Worker, "holds_lease", return_value=True)


def lost_batches_are_not_sent_again() -> AbstractContextManager[Any]:
    """The writer drops a batch when the store was away."""
    real = Writer._commit

    def commit(writer: Writer, batch: Batch) -> Iterator[float]:
        for pause in real(writer, batch):
            yield pause
            return

    return mock.patch.object(Writer, "_commit", commit)


def live_objects_are_handed_back() -> AbstractContextManager[Any]:
    """The body gets the step's own object, not what the journal will say it was."""
    real = steps_module.returned

    def returned(value: Any, codec: Codec, returns: Any, place: InStep) -> tuple[bytes, Any]:
        return real(value, codec, returns, place)[0], value

    return mock.patch.object(steps_module, "returned", returned)


def a_no_is_believed_at_once() -> AbstractContextManager[Any]:
    """`DidNotHappen` is taken for true while the request may still be on its way."""

    async def silence(evidence: Evidence) -> Silence:
        return Silence(0.0, 0.0, "")

    return mock.patch.object(Evidence, "silence", silence)


def other_keys_for_other_attempts() -> AbstractContextManager[Any]:
    """Each attempt of a step has an idempotency key of its own."""

    def key(place: InStep) -> str:
        return derive(place.incarnation, "step", place.step_id, str(place.attempt), str(place.fence))

    return mock.patch.object(InStep, "idempotency_key", property(key))


def only_the_starter_begins_its_run() -> AbstractContextManager[Any]:
    """A run that its own process claimed at its start is begun only while its starter waits."""
    return mock.patch.object(Claims, "begin_started")


def claims_have_no_key() -> AbstractContextManager[Any]:
    """A claim that is sent again takes what the first has left, and nobody hears of what the first got."""

    def claim(**fields: Any) -> Claim:
        return Claim(**(fields | {"key": ""}))

    return mock.patch("outlast.runtime.claims.Claim", claim)


def cancelled_attempts_are_forgotten() -> AbstractContextManager[Any]:
    """An attempt that is cancelled before its first turn is never reported."""
    real = Attempt._run

    async def run(attempt: Attempt) -> None:
        await _turn()  # where nothing catches what is thrown in
        await real(attempt)

    return mock.patch.object(Attempt, "_run", run)


def retries_while_parking() -> AbstractContextManager[Any]:
    """A retry begins while the rest of its run is on the way to the store."""
    real = Steps.retry

    def retry(steps: Steps, pending: Pending) -> None:
        parking, steps._run.parking = steps._run.parking, False
        real(steps, pending)
        steps._run.parking = parking

    return mock.patch.object(Steps, "retry", retry)


def timers_before_doubts() -> AbstractContextManager[Any]:
    """After a takeover timers fire while an attempt is in doubt."""
    return mock.patch.object(Steps, "hold_back_timers", return_value=False)


def parking_does_not_look_again() -> AbstractContextManager[Any]:
    """The store parks a run although something has arrived for it."""
    real = verbs.VERBS[verbs.Park]

    def park(tables: Tables, verb: verbs.Park) -> Any:
        entry = tables.runs[verb.run]
        kept = dict(entry.inbox)
        entry.inbox.clear()
        try:
            return real(tables, verb)
        finally:
            entry.inbox.update(kept)

    return mock.patch.dict("outlast.stores.memory.store.VERBS", {verbs.Park: park})


Variant = Callable[[], AbstractContextManager[Any]]


@contextmanager
def _both(*contexts: AbstractContextManager[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
