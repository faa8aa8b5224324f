"""Which function applies which verb, and how a batch of them becomes one transaction.

A batch is applied twice over at most. First fast: no savepoints, neighbours of a kind as one statement, and statements
sent along with each other. When the database refuses something, all is rolled back and the batch is applied
carefully: each verb under a savepoint, so that the one that is refused takes nothing with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from outlast.stores.approval_verbs import AnswerApproval, OpenApproval, ReopenApproval
from outlast.stores.batches import apply_in_order
from outlast.stores.checkpoint_verbs import (
    CopyThread,
    DeleteOrigins,
    DeleteThread,
    PruneThread,
    PutCheckpoint,
    PutWrites,
)
from outlast.stores.course_verbs import ContinueAs, Hold, Move, Terminate
from outlast.stores.postgres import (
    approvals,
    checkpoints,
    client_verbs,
    courses,
    families,
    leases,
    owned_runs,
    queues,
    rates,
    schedules,
)
from outlast.stores.postgres.batch import Batch
from outlast.stores.postgres.faults import REFUSALS
from outlast.stores.postgres.journal import write
from outlast.stores.postgres.together import finish_all, start_all, write_all
from outlast.stores.queue_verbs import DeclareQueue, DrawRate, PauseQueue
from outlast.stores.time_verbs import DropSchedule, Expire, PauseSchedule, PutSchedule, Tick
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
    OpenApproval: approvals.open_approval,
    AnswerApproval: approvals.answer_approval,
    ReopenApproval: approvals.reopen_approval,
    DeclareQueue: queues.declare_queue,
    PauseQueue: queues.pause_queue,
    DrawRate: rates.draw_rate,
    ContinueAs: courses.continue_as,
    Terminate: courses.terminate,
    Hold: courses.hold,
    Move: courses.move,
    Expire: families.expire,
    PutSchedule: schedules.put_schedule,
    PauseSchedule: schedules.pause_schedule,
    DropSchedule: schedules.drop_schedule,
    Tick: schedules.tick,
    PutCheckpoint: checkpoints.put_checkpoint,
    PutWrites: checkpoints.put_writes,
    DeleteThread: checkpoints.delete_thread,
    DeleteOrigins: checkpoints.delete_origins,
    CopyThread: checkpoints.copy_thread,
    PruneThread: checkpoints.prune_thread,
}

TOGETHER: dict[type[Any], Callable[[Batch, Any], list[Answer]]] = {
    StartRun: start_all,
    Write: write_all,
    Finish: finish_all,
}


def apply(b: Batch, verbs: Sequence[Verb]) -> list[Answer]:
    """Apply the verbs inside the batch's transaction. Raises one of REFUSALS unless the batch is careful."""
    b.look(verbs)
    if b.careful:
        return [_carefully(b, verb) for verb in verbs]
    together = {kind: partial(act, b) for kind, act in TOGETHER.items()}
    return apply_in_order(verbs, lambda verb: VERBS[type(verb)](b, verb), together)


def _carefully(b: Batch, verb: Verb) -> Answer:
    b.run_sql("SAVEPOINT verb")
    try:
        answer = VERBS[type(verb)](b, verb)
    except REFUSALS as error:
        b.run_sql("ROLLBACK TO SAVEPOINT verb")
        b.forget_all()
        answer = Failed(f"the database refused it: {' '.join(str(error).split())}")
    b.run_sql("RELEASE SAVEPOINT verb")
    return answer
