"""The steps of one run: from an issued call to an outcome in the journal.

A call goes through the gate that its effect asks for, waits for its due time and for a place
among the steps in flight, and is attempted. What an attempt came to is an outcome, a further attempt,
or a doubt. This is the only code that starts a user's step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from outlast.core.certainty import DID_NOT_HAPPEN, beside
from outlast.core.durabilities import Durability
from outlast.core.effects import InStep
from outlast.core.errors import OutlastError, StepTimeout
from outlast.core.frames import locate
from outlast.core.pending import Pending
from outlast.core.records import Effect, Kind, Record
from outlast.core.sagas import COMPENSATION
from outlast.runtime.approvals import ApprovalWait
from outlast.runtime.attempts import Attempt, NotBegun
from outlast.runtime.children import cancel_child, start_child
from outlast.runtime.doubt import Doubt
from outlast.runtime.evidence import COMMIT_ALLOWANCE_S, code_ended
from outlast.runtime.notices import of_error
from outlast.runtime.post import RunPost
from outlast.runtime.results import facts_as_json, returned
from outlast.runtime.step_refusals import refusal, refused_for_budget
from outlast.runtime.step_turns import NOT_STARTED, StepTurns, next_number, not_started

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution

BACKLOG_RECORDS = 5_000
"""No further step that does not wait for commits starts while this many records of a run wait for their commit."""

NOT_STARTED_TRIES = 10
"""So often an intent may be written whose time is over before the attempt can begin."""


class Steps:
    """See the top of this file."""

    def __init__(self, execution: Execution) -> None:
        self.run = self._run = execution
        self._worker = execution.worker
        self._post = RunPost(execution)
        self.attempts: dict[str, Attempt] = {}
        self.doubts: dict[str, Doubt] = {}
        self.retries: dict[str, float] = {}  # identity -> when its next attempt is due
        self.children = 0  # starts of child runs, and questions to people, that are on their way to the store
        self.turns = StepTurns(self)
        self._again: dict[str, Pending] = {}
        self._backlog: deque[Pending] = deque()  # `pure` calls that wait for commits to catch up

    # -- what the execution asks -----------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether anything is under way that an event will follow."""
        under_way = self.attempts or self._backlog or self.children or self.turns.asking
        return bool(under_way) or any(doubt.asking for doubt in self.doubts.values())

    def hold_up_the_end(self) -> bool:
        """Whether the run cannot end yet: what still runs belongs in its journal."""
        return bool(self.doubts or self.children) or any(attempt.holds_up for attempt in self.attempts.values())

    def restless(self) -> bool:
        """Whether something is waited for that a rest would forget."""
        return any(doubt.restless for doubt in self.doubts.values())

    def hold_back_timers(self) -> bool:
        """After a takeover an attempt in doubt is settled before any timer fires."""
        return any(doubt.recovered for doubt in self.doubts.values())

    def committed(self) -> None:
        """Commits have caught up a little."""
        backlog, run = self._backlog, self._run
        while backlog and run.engine.last_seq - run.committed < BACKLOG_RECORDS and not run.closed:
            self.prepare(backlog.popleft())

    def stop(self) -> None:
        """Stop everything, recording nothing."""
        self._post.close()
        attempts, self.attempts = self.attempts, {}
        for attempt in attempts.values():
            attempt.drop()
        for doubt in self.doubts.values():
            doubt.stop()
        self._backlog.clear()
        self.retries.clear()

    # -- starting ----------------------------------------------------------------------

    def start(self, pending: Pending) -> None:
        """Bring a call on its way. Effects wait for the commit of all earlier records."""
        run = self._run
        if pending.key in self.attempts:  # given up, and asked for again before it has ended
            self._again[pending.key] = pending
        elif pending.intent is not None:
            self.doubts[pending.key] = Doubt(self, run, pending, recovered=True)
        elif isinstance(pending.call.definition, ApprovalWait):
            run.approvals.start(pending)
        elif pending.is_wait:
            run.inbox.mail.wait(pending)
        elif pending.is_child:
            run.after_commit(run.calmly, start_child, run, pending)
        elif pending.effect is not Effect.PURE and (
            run.engine.durability is Durability.SYNC or pending.name.startswith("!")  # one of Outlast's own: a message
        ):
            run.after_commit(self.prepare, pending)
        elif run.engine.last_seq - run.committed >= BACKLOG_RECORDS:
            self._backlog.append(pending)
        else:
            self.prepare(pending)

    def not_now(self, pending: Pending) -> bool:
        """Tell whether nothing more is to be begun for a call."""
        run = self._run
        return run.closed or run.releasing or run.stuck is not None or pending.withdrawn or pending.future.done()

    def prepare(self, pending: Pending) -> None:
        """Wait for the due time of the next attempt, and for a place among the steps in flight."""
        if self.not_now(pending):
            return
        if (refuse := refused_for_budget(self, pending)) is not None:
            refuse()
            return
        if pending.attempts:
            due = pending.attempts[-1].due or 0.0
            if due > self._worker.now():
                self.retries[pending.key] = due
                self._worker.at(due, self.retry, pending)
                self._run.settle_down()
                return
        if self.turns.is_on(pending):
            self._worker.places.take(self._run, self._attempt, pending)
        else:
            self.turns.ask(pending)

    def retry(self, pending: Pending) -> None:
        """The time of a call's next attempt has come."""
        if not self._run.parking and self.retries.pop(pending.key, None) is not None:
            self._run.calmly(self.prepare, pending)

    def retry_held_back(self) -> None:
        """The run stays after all: see to the attempts that came due meanwhile."""
        for key in list(self.retries):
            self.retry(self._run.engine.calls[key])

    def _attempt(self, pending: Pending) -> None:
        """Begin the next attempt, a place being taken; for a `once` step its intent comes first."""
        run = self._run
        if run.engine.busy:
            run.calmly(self._attempt, pending)
            return
        if self.not_now(pending):
            self._worker.places.give_back(run)
            run.settle_down()  # it may have been held here only by this wait for a place
            return
        if (refuse := refusal(self, pending)) is not None:
            self._worker.places.give_back(run)
            refuse()
            return
        if not self.turns.is_on(pending):  # it waited too long for the place
            self._worker.places.give_back(run)
            self.turns.ask(pending)
            return
        number = next_number(pending)
        if pending.effect is not Effect.ONCE:
            self._begin(pending, number)
            return
        timeout = pending.call.settings.timeout
        now = self._worker.now()
        intent = run.engine.note(
            Kind.INTENT,
            now,
            key=pending.key,
            name=pending.name,
            args=pending.args,
            attempt=number,
            effect=pending.effect,
            due=now + (timeout or 0.0) + COMMIT_ALLOWANCE_S,
            cause=pending.cause,
            worker=self._worker.id,
        )
        pending.intent = intent
        run.flush()
        run.after_commit(self._worker.places.when_lease_holds, run, self._begin_once, pending, intent)

    def _begin_once(self, pending: Pending, intent: Record) -> None:
        if pending.intent is not intent:
            self._worker.places.give_back(self._run)
            self._run.settle_down()
            return
        self._begin(pending, intent.attempt, intent.due)

    def _begin(self, pending: Pending, number: int, deadline: float | None = None) -> None:
        row, worker, key = self._run.row, self._worker, pending.key
        place = InStep(row.id, row.workflow, key, pending.name, number, row.incarnation, row.claim, self._post)
        try:
            arguments = pending.arguments()
        except OutlastError as refused:
            worker.places.give_back(self._run)
            refuse = partial(self.outcome, note=DID_NOT_HAPPEN)
            self._run.calmly(refuse, pending, number, worker.now(), b"", None, refused)
            return
        place.open_output, place.gate = self._run.output.of_step, self._run.engine.last_seq
        attempt = Attempt(pending, arguments, number, place, worker, deadline, self._ended)
        self.attempts[key] = attempt
        if pending.effect is Effect.ONCE:
            worker.sending.add(attempt)
            attempt.on_quiet = partial(code_ended, worker, attempt)
        if not worker.notices.quiet:
            worker.notices("step.started", run=row.id, step=key, attempt=number, effect=pending.effect.value)
        attempt.begin()
        worker.claims.step_began(self._run, in_thread=not pending.call.definition.is_async)

    def give_up(self, pending: Pending) -> None:
        """The body no longer waits for this call."""
        self.retries.pop(pending.key, None)
        attempt = self.attempts.get(pending.key)
        if attempt is not None:
            attempt.abandon()
        if pending.is_child:
            cancel_child(self._run, pending)
        elif isinstance(pending.call.definition, ApprovalWait):
            self._run.approvals.given_up(pending)

    # -- outcomes ------------------------------------------------------------------------

    def _ended(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        """An attempt has ended: its outcome is seen to once all that it wrote is committed."""
        output = attempt.place.output
        if output is None:
            self._over(attempt, value, error)
        else:
            output.finish(partial(self._over, attempt, value, error))

    def _over(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        run = self._run
        if self.attempts.get(attempt.pending.key) is attempt:
            del self.attempts[attempt.pending.key]
        if run.closed:
            return
        self._worker.places.give_back(run)
        run.calmly(self._weigh, attempt, value, error)
        if (again := self._again.pop(attempt.pending.key, None)) is not None:
            run.engine.ask_again(again)
            run.after_turn()

    def _weigh(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        """Make of an ended attempt an event, a further attempt, or a doubt."""
        pending = attempt.pending
        data, live, note = b"null", None, ""
        if error is None:
            try:
                data, live = returned(value, self._worker.codec, pending.call.definition.returns, attempt.place)
            except OutlastError as refused:
                error = refused
        elif isinstance(error, asyncio.CancelledError):  # it was given up: that is no outcome of the step
            self._run.output.drop(pending.key)
            self._run.spending.given_up(attempt.place)
            self._run.after_turn()
            return
        elif isinstance(error, NotBegun):
            self._not_begun(attempt)
            return
        elif self._goes_on(attempt, error):
            return
        elif pending.effect is Effect.ONCE:  # its error is an answer
            note = DID_NOT_HAPPEN
        facts = self._run.spending.facts_of(attempt.place, spent=error is None and pending.call.settings.spends)
        self.outcome(pending, attempt.number, attempt.started, data, live, error, note=note, annotations=facts)

    def _not_begun(self, attempt: Attempt) -> None:
        """Nothing was done, so this is neither a failure nor a doubt: try again when there is time, and a lease."""
        pending = attempt.pending
        tries = not_started(pending) + 1
        if pending.intent is None:
            self.prepare(pending)
            self._run.after_turn()
        elif tries < NOT_STARTED_TRIES:
            self.failed(pending, attempt.number, attempt.started, None, 0.001 * 2**tries, NOT_STARTED)
        else:
            error = StepTimeout(
                f"step {pending.key} of run {self._run.row.id} was not started: {tries} times its timeout of "
                f"{pending.call.settings.timeout} s, or its worker's lease, was over before its intent was committed; "
                "nothing was sent. Give it a longer timeout"
            )
            self.outcome(pending, attempt.number, attempt.started, b"", None, error, note=DID_NOT_HAPPEN)

    def _goes_on(self, attempt: Attempt, error: BaseException) -> bool:
        """Deal with a failed attempt whose error is not its step's outcome; False when it is."""
        pending, settings = attempt.pending, attempt.pending.call.settings
        once = pending.effect is Effect.ONCE
        weighed = not (once and attempt.no_answer)  # no class that is listed makes a proof or an answer of a timeout
        if once and weighed and isinstance(error, settings.definite):
            return False
        if weighed and settings.retry.wants(error, pending.effect):
            made = attempt.number - not_started(pending)
            delay = settings.retry.next_delay(made, self._run.row.incarnation + pending.key)
            first = pending.attempts[0].started if pending.attempts else attempt.started
            if pending.withdrawn or not settings.retry.allows(made, self._worker.now() + delay, first):
                return False
            note = self._run.spending.note_of_failure(attempt.place)
            self.failed(pending, attempt.number, attempt.started, error, delay, note)
            return True
        if once:
            self._run.spending.given_up(attempt.place)
            self.doubts[pending.key] = Doubt(self, self._run, pending, error=error)
        return once

    def failed(
        self, pending: Pending, number: int, started: float, error: BaseException | None, delay: float, note: str
    ) -> None:
        """Record an attempt that ended without an outcome; the engine asks for the next."""
        run, now = self._run, self._worker.now()
        if error is not None:
            locate(error, pending.call.definition.fn)
        record = run.engine.event(
            Kind.ATTEMPT,
            now,
            key=pending.key,
            name=pending.name,
            ok=False,
            args=pending.args,
            value=None if error is None else self._worker.codec.encode_error(error),
            attempt=number,
            effect=pending.effect_begun,
            started=started,
            ended=now,
            due=now + delay,
            cause=pending.cause,
            worker=self._worker.id,
            note=note,
        )
        told = of_error(error) if error is not None else of_error(None) | {"error": note}
        self._worker.notices("step.failed", run=run.row.id, step=pending.key, attempt=number, **told, retry_in=delay)
        run.spending.add(record)
        run.engine.deliver(record)
        run.after_turn()

    def outcome(
        self,
        pending: Pending,
        number: int,
        started: float,
        data: bytes,
        live: Any,
        error: BaseException | None,
        *,
        note: str = "",
        annotations: dict[str, Any] | None = None,
    ) -> None:
        """Record a step's outcome and give it to the body, if it still waits for it."""
        run, worker = self._run, self._worker
        engine, now = run.engine, worker.now()
        raised = error
        if error is not None:
            locate(error, pending.call.definition.fn)
            data = worker.codec.encode_error(error)
            error = worker.codec.decode_error(data)
        if pending.undoes and note in ("", DID_NOT_HAPPEN):
            annotations = {**(annotations or {}), COMPENSATION: True}
        if annotations:
            note = facts_as_json(beside(annotations, note))
        late = pending.withdrawn or engine.outcome is not None
        run.output.settle(pending, number)
        record = engine.event(
            Kind.LATE if late else Kind.STEP,
            now,
            key=pending.key,
            name=pending.name,
            ok=error is None,
            args=pending.args,
            value=data,
            attempt=number,
            effect=pending.effect_begun,
            started=started,
            ended=now,
            cause=pending.cause,
            worker=worker.id,
            note=note,
        )
        if not worker.notices.quiet:
            worker.notices("step.ended", run=run.row.id, step=pending.key, attempt=number, **of_error(raised))
        run.spending.add(record)
        if late:
            pending.intent = None
        else:
            engine.deliver(record, live, error)
        run.after_turn()
