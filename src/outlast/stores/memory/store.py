"""The memory store: the reference that the others are compared with. Simple, and obviously right.

One lock guards everything, so that several workers of a test may share one
store from their own threads. What it hands out are copies.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile

from outlast.core.records import ApprovalRow, InboxRow, QueueState, Record, RunRow, WorkerRow, WorkerState
from outlast.core.schedule_rows import ScheduleRow
from outlast.core.transitions import ENDED, Status
from outlast.stores.checkpoint_verbs import CheckpointFilter, LoadedCheckpoint
from outlast.stores.memory import approvals, checkpoints, client_verbs, courses, schedules, verbs
from outlast.stores.memory import queues as memory_queues
from outlast.stores.memory.tables import Entry, Tables
from outlast.stores.protocol import (
    MOST_OVERDUE,
    NOTHING_SEEN,
    ApprovalFilter,
    Clock,
    EarlyRow,
    Loaded,
    RunFilter,
    StoreInfo,
    StreamPage,
    StreamRow,
    Survey,
)
from outlast.stores.rules import is_queued, objection
from outlast.stores.verbs import Answer, Verb

VERBS = verbs.VERBS | client_verbs.VERBS | approvals.VERBS | courses.VERBS | schedules.VERBS | checkpoints.VERBS


class MemoryStore:
    """Keeps runs in this process's memory; see `outlast.stores.protocol.Store`."""

    def __init__(self, clock: Clock, name: str = "") -> None:
        self._clock = clock
        self.now: Callable[[], float] = clock.wall
        self.lease_now: Callable[[], float] = clock.boot
        self.lease_epoch: Callable[[], str] = clock.boot_id
        self._name = name
        self._lock = threading.RLock()
        self._tables = Tables(clock)
        self._changes = 0

    def lock_folder(self) -> None:
        """Return None: this store lives in one process."""
        return

    def transact(self, verbs: Sequence[Verb]) -> list[Answer]:
        """Apply the verbs, in order, and answer each."""
        with self._lock:
            self._changes += 1
            return [objection(verb) or VERBS[type(verb)](self._tables, verb) for verb in verbs]

    # -- one run -----------------------------------------------------------------

    def run(self, id: str) -> RunRow | None:
        """Return the run of this id."""
        with self._lock:
            entry = self._tables.by_id(id)
            return copy.copy(entry.row) if entry else None

    def run_by_pk(self, pk: int) -> RunRow | None:
        """Return the run of this key."""
        with self._lock:
            entry = self._tables.runs.get(pk)
            return copy.copy(entry.row) if entry else None

    def load(self, pks: Sequence[int]) -> list[Loaded]:
        """Return those of these runs that there are, in this order, each with its whole journal and inbox."""
        with self._lock:
            return [
                Loaded(copy.copy(run.row), tuple(run.journal()), tuple(run.inbox.values()), run.output.told())
                for run in map(self._tables.runs.get, pks)
                if run is not None
            ]

    def records(self, pk: int, after: int = 0, limit: int | None = None) -> list[Record]:
        """Return records with a seq above `after`, in order."""
        with self._lock:
            entry = self._tables.runs.get(pk)
            found = [record for record in entry.journal() if record.seq > after] if entry else []
            return found if limit is None else found[: max(limit, 0)]

    def stream(self, pk: int, name: str, after: int = 0, limit: int = 100) -> StreamPage | None:
        """Return what stands in a stream of a run after a position."""
        with self._lock:
            entry = self._tables.runs.get(pk)
            return StreamPage(entry.row.status, *entry.output.read(name, after, limit)) if entry else None

    def streams(self, pk: int) -> list[StreamRow]:
        """Return the streams of a run, by name."""
        with self._lock:
            entry = self._tables.runs.get(pk)
            return entry.output.rows() if entry else []

    def values(self, pk: int) -> dict[str, bytes]:
        """Return what a run has published, by name."""
        with self._lock:
            entry = self._tables.runs.get(pk)
            return dict(sorted(entry.output.values.items())) if entry else {}

    # -- many runs -----------------------------------------------------------------

    def runs(self, filter: RunFilter, *, limit: int = 100, before: int | None = None) -> list[RunRow]:
        """Return runs, newest first, below the pk `before`."""
        with self._lock:
            newest = sorted(self._tables.runs.items(), reverse=True)
            found = [copy.copy(e.row) for pk, e in newest if (before is None or pk < before) and _fits(e.row, filter)]
            return found[: max(limit, 0)]

    def owned(self, worker: str) -> list[tuple[int, int]]:
        """Return (pk, claim) of every run that the worker owns."""
        with self._lock:
            return [(entry.pk, entry.row.claim) for entry in self._tables.owned(worker)]

    def inbox(self, worker: str, seen: Mapping[int, int] = NOTHING_SEEN) -> list[InboxRow]:
        """Return the inbox rows of all runs that the worker owns, in order, those that are seen left out."""
        with self._lock:
            rows = [row for entry in self._tables.owned(worker) for row in _unseen(entry, seen.get(entry.pk, 0))]
            return sorted(rows, key=lambda row: row.id)

    def approvals(self, filter: ApprovalFilter, *, limit: int = 100, after: int = 0) -> list[ApprovalRow]:
        """Return approvals, oldest first, above the pk `after`."""
        with self._lock:
            return approvals.approvals(self._tables, filter, limit, after)

    def next_due(self, workflows: Sequence[str], queues: Sequence[str] = (), worker: str = "") -> float | None:
        """Return when the next run of these workflows may be claimed."""
        with self._lock:
            now = self.now()
            rows = [row for row in self._tables.claimable(workflows) if not row.queue]
            first = min(
                (
                    min(row.due, now) if is_queued(row.status, row.claim, row.due, row.created) else row.due
                    for row in rows
                    if row.due is not None
                ),
                default=None,
            )
            on_queues = memory_queues.next_due(self._tables, workflows, queues, worker, now)
            return min((due for due in (first, on_queues) if due is not None), default=None)

    def queues(self, keys: int = 20) -> list[QueueState]:
        """Return what is on each queue, by name."""
        with self._lock:
            return memory_queues.queue_states(self._tables, keys)

    def early(self, run: str | None = None, *, limit: int = 100) -> list[EarlyRow]:
        """Return messages for runs that are still to be started, or for the one of this id, oldest first."""
        with self._lock:
            found = [
                EarlyRow(name, sent.key, at)
                for name, messages in self._tables.early.items()
                if run in (None, name)
                for at, sent in messages.values()
            ]
            return sorted(found, key=lambda row: row.created)[: max(limit, 0)]

    def ended(self, pks: Sequence[int]) -> list[RunRow]:
        """Return those of the runs that have ended or are stuck."""
        with self._lock:
            entries = [self._tables.runs[pk] for pk in sorted(set(pks)) if pk in self._tables.runs]
            done = ENDED | {Status.STUCK}
            return [copy.copy(entry.row) for entry in entries if entry.row.status in done]

    # -- what is to come -----------------------------------------------------------------

    def overdue(self, limit: int) -> list[RunRow]:
        """Return runs that nobody has begun by their deadlines."""
        with self._lock:
            now, rows = self.now(), [entry.row for entry in self._tables.runs.values()]
            late = [row for row in rows if row.status is Status.PENDING and row.started is None]
            return [copy.copy(row) for row in late if row.deadline is not None and row.deadline <= now][:limit]

    def schedules(self) -> list[ScheduleRow]:
        """Return all schedules, by name."""
        with self._lock:
            return schedules.schedules(self._tables)

    def next_slot(self, workflows: Sequence[str]) -> float | None:
        """Return when the next schedule of these workflows has something to do."""
        with self._lock:
            return schedules.next_slot(self._tables, workflows)

    def to_come(
        self, workflows: Sequence[str], queues: Sequence[str] = (), worker: str = ""
    ) -> tuple[float | None, float | None]:
        """Return what `next_due` and `next_slot` do."""
        with self._lock:
            return self.next_due(workflows, queues, worker), self.next_slot(workflows)

    # -- checkpoints -----------------------------------------------------------------

    def checkpoint(self, thread: str, ns: str, id: str | None = None) -> LoadedCheckpoint | None:
        """Return a checkpoint of a thread and namespace, or its head."""
        with self._lock:
            return checkpoints.checkpoint(self._tables, thread, ns, id)

    def checkpoints(
        self, filter: CheckpointFilter, *, limit: int = 100, below: int | None = None, bare: bool = False
    ) -> list[LoadedCheckpoint]:
        """Return checkpoints, newest first, below the pk `below`; `bare` without values and writes."""
        with self._lock:
            return checkpoints.checkpoints(self._tables, filter, limit, below, bare)

    def thread_sizes(self, thread: str) -> dict[str, int]:
        """Return how many bytes the values of each channel of a thread take."""
        with self._lock:
            return checkpoints.thread_sizes(self._tables, thread)

    # -- the rest --------------------------------------------------------------------

    def workers(self) -> list[WorkerRow]:
        """Return all known workers, newest first."""
        with self._lock:
            rows = [copy.copy(member.row) for member in self._tables.workers.values()]
            return sorted(rows, key=lambda row: (row.started, row.id), reverse=True)

    def owners(self) -> dict[str, int]:
        """Return how many runs each worker owns."""
        with self._lock:
            return Counter(e.row.owner for e in self._tables.runs.values() if e.row.owner is not None)

    def orphans(self) -> list[str]:
        """Return ids that own runs but have no `alive` worker row."""
        with self._lock:
            owners = {entry.row.owner for entry in self._tables.runs.values() if entry.row.owner is not None}
            alive = {name for name, m in self._tables.workers.items() if m.row.state is WorkerState.ALIVE}
            return sorted(owners - alive)

    def survey(self, workflows: Sequence[str], queues: Sequence[str] = (), worker: str = "") -> Survey:
        """Return the workers, the orphans, and when the next run of these workflows may be claimed."""
        with self._lock:
            due, slot = self.next_due(workflows, queues, worker), self.next_slot(workflows)
            return Survey(self.workers(), self.orphans(), due, slot, self.overdue(MOST_OVERDUE))

    def session(self) -> None:
        """Return None: there is no session that could drop."""
        return

    def dropped(self) -> list[str]:
        """Return nothing: there are no sessions."""
        return []

    def cut_off(self) -> list[str]:
        """Return nothing: there are no sessions."""
        return []

    def hear(self, listener: Callable[[], None] | None) -> None:
        """Do nothing: there are no hints."""

    def change(self) -> int:
        """Return a number that differs after something may have changed."""
        return self._changes

    stream_change = change

    def info(self) -> StoreInfo:
        """Return counts; there is no file and no version."""
        with self._lock:
            counts = Counter(str(entry.row.status) for entry in self._tables.runs.values())
            location = f"memory://{self._name}"
            return StoreInfo(
                kind="memory", location=location, schema_version=0, size_bytes=0, engine="memory", counts=dict(counts)
            )

    def check(self) -> list[str]:
        """Return nothing: no one can reach in and break it."""
        return []

    def close(self) -> None:
        """Do nothing: another part of the process may share this store."""


def _fits(row: RunRow, wanted: RunFilter) -> bool:
    exact = (
        (wanted.reason, row.reason),
        (wanted.workflow, row.workflow),
        (wanted.version, row.version),
        (wanted.owner, row.owner),
        (wanted.parent, row.parent),
        (wanted.held, row.held),
    )
    return (
        all(want is None or want == have for want, have in exact)
        and (wanted.statuses is None or row.status in wanted.statuses)
        and (wanted.id_prefix is None or row.id.startswith(wanted.id_prefix))
        and (wanted.created_after is None or row.created >= wanted.created_after)
        and (wanted.created_before is None or row.created < wanted.created_before)
        and (wanted.due_before is None or (row.due is not None and row.due < wanted.due_before))
    )


def _unseen(entry: Entry, seen: int) -> Iterator[InboxRow]:
    return takewhile(lambda row: row.id > seen, reversed(entry.inbox.values()))
