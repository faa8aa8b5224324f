"""A `once` attempt without a certain outcome: who may say what became of it, and from when on that is believed.

*Happened* is believed at any time. *Did not happen* is believed only `settle` seconds after the attempt can no longer
send anything (`evidence.py`), and only from somebody who has looked since: a `confirm` that was asked before that is
asked again after it, and so is a person who decided while the attempt could still send.
Without `confirm`, or when it cannot tell, a person decides; the decision is a record of the attempt it was made for.
"""

from __future__ import annotations

import asyncio
from types import NoneType
from typing import TYPE_CHECKING, Any

from outlast.codec.conversion import from_json
from outlast.codec.refusal import text_of
from outlast.core.asking import arguments_for_confirm
from outlast.core.certainty import CONFIRMED, CONFIRMED_HAPPENED, NOT_RECORDED
from outlast.core.effects import InStep
from outlast.core.errors import InDoubt, OutlastError, StoreError
from outlast.core.identity import derive
from outlast.core.pending import Pending
from outlast.core.records import Kind, Record
from outlast.core.settings import DidNotHappen, Happened, Unknown
from outlast.core.telling import error_line
from outlast.core.transitions import Reason
from outlast.runtime.confirming import ask
from outlast.runtime.evidence import Evidence, Silence
from outlast.runtime.notices import log
from outlast.runtime.results import stored
from outlast.stores.rules import keepable

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution
    from outlast.runtime.steps import Steps

