"""One run in this worker's memory: between its engine and the outside.

Each turn of the engine is followed by the same calls (`_after_turn`): send the new
records, give up what the body gave up, start what it issued, end or rest. What
leaves the run waits at a **gate** until the records before it are committed:
that is the output-commit rule.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.core.definitions import Step
from outlast.core.effects import InStep
from outlast.core.engine import AsyncBody, Engine, Outcome, Pending
from outlast.core.errors import Diverged, EncodingError, OutlastError, RunCancelled, StoreError
from outlast.core.identity import derive
from outlast.core.records import Effect, InboxRow, Kind, Record, RunRow
from outlast.core.transitions import Reason, Status
from outlast.runtime.attempts import Attempt
from outlast.runtime.children import cancel_child, start_child
from outlast.runtime.doubt import Doubt
from outlast.runtime.threads import ThreadBody
from outlast.stores.protocol import Answer, Done, Finish, Kept, Park, Release, Stick, Write

if TYPE_CHECKING:
    from outlast.core.definitions import Definition
    from outlast.runtime.worker import Worker

BACKLOG_RECORDS = 5_000
"""No further `pure` step starts while this many records of a run wait for their commit."""


class Execution:
    """See the top of this file. All methods are called on the worker's loop."""

    def __init__(self, worker: Worker, row: RunRow, definition: Definition[..., Any], records: Sequence[Record]) -> None:
        self.worker = worker
        self.row = row
        self.definition = definition
        args, kwargs = worker.decode_input(row, definition)
        function = definition.call if isinstance(definition, Step) else definition.fn

        async def main() -> Any:
            return await function(*args, **kwargs)

        body: AsyncBody | ThreadBody
        if definition.is_async or isinstance(definition, Step):
            body = AsyncBody(main)
        else:
            body = ThreadBody(lambda: function(*args, **kwargs), worker.loop.call_soon_threadsafe, f"outlast-{row.id}")
        self.engine = Engine(row, records, worker.codec, body, blocking=isinstance(body, ThreadBody))
        self.engine.on_turned = self._after_turn
        self.committed = self.engine.last_seq
        self.attempts: dict[str, Attempt] = {}
        self.doubts: dict[str, Doubt] = {}
        self.retries: dict[str, float] = {}  # identity -> when its next attempt is due
        self.closed = False
        self.stuck: tuple[Reason, str] | None = None
        self.releasing = False
        self.received: set[int] = set()
        self._gates: deque[tuple[int, Callable[[], None]]] = deque()
        self._pures: deque[Pending] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._ending = False
        self._parking = False
        self._later: deque[Callable[[], None]] = deque()
        self._consumes: tuple[int, ...] = ()
        self.slots = 0  # places among the steps in flight that it has taken
        self.queued = 0  # calls of it that wait for a place or for the lease

    def begin(self, inbox: Sequence[InboxRow] = ()) -> None:
        """Start the body, replay its journal and go on from there."""
        self.engine.begin()
        self._after_turn()
        self.receive(inbox)

    # -- after each turn -------------------------------------------------------------

    def _after_turn(self) -> None:
        engine = self.engine
        while self._later and not engine.busy and not self.closed:
            self._later.popleft()()
        if self.closed or engine.busy:
            return
        self._report_unhandled()
        self.flush()
        if engine.failure is not None:
            reason = Reason.DIVERGED if isinstance(engine.failure, Diverged) else Reason.UNDECODABLE
            self.stick(reason, str(engine.failure))
            return
        for pending in engine.take_withdrawn():
            self._give_up(pending)
        for pending in engine.take_starts():
            self._start(pending)
        if engine.outcome is not None:
            self._end(engine.outcome)
        elif self.engine.live:
            self._set_timer()
            self.settle_down()

    def calmly(self, act: Callable[[], None]) -> None:
        """Call `act` while no turn is under way, so that what it records stands where replay will find the body."""
        if self.closed:
            return
        if self.engine.busy or self._later:
            self._later.append(act)
        else:
            act()

    def flush(self) -> None:
        """Send new records to be committed, in order."""
        records, self.engine.unsent = self.engine.unsent, []
        if not records:
            return
        last = records[-1].seq
        consumes, self._consumes = self._consumes, ()  # the inbox row that the first of them delivers
        verb = Write(worker=self.worker.id, run=self.row.pk, claim=self.row.claim, records=tuple(records), consumes=consumes)

        def done(answer: Answer | StoreError) -> None:
            if self.closed:
                return
            if isinstance(answer, Done):
                self.committed = last
                self._open_gates()
            else:
                self.worker.lost_run(self, answer)

        self.worker.writer.submit(verb, done)

    def after_commit(self, act: Callable[[], None]) -> None:
        """Call `act` once all records so far are committed."""
        if self.committed >= self.engine.last_seq and not self._gates:
            act()
        else:
            self._gates.append((self.engine.last_seq, act))

    def _open_gates(self) -> None:
        gates = self._gates
        while gates and gates[0][0] <= self.committed and not self.closed:
            gates.popleft()[1]()
        while self._pures and self.engine.last_seq - self.committed < BACKLOG_RECORDS and not self.closed:
            self._prepare(self._pures.popleft())
        if not self.closed:
            self.settle_down()

    # -- starting calls ----------------------------------------------------------------

    def _start(self, pending: Pending) -> None:
        if pending.is_child:
            self.after_commit(lambda: start_child(self, pending))
        elif pending.intent is not None:
            self.doubts[pending.key] = Doubt(self, pending, recovered=True)
        elif pending.effect is not Effect.PURE:
            self.after_commit(lambda: self._prepare(pending))
        elif self.engine.last_seq - self.committed >= BACKLOG_RECORDS:
            self._pures.append(pending)
        else:
            self._prepare(pending)

    def _prepare(self, pending: Pending) -> None:
        """Wait for the next attempt's due time and for a place among the steps in flight."""
        if self.closed or self.releasing or self.stuck is not None or pending.withdrawn or pending.done:
            return
        if pending.attempts:
            due = pending.attempts[-1].due or 0.0
            if due > self.worker.now():
                self.retries[pending.key] = due
                self.worker.at(due, lambda: self._retry(pending))
                self.settle_down()
                return
        self.worker.when_slot(self, lambda: self.calmly(lambda: self._attempt(pending)))

    def _retry(self, pending: Pending) -> None:
        if self.retries.pop(pending.key, None) is not None:
            self._prepare(pending)

    def _attempt(self, pending: Pending) -> None:
        """Begin an attempt, a place being taken; for a `once` step its intent comes first."""
        if self.releasing or self.stuck is not None or pending.withdrawn or pending.done:
            self.worker.free_slot(self)
            return
        number = pending.attempts[-1].attempt + 1 if pending.attempts else 1
        timeout = pending.call.settings.timeout
        if pending.effect is not Effect.ONCE:
            self._begin(pending, number, timeout)
            return
        now = self.worker.now()
        intent = self.engine.note(
            Kind.INTENT, pending.key, now, name=pending.name, args=pending.args, attempt=number, effect=pending.effect.value,
            due=now + (timeout or 0.0), cause=pending.cause, worker=self.worker.id,
        )  # fmt: skip
        pending.intent = intent
        self.flush()
        self.after_commit(lambda: self.worker.when_lease_holds(self, lambda: self._begin_once(pending, intent)))

    def _begin_once(self, pending: Pending, intent: Record) -> None:
        if pending.intent is not intent:
            self.worker.free_slot(self)
            return
        left = (intent.due or 0.0) - self.worker.now()
        if left <= 0:  # the commit took longer than the attempt may: nothing was sent, so this is no doubt
            self.worker.free_slot(self)
            self.failed_attempt(pending, intent.attempt, intent.at, None, 0.0, "not started: its time was over before its intent was committed")
            return
        self._begin(pending, intent.attempt, left)

    def _begin(self, pending: Pending, number: int, timeout: float | None) -> None:
        row = self.row
        place = InStep(row.id, row.workflow, pending.key, pending.name, number, derive(row.incarnation, "step", pending.key), row.claim)
        attempt = Attempt(pending, number, place, self.worker.now(), timeout, self._outcome)
        self.attempts[pending.key] = attempt
        if not self.worker.notices.quiet:
            self.worker.notices("step.started", run=row.id, step=pending.key, attempt=number, effect=pending.effect.value)
        attempt.begin(self.worker.loop, self.worker.pool)

    # -- outcomes -------------------------------------------------------------------------

    def _outcome(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        """An attempt has ended: make it an event, a retry, or a doubt."""
        pending = attempt.pending
        if self.attempts.get(pending.key) is attempt:
            del self.attempts[pending.key]
        if self.closed:
            return
        self.worker.free_slot(self)
        self.calmly(lambda: self._weigh(attempt, value, error))

    def _weigh(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        pending = attempt.pending
        if isinstance(error, asyncio.CancelledError):  # it was given up: that is no outcome of the step
            self._after_turn()
            return
        data, live = b"null", None
        if error is None:
            try:
                data = self.worker.codec.encode(value)
                live = self.worker.codec.decode(data, pending.call.definition.returns)
            except OutlastError as refused:
                error = type(refused)(f"step {pending.key} of run {self.row.id} returned what cannot be stored: {refused}")
        elif self._tries_again(attempt, error):
            return
        self.record_outcome(pending, attempt.number, attempt.started, data, live, error, annotations=attempt.place.annotations)

    def _tries_again(self, attempt: Attempt, error: BaseException) -> bool:
        """Decide on a failed attempt; False when its error is the step's outcome."""
        pending, settings = attempt.pending, attempt.pending.call.settings
        if pending.effect is Effect.ONCE and isinstance(error, settings.definite):
            return False
        retry = settings.retry
        if retry.wants(error, pending.effect):
            delay = retry.next_delay(attempt.number, pending.key)
            first = pending.attempts[0].started if pending.attempts else attempt.started
            if not pending.withdrawn and retry.allows(attempt.number, self.worker.now() + delay, first):
                self.failed_attempt(pending, attempt.number, attempt.started, error, delay, "")
                return True
            return False
        if pending.effect is Effect.ONCE:
            self.doubts[pending.key] = Doubt(self, pending, attempt=attempt, error=error)
            return True
        return False

    def failed_attempt(
        self, pending: Pending, number: int, started: float, error: BaseException | None, delay: float, note: str
    ) -> None:
        """Record an attempt that ended without an outcome, and plan the next."""
        now = self.worker.now()
        self.engine.deliver(
            Kind.ATTEMPT, pending.key, now, name=pending.name, ok=False, attempt=number, effect=pending.effect.value,
            value=None if error is None else self.worker.codec.encode_error(error), args=pending.args, started=started, ended=now,
            due=now + delay, cause=pending.cause, worker=self.worker.id, note=note,
        )  # fmt: skip
        self.worker.notices("step.failed", run=self.row.id, step=pending.key, attempt=number, error=repr(error) if error else note, retry_in=delay)
        self._after_turn()

    def record_outcome(
        self, pending: Pending, number: int, started: float, data: bytes, live: Any, error: BaseException | None, *,
        note: str = "", annotations: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Record a step's outcome and give it to the body, if it still waits for it."""
        engine, now = self.engine, self.worker.now()
        if error is not None:
            data = self.worker.codec.encode_error(error)
            error = self.worker.codec.decode_error(data)
        if annotations:
            note = msgspec.json.encode(annotations, enc_hook=repr).decode()
        kind = Kind.LATE if pending.withdrawn or engine.outcome is not None else Kind.STEP
        fields = {
            "name": pending.name, "ok": error is None, "args": pending.args, "value": data, "attempt": number,
            "effect": pending.effect.value, "started": started, "ended": now, "cause": pending.cause, "worker": self.worker.id, "note": note,
        }  # fmt: skip
        if not self.worker.notices.quiet:
            self.worker.notices("step.ended", run=self.row.id, step=pending.key, attempt=number, error=repr(error) if error else None)
        if kind is Kind.STEP:
            engine.deliver(kind, pending.key, now, live_value=live, live_error=error, **fields)
        else:
            pending.intent = None
            engine.note(kind, pending.key, now, **fields)
        self._after_turn()

    def _give_up(self, pending: Pending) -> None:
        """The body no longer waits for this call."""
        self.retries.pop(pending.key, None)
        attempt = self.attempts.get(pending.key)
        if attempt is not None:
            attempt.abandon()
        if pending.is_child:
            cancel_child(self, pending)

    # -- timers and the inbox ------------------------------------------------------------------

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        timer = self.engine.next_timer()
        if timer is None or self._ending or any(doubt.recovered for doubt in self.doubts.values()):
            return
        if timer.when() <= self.worker.now():
            self._timer = self.worker.loop.call_soon(self._fire)  # type: ignore[assignment]
        else:
            self._timer = self.worker.at(timer.when(), self._fire)

    def _fire(self) -> None:
        self._timer = None
        if not self._parking:
            self.calmly(self._fire_due)

    def _fire_due(self) -> None:
        timer = self.engine.next_timer()
        if timer is not None and timer.when() <= self.worker.now():
            self.engine.deliver(Kind.TIMER, timer.key, self.worker.now(), name="timer", due=timer.when(), cause=timer.cause)
            self._after_turn()
        else:
            self._set_timer()

    def receive(self, inbox: Sequence[InboxRow]) -> None:
        """Take what has arrived for the run: each row becomes a record, and is deleted by the same commit."""
        for item in inbox:
            if item.id not in self.received:
                self.received.add(item.id)
                self.calmly(lambda item=item: self._take(item))  # type: ignore[misc]

    def _take(self, item: InboxRow) -> None:
        if self.stuck is not None or self._ending:
            return
        self._consumes = (item.id,)
        if item.kind is Kind.CANCEL:
            self.engine.deliver(Kind.CANCEL, "", self.worker.now(), name="cancel", note=(item.value or b"").decode("utf-8", "replace"))
            self._after_turn()
        else:
            self.child_over(item.key, item.ok, item.value)

    def child_over(self, key: str, ok: bool, value: bytes | None) -> None:
        """Give the outcome of a child run to the body."""
        pending = self.engine.calls.get(key)
        now = self.worker.now()
        fields = {"name": pending.name if pending else "", "ok": ok, "value": value, "cause": pending.cause if pending else 0}
        if pending is None or pending.done or pending.withdrawn or self.engine.outcome is not None:
            self.engine.note(Kind.LATE, key, now, **fields)
            self._after_turn()
            return
        live, error = None, None
        try:
            if ok:
                live = self.worker.codec.decode(value or b"null", pending.call.definition.returns)
            elif value is None:
                error = RunCancelled(f"child {key} of run {self.row.id} was cancelled")
            else:
                error = self.worker.codec.decode_error(value)
        except OutlastError as refused:
            self.stick(Reason.UNDECODABLE, f"the result of child {key}: {refused}")
            return
        self.engine.deliver(Kind.CHILD, key, now, live_value=live, live_error=error, args=pending.args, **fields)
        self._after_turn()

    # -- resting and ending ------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing of the run is under way here."""
        return (
            not self.attempts and not self._gates and not self._pures and not self.engine.busy and not self.engine.unsent
            and self.committed >= self.engine.last_seq and not self._ending and not any(d.asking for d in self.doubts.values())
            and not self.queued
        )  # fmt: skip

    def settle_down(self) -> None:
        """When nothing is under way: be handed back, get stuck or rest, if that is what is next."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if self.closed or self._parking or not self.idle:
            return
        if self.stuck is not None:
            self._do_stick()
        elif self.releasing:
            self._do_release()
        elif self.engine.live and self.engine.outcome is None:
            due, _ = self.next_due()
            if due is None or due - self.worker.now() > self.worker.park_after:
                self._rest = self.worker.loop.call_later(self.worker.park_after, self._park)

    def next_due(self) -> tuple[float | None, str]:
        """Return when something of its own is due for the run, and what it waits for, in words."""
        dues: list[tuple[float, str]] = [(due, f"the next attempt of {key}") for key, due in self.retries.items()]
        dues += [(d.due, d.says) for d in self.doubts.values() if d.due is not None]
        timer = self.engine.next_timer()
        if timer is not None and timer.when() < float("inf"):
            dues.append((timer.when(), f"timer {timer.key}"))
        if dues:
            return min(dues)
        children = [p.key for p in self.engine.waits_for() if p.is_child]
        return None, f"child {children[0]}" if children else "something that nothing of this run can bring about"

    def _park(self) -> None:
        self._rest = None
        if self.closed or not self.idle or self.stuck is not None or self.releasing:
            return
        due, says = self.next_due()
        self._parking = True
        verb = Park(
            worker=self.worker.id, run=self.row.pk, claim=self.row.claim, due=due, detail=says,
            ignoring=(),
        )  # fmt: skip

        def done(answer: Answer | StoreError) -> None:
            self._parking = False
            if self.closed:
                return
            if isinstance(answer, Done):
                self.worker.notices("run.parked", run=self.row.id, due=due, detail=says)
                self.worker.forget(self)
                if due is not None:
                    self.worker.due_at(due)
            elif isinstance(answer, Kept):
                self.worker.look_for(self)
                self._after_turn()
            else:
                self.worker.lost_run(self, answer)

        self.worker.writer.submit(verb, done)

    def release(self) -> None:
        """Hand the run back as soon as it is between steps."""
        self.releasing = True
        self.retries.clear()
        self.settle_down()

    def _do_release(self) -> None:
        self._leave(Release(worker=self.worker.id, run=self.row.pk, claim=self.row.claim), "run.released")

    def stick(self, reason: Reason, detail: str) -> None:
        """The run cannot go on by itself: once nothing is under way it becomes stuck."""
        if self.stuck is None:
            self.stuck = (reason, detail)
            self.engine.unsent.clear() if self.engine.failure is not None else self.flush()
            self.settle_down()

    def _do_stick(self) -> None:
        assert self.stuck is not None
        reason, detail = self.stuck
        verb = Stick(worker=self.worker.id, run=self.row.pk, claim=self.row.claim, reason=reason, detail=detail)
        self._leave(verb, "run.stuck", reason=reason.value, detail=detail)

    def _leave(self, verb: Release | Stick, notice: str, **data: Any) -> None:
        self._ending = True

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
        if self._ending or self.doubts or any(attempt.holds_up for attempt in self.attempts.values()):
            return  # a step that still runs ends first: its outcome belongs in the journal
        self._ending = True
        result, error = None, outcome.error
        codec = self.worker.codec
        status = outcome.status
        if status is Status.SUCCEEDED:
            try:
                result = codec.encode(outcome.value)
            except EncodingError as refused:
                status, error = Status.FAILED, type(refused)(f"run {self.row.id} returned what cannot be stored: {refused}")
        elif status is Status.CANCELLED:
            error = RunCancelled(f"run {self.row.id} was cancelled")
        verb = Finish(
            worker=self.worker.id, run=self.row.pk, claim=self.row.claim, status=status, last_seq=self.engine.last_seq, result=result,
            error=None if error is None else codec.encode_error(error), culprit=outcome.culprit,
        )  # fmt: skip

        def done(answer: Answer | StoreError) -> None:
            if self.closed:
                return
            if isinstance(answer, Done):
                self.worker.run_ended(self, verb, answer.woke)
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
        attempts, self.attempts = self.attempts, {}
        for attempt in attempts.values():
            attempt.drop()
        while self.slots:
            self.worker.free_slot(self)
        for doubt in self.doubts.values():
            doubt.stop()
        self.engine.stop()

    def _report_unhandled(self) -> None:
        for context in self.engine.loop.unhandled:
            self.worker.notices("body.unhandled", run=self.row.id, message=context.get("message"), error=repr(context.get("exception")))
        self.engine.loop.unhandled.clear()
