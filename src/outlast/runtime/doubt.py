"""A `once` attempt without a certain outcome: who may say what became of it, and from when on that is believed.

*Happened* is believed at any time. *Did not happen* is believed only `settle`
seconds after the attempt can no longer send anything:

- its code has returned in this process, or
- its worker's process is known to be gone, or
- its worker's lease has ended, the attempt's own deadline has passed, and its worker's lock file, where there is one to
  ask, says that no thread of the process executes a `once` step any more.

Each of these is measured twice: by the wall clock, which all that is recorded goes by, and by the clock of leases,
since the wall clock may be set at any time. A `confirm` that was asked before that moment is asked again after it.
Without `confirm`, or when it cannot tell, a person decides; the decision is a record of the attempt it was made for.
"""

from __future__ import annotations

import asyncio
from math import inf
from types import NoneType
from typing import TYPE_CHECKING, Any

from outlast.codec.conversion import from_json
from outlast.codec.refusal import text_of
from outlast.core.asking import arguments_for_confirm
from outlast.core.certainty import CONFIRMED
from outlast.core.effects import InStep
from outlast.core.errors import InDoubt, OutlastError, StoreError
from outlast.core.identity import derive
from outlast.core.pending import Pending
from outlast.core.records import Kind, Record, WorkerState
from outlast.core.settings import DidNotHappen, Happened, Unknown
from outlast.core.telling import error_line
from outlast.core.transitions import Reason
from outlast.runtime.attempts import runs_in_a_thread
from outlast.runtime.confirming import ask
from outlast.runtime.liveness import last_sent
from outlast.runtime.notices import log
from outlast.runtime.results import stored
from outlast.stores.rules import keepable

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution
    from outlast.runtime.steps import Steps

NOT_RECORDED = "its worker ended before its outcome was recorded"
COMMIT_ALLOWANCE_S = 1.0
"""What the commit of an intent may take without shortening its attempt."""
CONFIRM_TIMEOUT_S = 60.0
CONFIRM_TRIES = 5
LOOK_AGAIN_S = 0.5
LOOKS_AWAY = 4
"""So many times as long is what another process does left alone: the run rests meanwhile, and says for what."""
MAX_VAIN_ATTEMPTS = 10
PLAIN = frozenset({dict, list, str, int, float, bool, NoneType})