CONFIRM_TIMEOUT_S = 60.0
CONFIRM_TRIES = 5
LOOK_AGAIN_S = 0.5
LOOKS_AWAY = 4
"""So many times as long is what another process does left alone: the run rests meanwhile, and says for what."""
MAX_VAIN_ATTEMPTS = 10
TOO_EARLY = "it could still send something when it was decided that it did not happen"
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
        self._name = (derive(execution.row.incarnation, "step", pending.key), self.intent.attempt)
        self._evidence = Evidence(worker, execution.row.incarnation, pending)
        if not recovered:
            worker.code_ended[self._name] = (worker.now(), error)
        elif self._name in worker.code_ended:  # here, before the run took a rest
            error = worker.code_ended[self._name][1]
        self._error = error
        self._why = self.intent.note if error is None else f"it ended with {error_line(error)}"
        self._beware = ""  # what a person has to know beside that
        if pending.resolution is None:
            self._look()
            return
        self.asking = True
        if pending.resolution.note == "did_not_happen":
            self._look()
        else:
            worker.loop.call_soon(execution.calmly, self._decided)

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
        decided = self.pending.resolution
        try:
            await (self._find_out() if decided is None else self._weigh_decision(decided))
        except StoreError:
            self._again(self.execution.worker.now() + LOOK_AGAIN_S, "the store to be back")

    async def _find_out(self) -> None:
        """Ask the step's `confirm`, if it has one, and settle by its answer once that is believed."""
        verdict: Any = Unknown()
        await self._tell()
        if self.pending.call.settings.confirm is not None:
            silence = await self._evidence.silence()
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
            if issubclass(kind, DidNotHappen) and (silence.believable is None or now < silence.believable):
                self._wait_for(silence, now)
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

    async def _tell(self) -> None:
        """Find out why it is in doubt, and tell so once."""
        worker = self.execution.worker
        if not self._why or (self.recovered and self._evidence.ended is None):
            why, self._beware = await self._evidence.why()
            self._why = self._why or why
        if self._name not in worker.doubts_told:
            worker.doubts_told.add(self._name)
            run, attempt = self.execution.row.id, self.intent.attempt
            worker.notices("step.in_doubt", run=run, step=self.pending.key, attempt=attempt, why=self._why)

    async def _weigh_decision(self, no: Record) -> None:
        """Believe a person who decided that it did not happen, if that was after the attempt could last send."""
        silence, now = await self._evidence.silence(), self.execution.worker.now()
        if silence.soon:
            self._wait_for(silence, now)
        elif silence.since is None or max(no.at, now) < silence.since:
            self.execution.calmly(self._decide_again, f"{TOO_EARLY}; wait for {silence.waits_for}, then look again")
        elif no.at < silence.since:
            self.execution.calmly(self._decide_again, f"{TOO_EARLY}, and no more since then; look again")
        elif silence.believable is not None and now < silence.believable:
            self._wait_for(silence, now)
        else:
            self.execution.calmly(self._decided)

    def _wait_for(self, silence: Silence, now: float) -> None:
        """Look again when it may be believed that it did not happen, or known from when on."""
        if silence.believable is not None:
            self._again(silence.believable, silence.waits_for)
        else:
            pause = LOOK_AGAIN_S if silence.only_here else LOOK_AGAIN_S * LOOKS_AWAY
            self._again(now + pause, silence.waits_for, only_here=silence.only_here)

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
            self.execution.came_early()
        elif self.execution.parking:  # it may no longer be ours to settle
            self.execution.worker.loop.call_later(LOOK_AGAIN_S, self._look_when_due)
        else:
            self._look()

    # -- settling ----------------------------------------------------------------------

    def _settle(self, verdict: Happened | DidNotHappen | Unknown) -> None:
        self.asking = False
        if isinstance(verdict, Happened):
            try:
                data, live = self._stored(verdict.value)
            except OutlastError as refused:
                self._why = f"{self._why}; its confirm answered that it happened, with a value of no use: {refused}"
                verdict = Unknown()
            else:
                self._keep_why()
                self._happened(data, live, CONFIRMED_HAPPENED)
                return
        self._keep_why()
        if isinstance(verdict, Unknown):
            self._ask_a_person()
        else:
            self._did_not_happen()

    def _ask_a_person(self) -> None:
        execution, pending, intent = self.execution, self.pending, self.intent
        run = execution.row.id
        if self._evidence.ended is not None:  # which the intent says now
            execution.worker.code_ended.pop(self._name, None)
        execution.stick(
            Reason.IN_DOUBT,
            f"step {pending.key} of run {run}: attempt {intent.attempt} is in doubt ({self._why}{self._beware}). "
            "Find out whether it happened, then: "
            f"outlast resolve {run} '{pending.key}' --attempt {intent.attempt} --happened JSON | "
            "--did-not-happen | --fail",
        )
        execution.settle_down()

    def _did_not_happen(self) -> None:
        """Plan the next attempt; where attempts keep coming to nothing, end that by the step's error or a person."""
        execution, pending, intent, retry = self.execution, self.pending, self.intent, self.pending.call.settings.retry
        self._over()
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
        if resolution.note == "happened":
            try:
                value = execution.worker.codec.decode(resolution.value or b"null", self._returns)
                data, live = self._stored(from_json(value, self._returns))
            except OutlastError as refused:
                self._decide_again(f"it was decided that it happened, with a value of no use: {refused}")
            else:
                self._happened(data, live, "decided: happened")
            return
        self._over()
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
        self._settle(Unknown())

    def _keep_why(self) -> None:
        """Write the intent once more with why it is in doubt, and when its code ended, for whoever has it next."""
        execution, intent, ended = self.execution, self.intent, self._evidence.ended or 0.0
        decided, self.pending.resolution = self.pending.resolution, None
        if decided is None and (self._why, ended) in ((NOT_RECORDED, 0.0), (intent.note, intent.ended)):
            return
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
            ended=ended,
            note=keepable(self._why),
        )
        execution.flush()

    def _over(self) -> None:
        """It is settled."""
        worker = self.execution.worker
        self.steps.doubts.pop(self.pending.key, None)
        worker.code_ended.pop(self._name, None)
        worker.doubts_told.discard(self._name)

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
        self._over()
        self.steps.outcome(self.pending, self.intent.attempt, self._begun, data, live, None, note=note)
