"""What a store does: whole transitions, committed in batches.

There is one way to write: `Store.transact(verbs)`. It takes a batch of verbs
(one object per transition) and commits them in ONE durable transaction, in
order, and answers each. The verbs are independent of each other: one that is
refused changes nothing and does not disturb its neighbours. When `transact`
raises `StoreUnavailable`, the batch may or may not have been committed, and
the caller sends the same batch again: **every verb is idempotent by its own
key**, so that a second application finds the first and gives the same answer.

A verb that belongs to a worker is **fenced**: it carries the worker's id (its
lease token) and, where it concerns a run, the number of the claim. Inside the
transaction the store checks that the worker's row is `alive` and its lease
has not run out, and that the run is `running` under this owner and claim.
Otherwise the answer is `Fenced` and nothing is written. (A batch may start
with `Beat`, which renews a lease that ran out if nobody has taken it.)

Every change of a run's status is a row of `core/transitions.py`.

Reads see committed data, and never block writers for long.

The stores' clock: `now()` is the time that the store itself would write, in
seconds since the epoch; `lease_now()` is the clock of leases, which no change
of wall time moves (boot time on one machine, the server's clock on a server).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from outlast.core.records import InboxRow, Kind, Record, RunRow, WorkerRow
from outlast.core.transitions import Reason, Status

# -- answers ----------------------------------------------------------------


class Answer(msgspec.Struct, frozen=True):
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
    """The run of this id. `created` is false when it was there before, with the same call."""

    run: RunRow
    created: bool


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


class Verb(msgspec.Struct, frozen=True, kw_only=True):
    """Root of all verbs."""


class Register(Verb, frozen=True, kw_only=True):
    """Make a worker known, `alive`, with a lease of `lease_s` seconds from now. -> Beaten"""

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
    crash_loop. `dead` may name a worker whose row is missing: then runs owned by
    it are put back likewise. -> TakenOver | Refused
    """

    worker: str
    dead: str
    gone: bool
    max_crashes: int = 10


class Claim(Verb, frozen=True, kw_only=True):
    """Take up to `limit` due runs of the named workflows, oldest due first. -> Claimed (by pk) | Fenced

    A claim adds one to `claim`, sets the owner, clears `due` and `detail`, and sets `started`
    at the first one. `version` and `python` are recorded unless empty. `key` names this one
    claim, for example a random text: sent again under the same key, it gives the runs that the
    first one got and that the worker still owns, and takes no others. Without a key, a claim
    whose answer was lost leaves runs that only `owned()` tells of.
    """

    worker: str
    workflows: tuple[str, ...]
    limit: int
    key: str = ""
    version: str = ""
    python: str = ""


class Write(Verb, frozen=True, kw_only=True):
    """Add records to a run's journal, and delete the inbox rows that they deliver. -> Done | Fenced | Failed

    A record whose `seq` is there already with the same content is the same
    record. Otherwise the first one's `seq` must be one above the journal's last (0 where it is empty):
    a gap means that an earlier record failed, and is answered with Failed. Sets the run's `crashes` to 0.
    """

    worker: str
    run: int
    claim: int
    records: tuple[Record, ...]
    consumes: tuple[int, ...] = ()


class Park(Verb, frozen=True, kw_only=True):
    """Put the run to rest until `due` (None: until something arrives). -> Done | Kept | Fenced

    Looks again in the same transaction: with a row in the inbox that is not
    in `ignoring`, the run is not parked.
    """

    worker: str
    run: int
    claim: int
    due: float | None
    detail: str = ""
    ignoring: tuple[int, ...] = ()


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
    """End the run; tell its parent, if it has one, through the parent's inbox. -> Done(woke parent) | Fenced | Failed

    `status` is an ended one. The parent gets an inbox row of kind CHILD with the
    `parent_key` as its key. The run's own inbox is cleared. `last_seq` is the last record's that the end
    rests on: when the journal's last differs, a record is missing and the answer is Failed.
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
    parent again only if the parent has no such row: the same message_id is one row.
    """

    run: RunRow
    claim_by: str | None = None
    parent_worker: str | None = None
    parent_claim: int | None = None


class Send(Verb, frozen=True, kw_only=True):
    """Put something in a run's inbox and make it due. -> Done(woke the run) | Refused

    The same `message_id` for the same run is the same message, also after it
    was taken while the run lives. A run that has ended refuses.
    """

    id: str
    kind: Kind
    key: str
    message_id: str
    value: bytes | None = None


class Cancel(Verb, frozen=True, kw_only=True):
    """Ask a run to end. -> Done | Refused

    A run never claimed, or stuck, ends as `cancelled` at once (telling its
    parent); one that is running or waiting gets an inbox row of kind CANCEL
    (one however often it is asked). A run that has ended refuses. With `parent`, a run that is not its child refuses.
    """

    id: str
    by: str = ""
    parent: int | None = None


