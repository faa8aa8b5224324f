"""Which function applies which verb, and how a batch of them becomes one transaction.

A batch is applied twice over at most. First fast: no savepoints, neighbouring
writes as one statement. When the database refuses something, or a record was
there before, all is rolled back and the batch is applied carefully: each verb
under a savepoint, so that the one that is refused takes nothing with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from outlast.stores.protocol import (
    Answer,
    Beat,
    Cancel,
    Claim,
    Failed,
    Finish,
    ForkRun,
    Leave,
    Park,
    Prune,
    Register,
    Release,
    Resolve,
    Resume,
    Send,
    StartRun,
    Stick,
    TakeOver,
    Verb,
    Write,
)
from outlast.stores.rules import objection
from outlast.stores.sqlite import client_verbs, leases, owned_runs
from outlast.stores.sqlite.batch import Batch, Surprise
from outlast.stores.sqlite.journal import write, write_all
from outlast.stores.sqlite.opening import REFUSALS

VERBS: dict[type[Any], Callable[[Batch, Any], Answer]] = {
    Register: leases.register,
    Beat: leases.beat,
    Leave: leases.leave,
    TakeOver: leases.take_over,
    Claim: owned_runs.claim,
    Write: write,
    Park: owned_runs.park,
    Release: owned_runs.release,
    Stick: owned_runs.stick,
    Finish: owned_runs.finish,
    StartRun: client_verbs.start_run,
    Send: client_verbs.send,
    Cancel: client_verbs.cancel,
    Resolve: client_verbs.resolve,
    Resume: client_verbs.resume,
    ForkRun: client_verbs.fork_run,
    Prune: client_verbs.prune,
}

SURPRISES = (Surprise, *REFUSALS)


def apply(b: Batch, verbs: Sequence[Verb]) -> list[Answer]:
    """Apply the verbs inside the batch's transaction. Raises Surprise or a refusal unless the batch is careful."""
    if b.careful:
        return [_alone(b, verb) for verb in verbs]
    answers: list[Answer] = []
    writes: list[Write] = []
    for verb in verbs:
        if isinstance(verb, Write):
            writes.append(verb)
            continue
        if writes:
            answers += write_all(b, writes)
            writes = []
        answers.append(objection(verb) or VERBS[type(verb)](b, verb))
    return answers + write_all(b, writes) if writes else answers


def _alone(b: Batch, verb: Verb) -> Answer:
    if objected := objection(verb):
        return objected
    b.db.execute("SAVEPOINT verb")
    try:
        answer = VERBS[type(verb)](b, verb)
    except REFUSALS as error:
        b.db.execute("ROLLBACK TO verb")
        b.forget_all()
        answer = Failed(f"the database refused it: {error}")
    b.db.execute("RELEASE verb")
    return answer
