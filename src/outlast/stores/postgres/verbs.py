"""Which function applies which verb, and how a batch of them becomes one transaction.

A batch is applied twice over at most. First fast: no savepoints, neighbours of a kind as one statement, and statements
sent along with each other. When the database refuses something, all is rolled back and the batch is applied
carefully: each verb under a savepoint, so that the one that is refused takes nothing with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from outlast.stores.postgres import client_verbs, leases, owned_runs
from outlast.stores.postgres.batch import Batch
from outlast.stores.postgres.faults import REFUSALS
from outlast.stores.postgres.journal import write
from outlast.stores.postgres.together import finish_all, start_all, write_all
from outlast.stores.verbs import (
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

TOGETHER: dict[type[Any], Callable[[Batch, Any], list[Answer]]] = {
    StartRun: start_all,
    Write: write_all,
    Finish: finish_all,
}


def apply(b: Batch, verbs: Sequence[Verb]) -> list[Answer]:
    """Apply verbs, to none of which there is an objection, inside the batch's transaction.

    Raises one of REFUSALS unless the batch is careful.
    """
    b.look(verbs)
    if b.careful:
        return [_alone(b, verb) for verb in verbs]
    answers: dict[int, Answer] = {}
    for kinds, places in _neighbours(verbs):
        if not kinds:
            (place,) = places
            answers[place] = VERBS[type(verbs[place])](b, verbs[place])
        for kind in kinds:
            some = [place for place in places if type(verbs[place]) is kind]
            answers.update(zip(some, TOGETHER[kind](b, [verbs[place] for place in some]), strict=True))
    return [answers[place] for place in range(len(verbs))]


def _neighbours(verbs: Sequence[Verb]) -> Iterator[tuple[tuple[type[Verb], ...], list[int]]]:
    """Split a batch into stretches that can be applied together, each with the kinds in it, in order.

    The writes of a stretch come before its ends: an end rests on the records before it, and a stretch
    holds nothing more of a run that has ended in it.
    """
    at = 0
    while at < len(verbs):
        start, ended = at, set[int]()
        if type(verbs[at]) is StartRun:
            while at < len(verbs) and type(verbs[at]) is StartRun:
                at += 1
            yield (StartRun,), list(range(start, at))
            continue
        while at < len(verbs) and isinstance(verb := verbs[at], (Write, Finish)) and verb.run not in ended:
            if type(verb) is Finish:
                ended.add(verb.run)
            at += 1
        if at > start:
            yield (Write, Finish) if ended else (Write,), list(range(start, at))
        else:
            yield (), [at]
            at += 1


def _alone(b: Batch, verb: Verb) -> Answer:
    b.run_sql("SAVEPOINT verb")
    try:
        answer = VERBS[type(verb)](b, verb)
    except REFUSALS as error:
        b.run_sql("ROLLBACK TO SAVEPOINT verb")
        b.forget_all()
        answer = Failed(f"the database refused it: {' '.join(str(error).split())}")
    b.run_sql("RELEASE SAVEPOINT verb")
    return answer