class Resolve(Verb, frozen=True, kw_only=True):
    """Record a person's decision on an attempt in doubt; the run is due again. -> Done | Refused

    Legal only while the run is stuck: in_doubt and the last INTENT record of
    `key` has this `attempt` and no RESOLUTION, LATE, STEP or ATTEMPT record of
    that key and attempt follows it. The same decision again is the same decision.
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

    Deletes the records with a seq in `drop`, clears the end, makes the run
    `pending` and due now, crashes 0. Legal only while the run has this `status` and its
    last record is `last_seq` (so that nothing happened between look and leap). The
    remaining records keep their seq: gaps are allowed after a resume.
    """

    id: str
    status: Status
    last_seq: int
    drop: tuple[int, ...] = ()


class ForkRun(Verb, frozen=True, kw_only=True):
    """Create a run from the records of another that are named in `keep` (their seqs). -> Started | Conflict | Refused

    `run` is as in StartRun and its `forks` say which stretch has which incarnation. Records
    keep seq and content. The new run is `pending`, due now, `started` as the original's.
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


# -- reads --------------------------------------------------------------------


class Loaded(msgspec.Struct, frozen=True):
    """All there is of one run, from one snapshot."""

    run: RunRow
    records: tuple[Record, ...]
    inbox: tuple[InboxRow, ...]


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs a listing wants; None is any. `id_prefix` matches literally."""

    statuses: tuple[Status, ...] | None = None
    reason: Reason | None = None
    workflow: str | None = None
    version: str | None = None
    id_prefix: str | None = None
    owner: str | None = None
    parent: int | None = None
    created_after: float | None = None
    created_before: float | None = None


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What `outlast doctor` says of a store."""

    kind: str
    location: str
    schema_version: int
    size_bytes: int
    engine: str  # name and version of the database
    counts: dict[str, int]  # runs by status
    details: dict[str, Any] = {}


class Store(Protocol):
    """A place where runs are kept. Blocking; `transact` is called from one thread of the process at a time.

    Reads may come from any thread at any time.
    """

    def transact(self, verbs: Sequence[Verb]) -> list[Answer]:
        """Commit the verbs in one transaction and answer each, in order. Raises StoreUnavailable, ReadOnlyStore."""
        ...

    def now(self) -> float:
        """Return the store's time, seconds since the epoch."""
        ...

    def lease_now(self) -> float:
        """Return the store's lease clock in seconds."""
        ...

    def run(self, id: str) -> RunRow | None:
        """Return the run of this id."""
        ...

    def run_by_pk(self, pk: int) -> RunRow | None:
        """Return the run of this key."""
        ...

    def load(self, pk: int) -> Loaded | None:
        """Return a run with its whole journal and inbox."""
        ...

    def records(self, pk: int, after: int = 0, limit: int | None = None) -> list[Record]:
        """Return records with a seq above `after`, in order."""
        ...

    def runs(self, filter: RunFilter, *, limit: int = 100, before: int | None = None) -> list[RunRow]:
        """Return runs, newest first (by pk), below the pk `before`; large payloads included."""
        ...

    def owned(self, worker: str) -> list[tuple[int, int]]:
        """Return (pk, claim) of every run that the worker owns."""
        ...

    def inbox(self, worker: str) -> list[InboxRow]:
        """Return the inbox rows of all runs that the worker owns, in order."""
        ...

    def next_due(self, workflows: Sequence[str]) -> float | None:
        """Return when the next run of these workflows may be claimed (a time in the past: now), None for never."""
        ...

    def ended(self, pks: Sequence[int]) -> list[RunRow]:
        """Return those of the runs that have ended or are stuck."""
        ...

    def workers(self) -> list[WorkerRow]:
        """Return all known workers, newest first, gone ones included while runs or intents may name them."""
        ...

    def orphans(self) -> list[str]:
        """Return ids that own runs but have no `alive` worker row."""
        ...

    def change(self) -> int:
        """Return a number that differs after another process or connection may have changed something; cheap."""
        ...

    def info(self) -> StoreInfo:
        """Return version, size and counts. Never fails on a bad row."""
        ...

    def check(self) -> list[str]:
        """Return what is wrong with the store's content (integrity and the invariants that SQL can see); [] is good."""
        ...

    def lock_folder(self) -> Path | None:
        """Return the folder for the workers' lock files, for a store whose workers are all on this machine."""
        ...

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        ...


class Clock(Protocol):
    """The clocks that a store on this machine reads; `outlast.runtime.clock.SystemClock` is the real one."""

    def wall(self) -> float:
        """Return seconds since the epoch."""
        ...

    def boot(self) -> float:
        """Return seconds since the machine's start."""
        ...

    def boot_id(self) -> str:
        """Return a name of this start of the machine."""
        ...
