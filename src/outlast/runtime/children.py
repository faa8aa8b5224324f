"""Child runs: a workflow called in a workflow is a run of its own, with a parent that is told how it ends.

The child's id and incarnation are derived from the parent's incarnation and the call's identity, so that a
parent that is replayed, or sends its start twice, finds the same child.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.core.errors import RunConflict, StoreError, WrongUse
from outlast.core.identity import derive
from outlast.core.pending import Pending
from outlast.core.records import Kind, RunRow
from outlast.core.terms import Terms
from outlast.core.transitions import ENDED, Status
from outlast.stores.verbs import Answer, Cancel, Conflict, Started, StartRun

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution


DETACHED = "detached"
"""The note of a child's start whose parent did not mean to wait for it."""


def start_child(execution: Execution, pending: Pending) -> None:
    """Start the child run of a call, or find it again."""
    if execution.closed or execution.stuck is not None or pending.withdrawn or pending.done:
        return
    worker, row, call = execution.worker, execution.row, pending.call
    if not pending.begun:  # so that changed code which no longer makes this call is found out
        pending.begun = True
        execution.engine.note(
            Kind.START,
            worker.now(),
            key=pending.key,
            name=pending.name,
            args=pending.args,
            cause=pending.cause,
            note=DETACHED if call.detached else "",
        )
        execution.flush()
    child = RunRow(
        pk=0,
        id=execution.engine.child_id(pending.call),
        incarnation=derive(row.incarnation, "child", pending.key),
        workflow=call.definition.name,
        definition=call.definition.definition,
        input=pending.encoded or b"",
        options=call.run_options,
        parent=row.pk,
        parent_key=pending.key,
        outlives=call.outlives,
        version=worker.version,
        python=worker.python,
    )
    if call.terms is not None and not _has_terms(execution, pending, child, call.terms):
        return
    verb = StartRun(
        run=child, claim_by=worker.claims.claims_for(child), parent_worker=worker.id, parent_claim=row.claim
    )

    def done(answer: Answer | StoreError) -> None:
        execution.steps.children -= 1
        if verb.claim_by is not None:
            worker.claims.start_answered()
        if execution.closed:
            if isinstance(answer, Started) and answer.created:  # its parent was given up here, and it was claimed
                worker.claims.begin_started(answer.run, new=False)
            return
        if isinstance(answer, Started) and answer.run.parent == row.pk:
            if answer.run.status in ENDED:
                execution.calmly(_already_ended, execution, pending, answer.run)
            elif answer.created:  # now, or by an earlier execution of this run, which had got as far as this call
                worker.claims.begin_started(answer.run, new=pending.cause > execution.replayed and not answer.mail)
        elif isinstance(answer, (Started, Conflict)):
            whose = ", a child of another parent" if answer.run.parent not in (None, row.pk) else ""
            error = RunConflict(
                f"run {row.id} wants to start child {child.id!r}, but that id belongs to another run "
                f"({answer.run.workflow}, {answer.run.status.value}{whose}); give the child another id"
            )
            execution.calmly(execution.inbox.child_over, pending.key, False, worker.codec.encode_error(error))
        else:
            worker.lost_run(execution, answer)
        execution.calmly(execution.after_turn)  # what held up its rest or its end is over

    execution.steps.children += 1
    worker.writer.submit(verb, done)


def _has_terms(execution: Execution, pending: Pending, child: RunRow, terms: Terms) -> bool:
    """Write the terms of a start into its row; where they cannot be, the child has failed."""
    worker = execution.worker
    try:
        terms.put_in(child, pending.call.args, pending.call.kwargs, worker.now())
    except WrongUse as error:  # the queue's function makes no key of these arguments
        execution.calmly(execution.inbox.child_over, pending.key, False, worker.codec.encode_error(error))
        return False
    worker.declared.one(terms.queue)
    return True


def _already_ended(execution: Execution, pending: Pending, child: RunRow) -> None:
    """Its end may have been told and dropped again by `resume`: take it from the child's own row."""
    if not pending.done and not pending.withdrawn:
        succeeded = child.status is Status.SUCCEEDED
        execution.inbox.child_over(pending.key, succeeded, child.result if succeeded else child.error)


def outcome_of_child(
    execution: Execution, pending: Pending, ok: bool, value: bytes
) -> tuple[Any, BaseException | None]:
    """Return what a child's end is to the body that waits for it: a result, or an error. Raises DecodingError."""
    codec = execution.worker.codec
    if ok:
        return codec.decode(value, pending.call.definition.returns), None
    return None, codec.decode_error(value)


def cancel_child(execution: Execution, pending: Pending) -> None:
    """The parent no longer waits for this child: ask it to end, if the run of that id is its child at all.

    Each replay asks again, since a crash may have kept the first time from the store; the child hears it once, so that
    it can be resumed.
    """
    if not pending.begun:
        return
    row, child = execution.row, execution.engine.child_id(pending.call)
    asked = derive(row.incarnation, "given up", pending.given_up)
    verb = Cancel(id=child, by=f"run {row.id}", parent=row.pk, message_id=asked)
    execution.after_commit(execution.worker.writer.submit, verb, lambda _: execution.worker.claims.look())
