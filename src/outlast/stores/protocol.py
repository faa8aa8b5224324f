"""What a store does: whole transitions, committed in batches.

There is one way to write: `Store.transact(verbs)`. It takes a batch of verbs
(one object per transition) and commits them in ONE durable transaction, in
order, and answers each. The verbs are independent of each other: one that is
refused changes nothing and does not disturb its neighbours. When `transact`
raises `StoreUnavailable`, the batch may or may not have been committed, and
the caller sends the same batch again: **every verb is idempotent by its own
key**, so that a second application finds the first and gives the same answer,
also when the worker has let go of the run since (a `Write` before a `Finish`).
(`Prune` alone answers with what it deleted this time.) What no store can keep
(NUL or lone surrogates in text, times that are not finite, see `rules.py`) is
`Failed`, whatever the verb.

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

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from outlast.core.records import ApprovalRow, InboxRow, QueueState, Record, RunRow, Standing, WorkerRow
from outlast.core.schedule_rows import ScheduleRow
from outlast.core.transitions import Reason, Status
from outlast.stores.checkpoint_verbs import CheckpointFilter, LoadedCheckpoint
from outlast.stores.verbs import Answer, Verb

NOTHING_SEEN: Mapping[int, int] = MappingProxyType({})

# -- reads --------------------------------------------------------------------


class Loaded(msgspec.Struct, frozen=True):
    """All there is of one run, from one snapshot."""

    run: RunRow
    records: tuple[Record, ...]
    inbox: tuple[InboxRow, ...]
    sources: tuple[tuple[str, bool], ...] = ()  # steps that wrote to streams, and whether all that they wrote stays


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """A stretch of a stream: items from position `pos` on, or, with `back_to`, one that says: drop all after that."""

    pos: int
    items: tuple[bytes, ...] = ()
    back_to: int | None = None


class StreamPage(msgspec.Struct, frozen=True):
    """A part of a stream and how its run stood at that moment. None of what is up to `final` is ever dropped."""

    status: Status
    chunks: tuple[Chunk, ...]
    final: int | None  # None: all of the stream


class StreamRow(msgspec.Struct, frozen=True):
    """A stream of a run: its name, its last position, and up to where it can no longer change (None: all of it)."""

    name: str
    last: int
    final: int | None


class EarlyRow(msgspec.Struct, frozen=True):
    """A message for a run that is still to be started: the run's id, the message's name, and when it was sent."""

    run: str
    key: str
    created: float


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs a listing wants; None is any. `id_prefix` matches literally, `created_after` is included.

    `due_before` wants runs that are due, or will be by then; what has no time when it is due is not among them.
    """

    statuses: tuple[Status, ...] | None = None
    reason: Reason | None = None
    workflow: str | None = None
    version: str | None = None
    id_prefix: str | None = None
    owner: str | None = None
    parent: int | None = None
    created_after: float | None = None
    created_before: float | None = None
    due_before: float | None = None
    held: bool | None = None


class ApprovalFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which approvals a listing wants; None is any."""

    id: str | None = None
    status: Standing | None = None
    run: int | None = None
    addressee: str | None = None


MOST_OVERDUE = 100


class Survey(msgspec.Struct, frozen=True):
    """What a watcher looks at again and again, from one snapshot; each as the read of that name tells it."""

    workers: list[WorkerRow]
    orphans: list[str]
    next_due: float | None
    next_slot: float | None
    overdue: list[RunRow]  # at most MOST_OVERDUE


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

    def lease_epoch(self) -> str:
        """Return the name under which lease times can be compared; a worker's row bears it as `boot`."""
        ...

    def run(self, id: str) -> RunRow | None:
        """Return the run of this id."""
        ...

    def run_by_pk(self, pk: int) -> RunRow | None:
        """Return the run of this key."""
        ...

    def load(self, pks: Sequence[int]) -> list[Loaded]:
        """Return those of these runs that there are, in this order, each with its whole journal and inbox."""
        ...

    def records(self, pk: int, after: int = 0, limit: int | None = None) -> list[Record]:
        """Return records with a seq above `after`, in order."""
        ...

    def stream(self, pk: int, name: str, after: int = 0, limit: int = 100) -> StreamPage | None:
        """Return what stands in a stream of a run after a position, at most so many chunks; None: there is no run."""
        ...

    def streams(self, pk: int) -> list[StreamRow]:
        """Return the streams of a run, by name."""
        ...

    def values(self, pk: int) -> dict[str, bytes]:
        """Return what a run has published, by name."""
        ...

    def runs(self, filter: RunFilter, *, limit: int = 100, before: int | None = None) -> list[RunRow]:
        """Return runs, newest first (by pk), below the pk `before`; large payloads included."""
        ...

    def owned(self, worker: str) -> list[tuple[int, int]]:
        """Return (pk, claim) of every run that the worker owns."""
        ...

    def inbox(self, worker: str, seen: Mapping[int, int] = NOTHING_SEEN) -> list[InboxRow]:
        """Return the inbox rows of all runs that the worker owns, in order.

        `seen` has, for some of these runs, the id up to which their rows are known, and are left out.
        """
        ...

    def next_due(self, workflows: Sequence[str], queues: Sequence[str] = (), worker: str = "") -> float | None:
        """Return when the next run of these workflows may be claimed (a time in the past: now), None for never.

        Runs on a queue count where `queues` names it, and as far as its limits would let `worker` have them; when
        a place will be free nobody knows, and whoever frees one is a change.
        """
        ...

    def queues(self, keys: int = 20) -> list[QueueState]:
        """Return what is on each queue, by name; of its keys, those with the most runs, up to `keys`."""
        ...

    def overdue(self, limit: int) -> list[RunRow]:
        """Return runs that are pending, were never claimed, and whose deadline has come; at most `limit`."""
        ...

    def schedules(self) -> list[ScheduleRow]:
        """Return all schedules, by name."""
        ...

    def next_slot(self, workflows: Sequence[str]) -> float | None:
        """Return when a schedule of these workflows has something to do next, None for never.

        That is at its next slot; or at once (0), where slots wait and the run that it started last has ended.
        """
        ...

    def to_come(
        self, workflows: Sequence[str], queues: Sequence[str] = (), worker: str = ""
    ) -> tuple[float | None, float | None]:
        """Return what `next_due` and `next_slot` do, in one go."""
        ...

    def approvals(self, filter: ApprovalFilter, *, limit: int = 100, after: int = 0) -> list[ApprovalRow]:
        """Return approvals, oldest first (by pk), above the pk `after`; one that is open and due as expired."""
        ...

    def early(self, run: str | None = None, *, limit: int = 100) -> list[EarlyRow]:
        """Return messages for runs that are still to be started, or for the one of this id, oldest first."""
        ...

    def ended(self, pks: Sequence[int]) -> list[RunRow]:
        """Return those of the runs that have ended or are stuck."""
        ...

    def checkpoint(self, thread: str, ns: str, id: str | None = None) -> LoadedCheckpoint | None:
        """Return a checkpoint of a thread and namespace, or with None its head."""
        ...

    def checkpoints(
        self, filter: CheckpointFilter, *, limit: int = 100, below: int | None = None, bare: bool = False
    ) -> list[LoadedCheckpoint]:
        """Return checkpoints, newest first, below the pk `below`; `bare` without values and writes."""
        ...

    def thread_sizes(self, thread: str) -> dict[str, int]:
        """Return how many bytes the values of each channel of a thread take, by channel."""
        ...

    def workers(self) -> list[WorkerRow]:
        """Return all known workers, newest first, gone ones included while runs or intents may name them."""
        ...

    def owners(self) -> dict[str, int]:
        """Return how many runs each worker owns; those that own none are not in it."""
        ...

    def orphans(self) -> list[str]:
        """Return ids that own runs but have no `alive` worker row."""
        ...

    def survey(self, workflows: Sequence[str], queues: Sequence[str] = (), worker: str = "") -> Survey:
        """Return what `workers`, `orphans`, `next_due`, `next_slot` and `overdue` do, in one go."""
        ...

    def session(self) -> int | None:
        """Return a number that differs after this process's session with the store has dropped, None where none can.

        Others may then take it for dead: it starts no effect until it has renewed its lease.
        """
        ...

    def dropped(self) -> list[str]:
        """Return the `alive` workers whose sessions with the store have dropped, as far as this process may judge.

        Goes by the last `change`, and tells of each once.
        """
        ...

    def cut_off(self) -> list[str]:
        """Return the `alive` workers whose sessions with the store have ended and do not come back within a moment.

        Blocking. Unlike `dropped` it is for people who look: it waits for nothing but that moment, and decides nothing.
        """
        ...

    def hear(self, listener: Callable[[], None] | None) -> None:
        """Have `listener` called, in any thread, when `change` may differ: a hint, where a store has such a thing."""
        ...

    def change(self) -> int:
        """Return a number that differs soon after another process may have changed what others wait for; cheap.

        That is what `news.worth_telling` says. A hint may get lost: whoever waits also looks now and then.
        """
        ...

    def stream_change(self) -> int:
        """Do the same for what runs write to streams and publish, and sooner; for those who are just reading it."""
        ...

    def info(self) -> StoreInfo:
        """Return version, size and counts. Never fails on a bad row."""
        ...

    def check(self) -> list[str]:
        """Return what is wrong with the store's content (integrity and the invariants that SQL can see); [] is good."""
        ...

    def lock_folder(self) -> str | None:
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
