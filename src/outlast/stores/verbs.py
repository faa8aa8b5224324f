"""The verbs of a store, and what it answers to them: one object per transition. `Store` says how they are applied.

Each verb's docstring ends with the answers it can get.
"""

from __future__ import annotations

import msgspec

from outlast.core.records import Kind, Record, RunRow, WorkerRow
from outlast.core.transitions import Reason, Status
from outlast.stores.emitted import Emit

# -- answers ----------------------------------------------------------------


class Answer(msgspec.Struct, frozen=True, gc=False):
    """Root of what a store answers to a verb."""


class Done(Answer, frozen=True):
    """The transition stands. `woke` are the pks of runs that it gave something to do."""

    woke: tuple[int, ...] = ()


class Fenced(Answer, frozen=True):
    """The worker, or its claim on the run, is no longer valid. Nothing was written."""

    why: str
    worker_lost: bool = False  # the lease itself is gone, not only this run


class Refused(Answer, frozen=True):
    """The transition is not legal as things stand; `why` is for people. Nothing was written."""

    why: str
    run: RunRow | None = None


class Failed(Answer, frozen=True):
    """The database refused what the verb holds (for example its size). Nothing was written."""

    why: str


class Started(Answer, frozen=True):
    """The run of this id. `created` is false when it was there before, with the same call.

    `mail` says that its inbox is not empty: there were messages for it before it was started.
    """

    run: RunRow
    created: bool
    mail: bool = False


class Conflict(Answer, frozen=True):
    """The id belongs to a run of another workflow or other arguments."""

    run: RunRow


class Claimed(Answer, frozen=True):
    """The runs that the worker now owns, as they stand after the claim."""

    runs: tuple[RunRow, ...]


class Kept(Answer, frozen=True):
    """The run was not parked: something has arrived for it meanwhile, so it stays `running`."""


class Beaten(Answer, frozen=True):
    """The lease now holds until `lease_until`, in the store's lease clock."""

    lease_until: float


class TakenOver(Answer, frozen=True):
    """`runs` are the pks that went back to the queue, `stuck` those that had crashed too often."""

    runs: tuple[int, ...]
    stuck: tuple[int, ...] = ()


# -- verbs of a worker ------------------------------------------------------


