"""What a body says of its own end: what then undoes what it did, and that only its turn is over."""

from __future__ import annotations

from typing import Any, NoReturn

from outlast.core.definitions import Call
from outlast.core.errors import LostRun, WrongUse
from outlast.core.terms import Terms
from outlast.core.workflows import Workflow
from outlast.runtime.operations import body_here


def compensate(call: Call[Any]) -> None:
    """Register what undoes a step: `outlast.compensate(refund(receipt.id))`, in async and sync workflows alike.

    Takes the call of a step, or of a workflow, and makes it only if the body fails or is cancelled: all that are
    registered then, the last first, each durably and with its own retries, before the run ends with its own error. What
    the call holds is fixed here. Where a call fails for good the others are made all the same, and the run fails with
    an `ExceptionGroup` of its own error and theirs. A body that returns makes none of them.

    Raises WrongUse outside of a workflow, and for what is not a call or was started already; EncodingError for
    arguments that cannot be stored.
    """
    given: object = call
    if not isinstance(given, Call):
        raise WrongUse(
            f"outlast.compensate takes a call, such as outlast.compensate(undo(1)), not {given!r}; where that is what "
            "a sync step returned, it has run already: outlast.compensate(undo.call(1))"
        )
    call.take()  # whatever becomes of it here, it was not forgotten
    place = body_here("compensate()")
    if getattr(call.place, "ops", None) is not place.ops:
        raise LostRun(
            f"{call!r} was made elsewhere than in run {place.ops.run_id}, whose failure it is to undo; make it in the "
            "argument: outlast.compensate(undo(...))"
        )
    place.ops.compensate(call)


def continue_as(call: Call[Any]) -> NoReturn:
    """End this turn of the run: it goes on, under the same id, as this call of a workflow, with an empty journal.

    For runs that live long: `outlast.continue_as(inbox(state))`, from time to time. Messages that were not taken go
    along, and one that was is still known by its id. Whoever waits for the run, a parent too, gets the result of its
    last turn. What the turn has started is ended as at a `return`: tasks are cancelled, a `once` step comes to its
    outcome; children that were started with `outlast.start` go on, without a parent; compensations are forgotten.

    It raises a BaseException, so `except Exception` lets it pass; where the body catches it and returns all the same,
    the run fails with WrongUse. A run that is being cancelled ends as cancelled instead. It keeps its id, its queue and
    its deadline. Raises WrongUse outside of a workflow, for what is not the call of a workflow or was started already,
    and for options other than `durability`; EncodingError for arguments that cannot be stored.
    """
    given: object = call
    if isinstance(given, Call):
        call.take()
    place = body_here("continue_as()")
    if not isinstance(given, Call) or not isinstance(call.definition, Workflow):
        raise WrongUse(
            f"outlast.continue_as takes the call of a workflow, such as outlast.continue_as(flow(1)), not {given!r}"
        )
    if getattr(call.place, "ops", None) is not place.ops:
        raise LostRun(f"{call!r} was made elsewhere than in run {place.ops.run_id}, which is to go on as it")
    if call.child_id is not None or (call.terms or Terms()) != (call.definition.terms or Terms()):
        raise WrongUse(
            f"run {place.ops.run_id} cannot continue as {call.definition.name} with options of its own: it keeps its "
            "id, its queue and its deadline, and goes on at once; only durability= can be another"
        )
    raise place.ops.continue_as(call)