class Doubt:
    """One attempt in doubt. Made when the doubt arises; removes itself from its execution when it is settled."""

    def __init__(
        self,
        steps: Steps,
        execution: Execution,
        pending: Pending,
        *,
        recovered: bool = False,
        error: BaseException | None = None,
    ) -> None:
        assert pending.intent is not None
        self.steps = steps
        self.execution = execution
        self.pending = pending
        self.intent: Record = pending.intent
        self._begun = self.intent.started or self.intent.at
        self.recovered = recovered  # found in the journal, after a takeover or a rest
        self.asking = False
        self.restless = False  # waits for what a rest would forget
        self.due: float | None = None  # when to look again
        self.says = ""
        self._tries = 0
        self._task: asyncio.Task[None] | None = None
        worker = execution.worker
        self._returns = pending.call.definition.returns
        self._token = derive(execution.row.incarnation, "step", pending.key)
        self._name = (self._token, self.intent.attempt)
        self._ran = False  # when last looked at, its thread still ran here
        if not recovered:
            worker.code_ended[self._name] = (worker.now(), error)
        elif self._name in worker.code_ended:  # here, before the run took a rest
            error = worker.code_ended[self._name][1]
        self._error = error
        why = self.intent.note or NOT_RECORDED if error is None else f"it ended with {error_line(error)}"
        if pending.resolution is None:
            worker.notices(
                "step.in_doubt", run=execution.row.id, step=pending.key, attempt=self.intent.attempt, why=why
            )
        self._why = why
        if pending.resolution is not None:
            execution.worker.loop.call_soon(execution.calmly, self._decided)
            self.asking = True
        else:
            self._look()

    def stop(self) -> None:
        """The run is stopped: ask no more."""
        if self._task is not None:
            self._task.cancel()

    # -- asking ------------------------------------------------------------------------

    def _look(self) -> None:
        if self.execution.closed or self.steps.doubts.get(self.pending.key, self) is not self:
            return
        self.due = None
        self.asking = True
        self._task = self.execution.worker.loop.create_task(self._ask(), name=f"confirm {self.pending.key}")

    async def _ask(self) -> None:
        """Ask over a net: this task cannot end without an outcome, unless the run is stopped."""
        try:
            await self._put_the_question()
        except (Exception, asyncio.CancelledError) as error:  # whatever it is, a person sees it
            if self.execution.closed or (self._task is not None and self._task.cancelling()):
                raise
            log.exception("run %s: the doubt of step %s cannot be looked into", self.execution.row.id, self.pending.key)
            self._why = f"{self._why}; it cannot be looked into: {error_line(error)}"
            self.execution.calmly(self._settle, Unknown())

    async def _put_the_question(self) -> None:
        verdict: Any = Unknown()
        if self.pending.call.settings.confirm is not None:
            try:
                believable, waits_for = await self._believable()
            except StoreError:
                self._again(self.execution.worker.now() + LOOK_AGAIN_S, "the store to be back")
                return
            now = self.execution.worker.now()
            verdict, failed = await self._confirm()
            if failed:
                self._tries += 1
                self._why = f"{self._why}; its confirm failed with {failed}"
                if self._tries < CONFIRM_TRIES:
                    self._again(now + LOOK_AGAIN_S * 2**self._tries, "confirm to answer", restless=True)
                    return
                verdict = Unknown()
            kind = type(verdict)  # not by isinstance(), which asks an object that is anybody's
            if issubclass(kind, DidNotHappen) and (believable is None or now < believable):
                if believable is None:
                    pause = LOOK_AGAIN_S if self._ran else LOOK_AGAIN_S * LOOKS_AWAY
                    self._again(now + pause, waits_for, only_here=self._ran)
                else:
                    self._again(believable, waits_for)
                return
            if not issubclass(kind, (Happened, DidNotHappen, Unknown)):
                answer = text_of(verdict)
                self._why = (
                    f"{self._why}; its confirm answered {answer}, not Happened(value), DidNotHappen() or Unknown()"
                )
                verdict = Unknown()
        self.execution.calmly(self._settle, verdict)

    async def _confirm(self) -> tuple[Any, str]:
        """Ask the step's `confirm` once; return its answer, or why there is none."""
        pending, row = self.pending, self.execution.row
        confirm = pending.call.settings.confirm
        assert confirm is not None
        try:
            args, kwargs = arguments_for_confirm(pending.call.definition.fn, *pending.arguments())
        except OutlastError as error:
            return None, error_line(error)
        number = self.intent.attempt
        place = InStep(row.id, row.workflow, pending.key, pending.name, number, row.incarnation, row.claim)
        return await ask(confirm, place, args, kwargs, CONFIRM_TIMEOUT_S)

    async def _believable(self) -> tuple[float | None, str]:
        """Return from when on "did not happen" is believed (None: not known yet), and what is waited for."""
        settle = self.pending.call.settings.settle
        settling = f"{settle:g} s to pass since the attempt could last send anything"
        worker = self.execution.worker
        if runs_in_a_thread(self._token):
            self._ran = True
            return None, "the thread of the attempt to end"
        if self._ran:
            self._ran, worker.code_ended[self._name] = False, (worker.now(), self._error)
        if self._name in worker.code_ended:
            return self._not_before(worker.code_ended[self._name][0], str(self._name), 0.0), settling
        rows = await worker.read(worker.store.workers)
        row = next((r for r in rows if r.id == self.intent.worker), None)
        intent = self.intent
        deadline = intent.due or 0.0  # a deploy may have made the timeout shorter since
        timeout = max(self.pending.call.settings.timeout or 0.0, deadline - intent.at - COMMIT_ALLOWANCE_S)
        if row is None:
            return self._not_before(deadline, str(self._name), timeout), settling
        if row.state is WorkerState.GONE:
            return self._not_before(row.left or 0.0, f"gone {row.id}", 0.0), settling
        if row.state is WorkerState.EXPIRED:
            if row.boot == worker.store.lease_epoch():  # it began no attempt after that
                worker.first_seen.setdefault(f"expired {row.id}", row.lease_until)
            sent = last_sent(row, worker.clock.boot_id())
            if sent == inf:
                return None, f"process {row.pid} to end, or its thread: it still executes a once step (worker {row.id})"
            believable = self._not_before(max(row.left or 0.0, deadline), f"expired {row.id}", timeout)
            if sent is not None:
                believable = max(believable, worker.now() + sent + settle - worker.store.lease_now())
            return believable, settling
        waits_for = f"the attempt's deadline on worker {row.id}, and {settle:g} s"
        return self._not_before(deadline, str(self._name), timeout), waits_for

    def _not_before(self, wall: float, fact: str, timeout: float) -> float:
        """Return when `settle` has passed since `wall`, and, by the clock of leases, since this fact and `timeout`."""
        worker, settle = self.execution.worker, self.pending.call.settings.settle
        now = worker.store.lease_now()
        left = worker.first_seen.setdefault(fact, now) + timeout + settle - now
        return max(wall + settle, worker.now() + left if left > 0 else 0.0)

    def _again(self, when: float, waits_for: str, *, only_here: bool = False, restless: bool = False) -> None:
        """Look again later; the run may rest until then, or be handed over, unless only this process can tell."""
        execution = self.execution
        self.asking, self.restless = only_here, restless
        self.due = max(when, execution.worker.now() + 0.01)
        self.says = f"step {self.pending.key} (attempt {self.intent.attempt} in doubt): {waits_for}"
        execution.worker.at(self.due, self._look_when_due)
        execution.settle_down()

    def _look_when_due(self) -> None:
        if self.due is None or self.execution.closed:
            return
        if self.execution.worker.now() < self.due:
            self.execution.worker.at(self.due, self._look_when_due)
        elif self.execution.parking:  # it may no longer be ours to settle
            self.execution.worker.loop.call_later(LOOK_AGAIN_S, self._look_when_due)
        else:
            self._look()

    # -- settling ----------------------------------------------------------------------

    def _settle(self, verdict: Happened | DidNotHappen | Unknown) -> None:
        self.asking = False
        self.execution.worker.code_ended.pop(self._name, None)
        if isinstance(verdict, Happened):
            try:
                data, live = self._stored(verdict.value)
            except OutlastError as refused:
                self._why = f"{self._why}; its confirm answered that it happened, with a value of no use: {refused}"
                verdict = Unknown()
            else:
                self._happened(data, live, "confirmed: happened")
                return
        if isinstance(verdict, Unknown):
            self._ask_a_person()
            return
        self.steps.doubts.pop(self.pending.key, None)
        self._did_not_happen()

    def _ask_a_person(self) -> None:
        execution, pending, intent = self.execution, self.pending, self.intent
        run = execution.row.id
        if self._why not in (NOT_RECORDED, intent.note):  # whoever has the run next shall know it, too
            self._write_intent_again()
        execution.stick(
            Reason.IN_DOUBT,
            f"step {pending.key} of run {run}: attempt {intent.attempt} is in doubt ({self._why}). Find out "
            "whether it happened, then: "
            f"outlast resolve {run} '{pending.key}' --attempt {intent.attempt} --happened JSON | "
            "--did-not-happen | --fail",
        )
        execution.settle_down()

    def _did_not_happen(self) -> None:
        """Plan the next attempt; where attempts keep coming to nothing, end that by the step's error or a person."""
        execution, pending, intent, retry = self.execution, self.pending, self.intent, self.pending.call.settings.retry
        vain = 1 + sum(1 for attempt in pending.attempts if attempt.note == CONFIRMED)
        if vain < max(MAX_VAIN_ATTEMPTS, retry.attempts):
            key = execution.row.incarnation + pending.key
            delay = 0.0 if self._error is None else retry.next_delay(intent.attempt, key)
            self.steps.failed(pending, intent.attempt, self._begun, self._error, delay, CONFIRMED)
        elif self._error is not None:
            self.steps.outcome(pending, intent.attempt, self._begun, b"", None, self._error, note=CONFIRMED)
        else:
            why = f"step {pending.key}: {vain} attempts ended with the death of their worker, and none happened"
            execution.stick(Reason.CRASH_LOOP, why)
            execution.settle_down()

    def _decided(self) -> None:
        """Carry out a person's decision, which stands in the journal."""
        resolution, execution, pending = self.pending.resolution, self.execution, self.pending
        assert resolution is not None
        self.asking = False
        execution.worker.code_ended.pop(self._name, None)
        if resolution.note == "happened":
            try:
                value = execution.worker.codec.decode(resolution.value or b"null", self._returns)
                data, live = self._stored(from_json(value, self._returns))
            except OutlastError as refused:
                self._decide_again(f"it was decided that it happened, with a value of no use: {refused}")
            else:
                self._happened(data, live, "decided: happened")
            return
        self.steps.doubts.pop(pending.key, None)
        if resolution.note == "fail":
            error = InDoubt(
                f"step {pending.key} of run {execution.row.id}: attempt {self.intent.attempt} was in doubt, and a "
                "person decided that it failed"
            )
            self.steps.outcome(pending, self.intent.attempt, self._begun, b"", None, error, note="decided: fail")
        else:
            self.steps.failed(pending, self.intent.attempt, self._begun, None, 0.0, "decided: did not happen")

    def _decide_again(self, why: str) -> None:
        """Take a decision back that cannot be carried out: the intent is written once more, for another to follow."""
        self._why = why
        self.pending.resolution = None
        self._ask_a_person()

    def _write_intent_again(self) -> None:
        execution, intent = self.execution, self.intent
        self.pending.intent = execution.engine.note(
            Kind.INTENT,
            execution.worker.now(),
            key=intent.key,
            name=intent.name,
            args=intent.args,
            attempt=intent.attempt,
            effect=intent.effect,
            due=intent.due,
            cause=intent.cause,
            worker=intent.worker,
            started=self._begun,
            note=keepable(self._why),
        )
        execution.flush()

    def _stored(self, value: Any) -> tuple[bytes, Any]:
        """Return what somebody says that the step returned, as it is stored and as it comes back.

        Plain JSON is converted to what the step returns. Raises OutlastError for a value that is none of it: the body
        must not take somebody's slip for the failure of an effect that has happened.
        """
        if isinstance(self._returns, type) and self._returns is not NoneType and type(value) in PLAIN:
            value = from_json(value, self._returns)
        return stored(value, self.execution.worker.codec, self._returns)

    def _happened(self, data: bytes, live: Any, note: str) -> None:
        """Record the outcome of an effect that took place."""
        self.steps.doubts.pop(self.pending.key, None)
        self.steps.outcome(self.pending, self.intent.attempt, self._begun, data, live, None, note=note)
