"""What a batch has to lock and to read before its verbs are applied."""

from __future__ import annotations

from outlast.core.records import ApprovalRow
from outlast.stores.approval_verbs import AnswerApproval, OpenApproval, ReopenApproval
from outlast.stores.checkpoint_verbs import CopyThread, DeleteThread, PruneThread, PutCheckpoint, PutWrites
from outlast.stores.checkpoints import thread_of
from outlast.stores.course_verbs import ContinueAs, Terminate
from outlast.stores.queue_verbs import DrawRate
from outlast.stores.time_verbs import Expire, Tick
from outlast.stores.verbs import (
    Beat,
    Cancel,
    Claim,
    Finish,
    Leave,
    Park,
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

# (run, parent): who waits, besides its parent, for a run that is to end; and a run that is to end and has children
# which its end concerns, as its own parent.
FAMILY = (
    "SELECT run, parent FROM waiters WHERE run = ANY (%s) UNION ALL "
    "SELECT DISTINCT parent, parent FROM runs WHERE parent = ANY (%s) AND ended IS NULL AND NOT outlives"
)


class Wants:
    """Gathers it, verb by verb."""

    def __init__(self) -> None:
        self.workers: set[str] = set()  # in whose names something is written
        self.dead: set[str] = set()
        self.changes: set[int] = set()  # runs that change their status
        self.ids: set[str] = set()  # runs that somebody does something to from outside
        self.fences: set[int] = set()
        self.starts: set[str] = set()
        self.ends: set[int] = set()
        self.threads: set[str] = set()  # of checkpoints

    def add(self, verb: Verb) -> None:
        """Add what one verb needs."""
        match verb:
            case Write(run=run) | OpenApproval(approval=ApprovalRow(run=run)) | DrawRate(run=run):
                self.workers.add(verb.worker)
                self.fences.add(run)
            case Park() | Release() | Stick() | Finish() | ReopenApproval() | ContinueAs():
                self.workers.add(verb.worker)
                self.fences.add(verb.run)
                self.changes.add(verb.run)
                if isinstance(verb, Finish):
                    self.ends.add(verb.run)
            case Register():
                self.workers.add(verb.worker.id)
            case TakeOver():
                self.workers.add(verb.worker)
                self.dead.add(verb.dead)
            case Beat() | Leave() | Claim() | Expire() | Tick():
                self.workers.update(filter(None, (verb.worker,)))
            case StartRun():
                self.workers |= {name for name in (verb.claim_by, verb.parent_worker) if name is not None}
                self.starts.add(verb.run.id)
                if verb.run.parent is not None and verb.parent_claim is not None:
                    self.fences.add(verb.run.parent)
            case AnswerApproval():
                self.changes.add(verb.run)
            case Terminate():
                self.ids.add(verb.id)
                self.workers.update(filter(None, (verb.worker,)))
            case Send() | Cancel() | Resolve() | Resume():
                self.ids.add(verb.id)
            case _:
                self._add_threads(verb)

    def _add_threads(self, verb: Verb) -> None:
        match verb:
            case PutCheckpoint() | PutWrites():
                self.threads.add(thread_of(verb))
                if verb.worker:
                    self.workers.add(verb.worker)
                    self.fences.add(verb.run)
            case DeleteThread() | PruneThread():
                self.threads.add(verb.thread)
            case CopyThread():
                self.threads |= {verb.source, verb.target}
            case _:
                pass
