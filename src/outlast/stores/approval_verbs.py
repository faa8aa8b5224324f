"""The verbs by which a run asks people, and is answered; see `outlast.stores.verbs`."""

from __future__ import annotations

from outlast.core.records import ApprovalRow, Standing
from outlast.stores.verbs import Verb


class OpenApproval(Verb, frozen=True, kw_only=True):
    """Ask people for an approval; the store sets `pk`, `created` and what an answer sets. -> Done | Fenced

    The same `id` is the same approval, however it stands by now; one that was withdrawn is open again, for its run
    waits for it once more (it had ended, and was resumed).
    """

    worker: str
    claim: int
    approval: ApprovalRow


class ReopenApproval(Verb, frozen=True, kw_only=True):
    """Take back an answer that the run cannot use, whose inbox row is `consumes`: it is open again. -> Done | Fenced

    `problem` says why, for the next who answers.
    """

    worker: str
    run: int
    claim: int
    id: str
    problem: str
    consumes: int


class AnswerApproval(Verb, frozen=True, kw_only=True):
    """Answer an approval that is open, once. -> Done(woke the run) | Refused

    From `due` on, by the store's clock, it has expired, and takes no other answer than that, given by the run's worker.

    `run` is the key of the run that asks. `status` is approved or rejected; or expired (only once it is due), or
    withdrawn, which its run no longer hears of. Any other answer puts a message into the run's inbox, whose key is
    `approval_box(id)` and whose value is `message`, and which is not `ok` where it expired. `ask` is what tells the
    same answer, sent again, from another one: then it is Done. A run that has ended is not answered.
    """

    id: str
    run: int
    status: Standing
    ask: str
    by: str = ""
    note: str = ""
    value: bytes | None = None
    message: bytes | None = None
