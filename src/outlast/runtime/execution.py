"""One run in this worker's memory: between its engine and the outside.

Each turn of the engine is followed by the same calls (`after_turn`): send the new
records, give up what the body gave up, start what it issued, end or rest. What
leaves the run waits at a **gate** until the records before it are committed:
that is the output-commit rule.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from outlast.core.body import Outcome
from outlast.core.durabilities import Durability
from outlast.core.errors import Diverged, EncodingError, RunCancelled, StoreError
from outlast.core.records import InboxRow, Kind, Record, RunRow
from outlast.core.telling import error_line
from outlast.core.transitions import Reason, Status
from outlast.runtime.approvals import Approvals
from outlast.runtime.awaited import in_words, kept
from outlast.runtime.deadlines import cancel_at_deadline, deadline_ahead
from outlast.runtime.engines import engine_of
from outlast.runtime.inbox import Inbox
from outlast.runtime.moments import earliest
from outlast.runtime.notices import log, of_error
from outlast.runtime.output import RunOutput
from outlast.runtime.resting import awaited_by, next_due
from outlast.runtime.setbacks import set_back
from outlast.runtime.spending import Spending
from outlast.runtime.steps import BACKLOG_RECORDS, Steps
from outlast.runtime.turns import begin_next_turn
from outlast.stores.emitted import Emit
from outlast.stores.rules import keepable
from outlast.stores.verbs import Answer, Done, Finish, Kept, Park, Release, Stick, Write

if TYPE_CHECKING:
    from outlast.core.functions import Definition
    from outlast.runtime.worker import Worker


class Execution:
    """See the top of this file. All methods are called on the worker's loop."""

    def __init__(
        self, worker: Worker, row: RunRow, definition: Definition[..., Any], records: Sequence[Record]
    ) -> None:
        self.worker = worker
        self.row = row
        self.engine = engine_of(worker, row, definition, records)
        self.engine.on_turned, self.engine.guard = self.after_turn, self._caught
        self.keeps_back = self.engine.durability is Durability.EXIT
        self.spending = Spending(self, records)
        self.steps = Steps(self)
        self.committed = self.replayed = self.engine.last_seq
        self.closed = self.releasing = self.ending = False
        self.stuck: tuple[Reason, str] | None = None
        self.places = 0  # places among the steps in flight that it has taken
        self.queued = 0  # calls of it that wait for a place or for the lease
        self.inbox = Inbox(self)
        self.approvals = Approvals(self)
        self.output = RunOutput(self)
        self._gates: deque[tuple[int, Callable[..., None], tuple[Any, ...]]] = deque()
        self._later: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._timer: asyncio.Handle | None = None
        self._rest: asyncio.TimerHandle | None = None
        self.parking = False  # its rest is on the way to the store: what comes due now is whoever's has it next

    def begin(self, inbox: Sequence[InboxRow] = ()) -> None:
        """Start the body, replay its journal and go on from there."""
        self._caught(self.engine.begin)
        self._caught(self.after_turn)
        self.inbox.receive(inbox)

    def _caught(self, act: Callable[..., None], *args: Any) -> None:
        """Call `act` over a net: a fault of the library, or of a codec, sticks the run instead of hanging it."""
        try:
            act(*args)
        except KeyboardInterrupt:  # Ctrl-C, in the middle of a turn: nothing that follows from that is to be recorded
            self.worker.forget(self)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the run is named and a person sees it
            log.exception("run %s: an unexpected error", self.row.id)
            self.worker.give_up(self, f"an unexpected error: {error_line(error)}")

    @property
    def leaving(self) -> bool:
        """Whether the run is about to leave this worker, so that nothing more is started."""
        return self.releasing or self.stuck is not None

    # -- after each turn -------------------------------------------------------------

    def after_turn(self) -> None:
        """Do what a turn of the body asks for."""
        engine = self.engine
        while self._later and not engine.busy and not self.closed:
            act, args = self._later.popleft()
            self._caught(act, *args)
        if self.closed or engine.busy:
            return
        if engine.loop.unhandled:
            self._report_unhandled()
        self.flush()
        if engine.failure is not None:
            reason = Reason.DIVERGED if isinstance(engine.failure, Diverged) else Reason.UNDECODABLE
            self.stick(reason, str(engine.failure))
            return
        for pending in engine.take_withdrawn():
            self.steps.give_up(pending)
        for pending in engine.take_starts():
            self.steps.start(pending)
        if engine.outcome is not None:
            self._end(engine.outcome)
        elif engine.setback is not None:
            self._release()
        elif engine.live:
            self._set_timer()
            self.settle_down()

    def calmly(self, act: Callable[..., None], *args: Any) -> None:
        """Call `act` while no turn is under way, so that what it records stands where replay will find the body."""
        if self.closed:
            return
        if self.engine.busy or self._later:
            self._later.append((act, args))
        else:
            self._caught(act, *args)

    def flush(self, *, everything: bool = False) -> None:
        """Send new records to be committed, in order. With durability "exit" only `everything` there is is sent."""
        if self.keeps_back and not everything and len(self.engine.unsent) < BACKLOG_RECORDS:
            return
        records, emits = self.engine.unsent, self.output.take()
        if not records and not emits:
            return
        self.engine.unsent = []
        consumes, self.inbox.consumes = self.inbox.consumes, ()
        row, worker = self.row, self.worker
        write = Write(
            worker=worker.id, run=row.pk, claim=row.claim, records=tuple(records), consumes=consumes, emits=emits
        )
        worker.writer.submit(write, partial(self._written, self.engine.last_seq, emits))

    def _written(self, last: int, emits: tuple[Emit, ...], answer: Answer | StoreError) -> None:
        """The records up to `last` are committed, or were refused."""
        if self.closed:
            return
        if isinstance(answer, Done):
            self.committed = last
            self.output.committed(emits)
            self._caught(self._open_gates)
        else:
            self.worker.lost_run(self, answer)

    def after_commit(self, act: Callable[..., None], *args: Any) -> None:
        """Call `act` once all records so far are committed."""
        self.after_commit_of(self.engine.last_seq, act, *args)

    def after_commit_of(self, last: int, act: Callable[..., None], *args: Any) -> None:
        """Call `act` once the records up to `last` are committed."""
        if self.keeps_back:
            self.flush(everything=True)
        if self.committed >= last and not self._gates:
            act(*args)
        else:
            self._gates.append((last, act, args))

    def _open_gates(self) -> None:
        gates = self._gates
        while gates and gates[0][0] <= self.committed and not self.closed:
            _, act, args = gates.popleft()
            act(*args)
        self.steps.committed()
        if self.engine.outcome is not None and not self.closed:
            self._end(self.engine.outcome)
        elif not self.closed:
            self.settle_down()

    # -- timers ------------------------------------------------------------------

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif not self.engine.loop.timers and self.row.deadline is None:
            return
        timer = None if self.steps.hold_back_timers() else self.engine.next_timer()
        when = earliest(None if timer is None else timer.when(), deadline_ahead(self))
        if when is None or self.ending:
            return
        if when <= self.worker.now():
            self._timer = self.worker.loop.call_soon(self._fire)
        else:
            self._timer = self.worker.at(when, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if not self.parking:
            self.calmly(self._fire_due)

    def _fire_due(self) -> None:
        timer, now = self.engine.next_timer(), self.worker.now()
        if self.engine.outcome is not None:
            return
        deadline = deadline_ahead(self)
        if deadline is not None and deadline <= now and (timer is None or deadline <= timer.when()):
            cancel_at_deadline(self, now)
        elif timer is not None and timer.when() <= now and not self.steps.hold_back_timers():
            event = self.engine.event(Kind.TIMER, now, key=timer.key, name="timer", due=timer.when(), cause=timer.cause)
            self.engine.deliver(event)
            self.after_turn()
        else:
            self._set_timer()
            self.came_early()

    # -- resting -------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing of the run is under way here."""
        engine = self.engine
        return not (
            self.steps.busy
            or self._gates
            or self.queued
            or self.inbox.mail.busy
            or engine.busy
            or engine.unsent
            or self.committed < engine.last_seq
            or self.ending
        )

    def settle_down(self) -> None:
        """When nothing is under way: be handed back, get stuck or rest, if that is what is next."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if self.keeps_back and not (self.steps.busy or self.queued or self.engine.busy or self.closed):
            self.flush(everything=True)  # it has nothing to do but wait
        if self.closed or self.parking or self.steps.attempts or not self.idle:
            return
        self.worker.claims.arrived(self)
        if self.stuck is not None:
            self._do_stick(*self.stuck)
        elif self.engine.setback is not None:
            rest, until, why = set_back(self, self.engine.setback)
            self._leave(rest, "run.parked", due=until, detail=why)
        elif self.releasing:
            self._leave(Release(worker=self.worker.id, run=self.row.pk, claim=self.row.claim), "run.released")
        elif self.engine.live and self.engine.outcome is None and self.engine.at_rest and not self.steps.restless():
            due = next_due(self)
            if due is None or due - self.worker.now() > self.worker.park_after:
                self._rest = self.worker.loop.call_later(self.worker.park_after, self._park)

    def came_early(self) -> None:
        """What was to be due now is not: somebody has set the clock back, and it may be worth a rest by now."""
        if self._rest is None:
            self.settle_down()

    def _park(self) -> None:
        self._rest = None
        if self.closed or not self.idle or self.leaving:
            return
        due, waits = next_due(self), awaited_by(self)
        self.parking = True

        def done(answer: Answer | StoreError) -> None:
            self.parking = False
            if self.closed:
                return
            if isinstance(answer, Done):
                self.worker.notices("run.parked", run=self.row.id, due=due, detail=in_words(waits))
                self.worker.forget(self)
            elif isinstance(answer, Kept):
                self.worker.fetch_inbox_soon()
                self.steps.retry_held_back()
                self.after_turn()
            else:
                self.worker.lost_run(self, answer)

        verb = Park(
            worker=self.worker.id,
            run=self.row.pk,
            claim=self.row.claim,
            due=due,
            detail=kept(waits),
            seen=self.inbox.seen,
            frees=bool(self.row.queue),
        )
        self.worker.writer.submit(verb, done)

    # -- leaving -------------------------------------------------------------------------------

    def release(self) -> None:
        """Hand the run back as soon as it is between steps."""
        if not self.releasing and not self.engine.leave(self._release):
            self._release()

    def _release(self) -> None:
        self.releasing = True
        self.steps.retries.clear()
        self.settle_down()

    def stick(self, reason: Reason, detail: str) -> None:
        """The run cannot go on by itself: once nothing is under way it becomes stuck."""
        if self.stuck is None:
            self.stuck = (reason, keepable(detail))
            if self.engine.failure is not None:
                self.engine.unsent.clear()
            self.settle_down()

    def _do_stick(self, reason: Reason, detail: str) -> None:
        verb = Stick(worker=self.worker.id, run=self.row.pk, claim=self.row.claim, reason=reason, detail=detail)
        self._leave(verb, "run.stuck", reason=reason.value, detail=detail)

    def _leave(self, verb: Release | Stick | Park, notice: str, **data: Any) -> None:
        self.ending = True

        def done(answer: Answer | StoreError) -> None:
            if self.closed:
                return
            if isinstance(answer, Done):
                self.worker.notices(notice, run=self.row.id, **data)
                self.worker.forget(self)
                self.worker.look_at_ends()
            else:
                self.worker.lost_run(self, answer)

        self.worker.writer.submit(verb, done)

    def _end(self, outcome: Outcome) -> None:
        if self.ending or self._gates or self.steps.hold_up_the_end():
            return
        self.ending = True
        self.output.drop_unsettled()
        self.flush(everything=True)
        if outcome.continues is not None and self.row.cancelling is None and not self.inbox.cancelled:
            begin_next_turn(self, outcome.continues)
            return
        result, error, status, codec = None, outcome.error, outcome.status, self.worker.codec
        if status is Status.SUCCEEDED:
            try:
                result = codec.encode(outcome.value)
            except EncodingError as refused:
                status = Status.FAILED
                error = type(refused)(f"run {self.row.id} returned what cannot be stored: {refused}")
        elif outcome.continues is not None or status is Status.CANCELLED:
            status = Status.CANCELLED
            error = RunCancelled(f"run {self.row.id} was cancelled")
        verb = Finish(
            worker=self.worker.id,
            run=self.row.pk,
            claim=self.row.claim,
            status=status,
            last_seq=self.engine.last_seq,
            result=result,
            error=None if error is None else codec.encode_error(error),
            culprit=outcome.culprit,
        )

        def done(answer: Answer | StoreError) -> None:
            if self.closed:
                return
            if isinstance(answer, Done):
                if unread := self.inbox.mail.unread():
                    names = sorted({row.key for row in unread})
                    self.worker.notices("run.unread", run=self.row.id, messages=len(unread), names=names)
                self.worker.run_ended(self, verb, answer.woke, error)
            else:
                self.worker.lost_run(self, answer)

        self.worker.writer.submit(verb, done)

    def stop(self) -> None:
        """Stop the run from outside, leaving no trace of what it would have done next."""
        if self.closed:
            return
        self.closed = True
        for handle in (self._timer, self._rest):
            if handle is not None:
                handle.cancel()
        self.steps.stop()
        while self.places:
            self.worker.places.give_back(self)
        self._gates.clear()
        self._later.clear()
        self.engine.stop()
        self.worker.claims.arrived(self)

    def _report_unhandled(self) -> None:
        unhandled = self.engine.loop.unhandled
        for context in unhandled:
            told = of_error(context.get("exception"))
            self.worker.notices("body.unhandled", run=self.row.id, message=context.get("message"), **told)
        unhandled.clear()
