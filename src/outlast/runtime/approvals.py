"""What a run asks people, as the code of a workflow asks it, and as its worker sees to it.

An approval is a row of its own in the store. Who answers changes that row and puts the answer into the run's inbox, in
one transaction, and only while the row is open: so one answer counts, whoever else answers, and the run is sure to get
it. That nobody answered in time is such an answer, too.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

import msgspec

from outlast.codec.forms import SchemaForm, check_given, filled_in, schema_of
from outlast.core.amounts import is_number
from outlast.core.arguments import check_text, wrong
from outlast.core.codec import Codec
from outlast.core.definitions import Call
from outlast.core.errors import StoreError, WrongUse
from outlast.core.identity import check_identity, derive
from outlast.core.pending import Pending
from outlast.core.records import ApprovalRow, InboxRow, Kind, Standing
from outlast.core.settings import Settings
from outlast.core.waits import Taken, Wait
from outlast.runtime.operations import body_here
from outlast.stores.approval_verbs import AnswerApproval, OpenApproval, ReopenApproval
from outlast.stores.rules import approval_box
from outlast.stores.verbs import Answer, Done

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution

T = TypeVar("T")

MAX_TEXT_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class Approval(Generic[T]):
    """A person's answer to `outlast.approve`. It is true where it was approved.

    - `approved`: the answer. `by`: who gave it, `note`: what was added to it, `at`: when.
    - `form`: what was filled in, of the type that was asked for; None where nothing was.
    - `id`: of the approval.
    """

    approved: bool
    by: str
    note: str
    at: dt.datetime
    form: T
    id: str

    def __bool__(self) -> bool:
        return self.approved


RECORDED = ("approved", "by", "note", "at", "form", "id")
"""What the record of an answer holds, in this order."""


class ApprovalWait(Wait[Any]):
    """A wait for a person's answer. Its id, and by that its mailbox, are known once it is issued.

    The id is recorded with the answer: a fork, whose own ids are others, sees the one that its original saw.
    """

    kind = "approval"

    def __init__(self, question: str, data: Any, form: Any, within: float | None, to: str) -> None:
        super().__init__("!approve", "", form if isinstance(form, type) else Any)
        self.id = ""
        self.question = question
        self.data = data
        self.form = form
        self.within = within
        self.to = to

    def issued(self, incarnation: str, key: str) -> None:
        check_identity(key)
        self.id = derive(incarnation, "approval", key)[:16]
        self.mailbox = approval_box(self.id)

    def content(self, codec: Codec) -> bytes:
        return codec.encode([self.question, self.data, self.to])

    @property
    def label(self) -> str:
        return "approve"

    def says(self) -> str:
        return f"approval {self.id}: {self.question}"

    def read(self, codec: Codec, row: InboxRow) -> Taken:
        if not row.ok:
            late = TimeoutError(f"nobody answered approval {self.id} within {self.within:g} s: {self.question}")
            data = codec.encode_error(late)
            return Taken(data, None, codec.decode_error(data))
        approved, by, note, form = codec.decode(row.value or b"null", self.returns)
        if self.form is not None and form is not None:
            form = filled_in(form, self.form)
        elif approved and isinstance(self.form, SchemaForm):
            check_given(self.form)
        data = codec.encode([approved, by, note, row.created, form, self.id])  # as RECORDED names them
        return Taken(data, self.made_of(codec.decode(data, self.returns)), None)

    def made_of(self, value: Any) -> Approval[Any]:
        approved, by, note, at, form, answered = value
        return Approval(approved, by, note, dt.datetime.fromtimestamp(at, dt.UTC), form, answered)


@overload
def approve(
    question: str, *, data: Any = None, timeout: float | None = None, to: str = "", key: str | None = None
) -> Call[Approval[Any]]: ...


@overload
def approve(
    question: str,
    *,
    form: type[T],
    data: Any = None,
    timeout: float | None = None,
    to: str = "",
    key: str | None = None,
) -> Call[Approval[T]]: ...


def approve(
    question: str,
    *,
    form: Any = None,
    data: Any = None,
    timeout: float | None = None,
    to: str = "",
    key: str | None = None,
) -> Call[Approval[Any]]:
    """Ask people in a workflow, and wait for the answer: `if await outlast.approve("Refund 500 to ada?"): ...`.

    The question is listed by `app.approvals()` and `outlast approvals` from when all that was recorded before is
    committed, with `data` (what they need to decide), and for whom it is (`to`, a text of yours). It is answered once,
    with `app.approve` or `app.reject`. `form` is a dataclass, pydantic model or the like that whoever answers may fill
    in, or `typing.Any` for any JSON. After `timeout` seconds it expires, and TimeoutError is raised: ask somebody else
    then. Where the wait is cancelled, or the run ends, the question is withdrawn. `key` names it in the journal, as it
    does a step. Raises WrongUse outside of a workflow, EncodingError for data that cannot be stored.
    """
    place = body_here("approve()")
    for name, text in (("question", question), ("to", to)):
        check_text("outlast.approve", name, text, MAX_TEXT_BYTES)
    if not question.strip():
        raise wrong("outlast.approve", "question", question, "a text that says what is asked")
    if timeout is not None and not (is_number(timeout) and 0 < timeout < inf):
        raise WrongUse(f"outlast.approve(timeout={timeout!r}): must be a positive, finite number of seconds")
    if form is not None and not isinstance(form, (type, SchemaForm)):
        raise WrongUse(f"outlast.approve(form={form!r}): must be a class, such as a dataclass or a pydantic model")
    wait = ApprovalWait(question, data, form, timeout, to)
    return Call(wait, (question, data), {}, Settings(key=key), place)


class Approvals:
    """The approvals that one run in memory waits for. All methods are called on the worker's loop."""

    def __init__(self, execution: Execution) -> None:
        self._run = execution
        self._waits: dict[str, Pending] = {}

    def start(self, pending: Pending) -> None:
        """The body asks people."""
        run, wait = self._run, _wait_of(pending)
        self._waits[wait.id] = pending
        run.after_commit(run.calmly, self._ask, pending)
        run.inbox.mail.wait(pending)

    def dues(self) -> list[float | None]:
        """Return when those that are open expire; None for never."""
        self._waits = {name: p for name, p in self._waits.items() if not p.done and not p.withdrawn}
        return [_due(pending) for pending in self._waits.values()]

    def due(self, pending: Pending) -> float | None:
        """Return when a wait is over that is one for an answer."""
        return _due(pending) if isinstance(pending.call.definition, ApprovalWait) else None

    def _ask(self, pending: Pending) -> None:
        run, wait = self._run, _wait_of(pending)
        if run.closed or run.stuck is not None or pending.withdrawn or pending.done:
            return
        if not pending.begun:  # so that changed code which no longer asks this is found out
            pending.begun = True
            run.engine.note(
                Kind.ASK, run.worker.now(), key=pending.key, name=wait.label, args=pending.args, cause=pending.cause
            )
            run.flush()
        asks = ApprovalRow(
            id=wait.id,
            run=run.row.pk,
            key=pending.key,
            question=wait.question,
            data=run.worker.codec.encode(wait.data),
            form=_schema(wait.form),
            form_type=f"{wait.form.__module__}:{wait.form.__qualname__}" if isinstance(wait.form, type) else "",
            addressee=wait.to,
            due=_due(pending),
        )

        def asked(answer: Answer | StoreError) -> None:
            run.steps.children -= 1
            if run.closed:
                return
            if not isinstance(answer, Done):
                run.worker.lost_run(run, answer)
                return
            self._watch(pending)
            run.calmly(run.after_turn)

        run.steps.children += 1
        run.worker.writer.submit(OpenApproval(worker=run.worker.id, claim=run.row.claim, approval=asks), asked)

    def _watch(self, pending: Pending) -> None:
        """See to it that it expires in time."""
        run, due = self._run, _due(pending)
        if due is None or run.closed or pending.withdrawn or pending.done:
            return
        if due > run.worker.now():
            run.worker.at(due, self._watch, pending)
            run.came_early()
            return
        wait = _wait_of(pending)
        self._settle(wait.id, Standing.EXPIRED, lambda: run.worker.at(run.worker.now() + 0.05, self._watch, pending))

    def given_up(self, pending: Pending) -> None:
        """The body no longer waits for an answer. (Each replay says so again: a crash may have come between.)"""
        if pending.begun:
            self._run.after_commit(self._settle, _wait_of(pending).id, Standing.WITHDRAWN)

    def _settle(self, id: str, status: Standing, again: Callable[[], object] | None = None) -> None:
        worker = self._run.worker

        def done(answer: Answer | StoreError) -> None:
            if isinstance(answer, Done):
                worker.wake(answer.woke)
            elif again is not None:  # not due yet by the store's own clock, or answered: then that is on its way here
                again()

        worker.writer.submit(AnswerApproval(id=id, run=self._run.row.pk, status=status, ask=status.value), done)

    def take_back(self, pending: Pending, row: InboxRow, refused: Exception) -> None:
        """An answer cannot be used: let people know, and answer anew."""
        run = self._run
        verb = ReopenApproval(
            worker=run.worker.id,
            run=run.row.pk,
            claim=run.row.claim,
            id=_wait_of(pending).id,
            problem=str(refused),
            consumes=row.id,
        )

        def done(answer: Answer | StoreError) -> None:
            if not run.closed and not isinstance(answer, Done):
                run.worker.lost_run(run, answer)
            elif not run.closed:
                run.settle_down()

        run.worker.notices("approval.reopened", run=run.row.id, approval=verb.id, why=verb.problem)
        run.worker.writer.submit(verb, done)


def _wait_of(pending: Pending) -> ApprovalWait:
    return cast("ApprovalWait", pending.call.definition)


def _due(pending: Pending) -> float | None:
    within = _wait_of(pending).within
    return None if within is None else pending.issued + within


def _schema(form: Any) -> bytes | None:
    """Return what a row keeps of a form; None where it has no schema, or one that is no JSON."""
    try:
        schema = schema_of(form)
        return None if schema is None else msgspec.json.encode(schema)
    except Exception:  # noqa: BLE001 - a class of the user's may put anything into it
        return None
