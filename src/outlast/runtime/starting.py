"""How a run is started: from a call to its row, and from the row to a run that is committed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from outlast.core.codec import Codec
from outlast.core.definitions import Call, Step
from outlast.core.errors import EncodingError, StoreError, WrongUse
from outlast.core.functions import Definition
from outlast.core.identity import check_run_id
from outlast.core.records import RunRow
from outlast.core.terms import SHARED_ID, Terms
from outlast.runtime import registry
from outlast.runtime.conflicts import check_same_call
from outlast.runtime.moves import tell_if_moved
from outlast.stores.verbs import Answer, Conflict, Started, StartRun

if TYPE_CHECKING:
    from outlast.runtime.client import Client


def row_of(
    call: Call[Any], id: str | None, codec: Codec, now: Callable[[], float], *, version: str, python: str = ""
) -> RunRow:
    """Return the run that a call is to be; `now` is where a delay begins. Raises WrongUse, EncodingError."""
    registry.check_call(call)
    digits = os.urandom(24).hex()
    run_id = check_run_id(id) if id is not None else digits[:16]
    definition = call.definition
    if isinstance(definition, Step):
        registry.check_run_of(definition)
    try:
        data = codec.encode([list(call.args), call.kwargs])
    except EncodingError as error:
        raise type(error)(
            f"run {run_id} of {definition.name} was not started: an argument cannot be stored: "
            f"{definition.say_argument(str(error), whole=True)}"
        ) from None
    registry.register(definition)
    row = RunRow(
        pk=0,
        id=run_id,
        incarnation=digits[16:],
        workflow=registry.run_name(definition),
        definition=definition.definition,
        is_step=call.is_step,
        input=data,
        options=call.run_options,
        version=version,
        python=python,
    )
    if call.terms is not None:
        if id is not None and call.terms.is_shared:
            raise WrongUse(SHARED_ID)
        call.terms.put_in(row, call.args, call.kwargs, now())
    return row


async def start_run(
    app: Client, row: RunRow, definition: Definition[..., Any] | None, terms: Terms | None = None
) -> RunRow:
    """Start a run, or find the one that is of the same call; return it when that is committed.

    `definition` is what it executes, where that is known here. Raises RunConflict, StoreError.
    """
    worker = app._worker
    max_wait = float(terms.max_wait) if terms is not None and terms.max_wait is not None else None
    if terms is not None and terms.queue is not None:
        await app._declare(terms.queue)
    claim_by = worker.claims.claims_for(row) if worker is not None else None
    verb = StartRun(run=row, claim_by=claim_by, max_wait=max_wait)
    answer = await app.ask(verb, heard=lambda answer: _heard(app, answer, verb))
    if not isinstance(answer, Started | Conflict) and verb.claim_by is not None:
        queued = StartRun(run=row)  # the lease was lost just now: leave the run to the queue
        answer = await app.ask(queued, heard=lambda answer: _heard(app, answer, queued))
    if isinstance(answer, Conflict):
        check_same_call(app.codec, definition, row, answer.run)
    elif not isinstance(answer, Started):
        raise StoreError(f"run {row.id} could not be started in {app.url}: {getattr(answer, 'why', answer)}")
    elif answer.created:
        return answer.run
    if definition is not None:
        tell_if_moved(app.notices, answer.run, definition)
    return answer.run


def _heard(app: Client, answer: Answer | StoreError, verb: StartRun) -> None:
    """Begin a run that was just started, whether or not its starter still waits for the answer."""
    worker = app._worker
    if worker is None:
        return
    if verb.claim_by is not None:
        worker.claims.start_answered()
    if isinstance(answer, Started):
        if answer.created:
            worker.claims.begin_started(answer.run, new=not answer.mail)
        elif answer.run.due is not None:  # it may have been put off anew
            worker.look_due()
    elif isinstance(answer, StoreError):  # it may have been started for this worker before the store went away
        worker.claims.reconcile_soon()