class Verb(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Root of all verbs."""


class Register(Verb, frozen=True, kw_only=True):
    """Make a worker known, `alive`, with a lease of `lease_s` seconds from now. -> Beaten | Fenced(worker_lost)

    Sent again, it is a Beat that also says anew what the worker serves.
    """

    worker: WorkerRow
    lease_s: float


class Beat(Verb, frozen=True, kw_only=True):
    """Renew the worker's lease, also one that ran out, unless it was taken. -> Beaten | Fenced(worker_lost)"""

    worker: str
    lease_s: float


class Leave(Verb, frozen=True, kw_only=True):
    """The worker ends in order: runs it still owns go back to the queue, its row is `gone`. -> TakenOver"""

    worker: str


class TakeOver(Verb, frozen=True, kw_only=True):
    """Declare another worker dead and put its runs back in the queue, due now.

    `gone` says that its process is known to be gone; otherwise the store
    checks in the same statement that its lease has run out. Only the caller
    that wins gets the runs: for any other the answer is `Refused`. A worker
    that is `expired` becomes `gone` by a later TakeOver(gone=True). Each run's
    `crashes` goes up by one; a run that reaches `max_crashes` becomes stuck:
    crash_loop. `dropped` says that the worker's session with the store has ended; where the store
    finds that this is so, the worker is `expired` although its lease holds. `dead` may name a
    worker whose row is missing: then runs owned by it are put back likewise.
    -> TakenOver | Refused | Fenced (a worker without a lease judges nobody)
    """

    worker: str
    dead: str
    gone: bool
    dropped: bool = False
    max_crashes: int = 10


class Claim(Verb, frozen=True, kw_only=True):
    """Take up to `limit` due runs of the named workflows, oldest due first. -> Claimed (by pk) | Fenced

    A claim adds one to `claim`, sets the owner, clears `due` and `detail`, and sets `started`
    at the first one. `version` and `python` are recorded unless empty. `key` names this one
    claim, for example a random text: sent again under the same key, it gives the runs that the
    first one got and that the worker still owns, and takes no others. Without a key, a claim
    whose answer was lost leaves runs that only `owned()` tells of.

    Runs on a queue are claimed only where `queues` names it, and only as far as its limits (see `DeclareQueue`) and the
    rows of this moment allow: what is `running` takes a place, a first claim counts for the rate. Runs that have begun
    go first, then those of the highest `priority`; among these the keys take turns.
    """

    worker: str
    workflows: tuple[str, ...]
    limit: int
    key: str = ""
    version: str = ""
    python: str = ""
    queues: tuple[str, ...] = ()


class Write(Verb, frozen=True, kw_only=True):
    """Add records to a run's journal, and delete the inbox rows that they deliver. -> Done | Fenced | Failed

    A record whose `seq` is there already with the same content is the same
    record. Otherwise the first one's `seq` must be one above the journal's last (0 where it is empty):
    a gap means that an earlier record failed, and is answered with Failed. Sets the run's `crashes` to 0, if there are
    records. `emits` is what the run lets the world see, in order: with records, once, as these are; without, each by
    its own rule.
    """

    worker: str
    run: int
    claim: int
    records: tuple[Record, ...] = ()
    consumes: tuple[int, ...] = ()
    emits: tuple[Emit, ...] = ()


class Park(Verb, frozen=True, kw_only=True):
    """Put the run to rest until `due` (None: until something arrives). -> Done | Kept | Fenced

    Looks again in the same transaction: with a row in the inbox whose id is above `seen`, the run is not parked.
    (Whoever puts one there holds the run, so one run's rows are committed in the order of their ids.) `frees` says
    that it had a place in a queue, which others may wait for.
    """

    worker: str
    run: int
    claim: int
    due: float | None
    detail: str = ""
    seen: int = 0
    frees: bool = False


class Release(Verb, frozen=True, kw_only=True):
    """Hand the run back: `pending`, due now. -> Done | Fenced"""

    worker: str
    run: int
    claim: int


class Stick(Verb, frozen=True, kw_only=True):
    """The run cannot go on by itself. -> Done | Fenced"""

    worker: str
    run: int
    claim: int
    reason: Reason
    detail: str


class Finish(Verb, frozen=True, kw_only=True):
    """End the run; tell its parent, if it has one, through the parent's inbox. -> Done(woke family) | Fenced | Failed

    `status` is an ended one. The parent gets an inbox row of kind CHILD with the
    `parent_key` as its key. Its children are asked to end, as by Cancel and once: those that have not ended, do not
    outlive it, and were not given up before. (So it is whichever verb ends a run.) The run's own inbox is cleared,
    save of messages that nobody took. `last_seq` is the last record's that the end rests on: when the journal's last
    differs, a record is missing and the answer is Failed.
    """

    worker: str
    run: int
    claim: int
    status: Status
    last_seq: int
    result: bytes | None = None
    error: bytes | None = None
    culprit: str = ""
    detail: str = ""


# -- verbs of anybody ---------------------------------------------------------


class StartRun(Verb, frozen=True, kw_only=True):
    """Create a run. -> Started | Conflict | Fenced | Failed

    `run` holds id, incarnation, workflow, definition, is_step, input, options, version, python,
    parent and parent_key; the store sets the rest (`pk`, `created`...). Same id: the
    same workflow, `is_step` and input give the existing run, anything else is a
    Conflict. The same incarnation is the same start, sent again. With `claim_by`
    (a worker's id) a new run is claimed by that worker at once (claim=1,
    `running`), fenced on the worker's lease; without it, it is `pending` and due now, or at
    `run.due`. Where `parent` is set with `parent_claim`, it is fenced on the parent's claim (its
    owner is `parent_worker`). A child that had already ended when it is started again tells its
    parent again only if the parent has no such row and its journal no such end. Whoever else
    starts the same run as its `parent` is told its end too, under its own `parent_key`. A run on a
    queue is not claimed by its start.

    `run.dedup`: while a run of the workflow with the same one has not ended, the start is that run's: Started where
    `is_step` and input are the same, else a Conflict. `run.debounce`: while a run of the workflow with the same one
    was never claimed and has not ended, it gets the new input, incarnation and terms, and is due at `run.due`, but no
    later than `max_wait` seconds after it was created.
    """

    run: RunRow
    claim_by: str | None = None
    parent_worker: str | None = None
    parent_claim: int | None = None
    max_wait: float | None = None


class Send(Verb, frozen=True, kw_only=True):
    """Put something in a run's inbox; a parked run is due now. -> Done(woke the run) | Refused

    A start that was put off stays put off. The same `message_id` for the same run is the same message, also after it
    was taken, and where the run has ended since. A run that has ended refuses any other. A message that is `early` is
    kept for a run of this id that is still to be started.
    """

    id: str
    kind: Kind
    key: str
    message_id: str
    value: bytes | None = None
    early: bool = False


class Cancel(Verb, frozen=True, kw_only=True):
    """Ask a run to end. -> Done | Refused

    A run never claimed (and no fork, which has a course to clean up after), or stuck, ends as
    `cancelled` at once (telling its parent); any other gets an inbox row of kind CANCEL
    (one however often it is asked; its value is `by`). A run that has ended refuses, unless it
    is `cancelled` already: then that is Done. With `parent`, a run that is not its child refuses.
    `message_id` makes a parent's request that is sent again one request, also after the run has ended and was resumed:
    the second time, and where the run has ended, nothing is left to do and the answer is Done.
    """

    id: str
    by: str = ""
    parent: int | None = None
    message_id: str = ""


class Resolve(Verb, frozen=True, kw_only=True):
    """Record a person's decision on an attempt in doubt; the run is due again. -> Done | Refused

    Legal only while the run is stuck: in_doubt and the last INTENT record of
    `key` has this `attempt` and no RESOLUTION, LATE, STEP or ATTEMPT record of
    that key and attempt follows it. (A decision that could not be carried out is followed by its
    INTENT once more.) The same decision again is the same decision. It becomes a
    record of kind RESOLUTION with the decision as its `note` and `by` as its `worker`.
    `decision` is `happened`, `did_not_happen` or `fail`.
    """

    id: str
    key: str
    attempt: int
    decision: str
    value: bytes | None = None
    by: str = ""


class Resume(Verb, frozen=True, kw_only=True):
    """Take an ended or stuck run up again. -> Done | Refused

    Deletes the records with a seq in `drop`, puts `again` (the intent of an attempt that is in doubt once more, with
    the reason as its note) in the place of one of them, clears the end, and a deadline that has come if the run had
    ended, gives the run these `options` (None: leaves them), makes it `pending` and due now, crashes 0. Legal only
    while the run has this `status` and its last record is `last_seq` (so that nothing happened between look and leap).
    The remaining records keep their seq: gaps are allowed after a resume.
    """

    id: str
    status: Status
    last_seq: int
    drop: tuple[int, ...] = ()
    again: Record | None = None
    options: str | None = None


class ForkRun(Verb, frozen=True, kw_only=True):
    """Create a run from the records of another that are named in `keep` (their seqs). -> Started | Conflict | Refused

    `run` is as in StartRun and its `forks` say which stretch has which incarnation. Records
    keep seq and content. The new run is `pending` and due now.
    """

    source: int
    keep: tuple[int, ...]
    run: RunRow


class Prune(Verb, frozen=True, kw_only=True):
    """Delete ended runs that ended before `before`, oldest first, at most `limit`, whole. -> Claimed(the rows)

    A run whose parent has not ended stays. Journals go in the same transaction.
    """

    before: float
    limit: int = 1000
