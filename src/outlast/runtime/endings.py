"""What a body says of its own end: what then undoes what it did."""

from __future__ import annotations

from typing import Any

from outlast.core.definitions import Call
from outlast.core.errors import LostRun, WrongUse
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
