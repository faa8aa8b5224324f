"""The store itself: what `outlast.stores.protocol.Store` promises, on one SQLite file.

Commits are durable when `transact` returns: the write-ahead log is synced at
each one (`synchronous=FULL`). Pruned rows leave free pages, which prune hands
back to the file system piece by piece (`auto_vacuum=INCREMENTAL`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import apsw

from outlast.core.records import ApprovalRow, InboxRow, QueueState, Record, RunRow, WorkerRow
from outlast.core.schedule_rows import ScheduleRow
from outlast.stores.batches import answer
from outlast.stores.checkpoint_verbs import (
    CheckpointFilter,
    DeleteOrigins,
    DeleteThread,
    LoadedCheckpoint,
    PruneThread,
)
from outlast.stores.news import worth_telling
from outlast.stores.protocol import (
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
from outlast.stores.sqlite import checkpoint_reads, reads, schedules, streams
from outlast.stores.sqlite import queues as queue_reads
from outlast.stores.sqlite.approvals import approvals
from outlast.stores.sqlite.batch import Batch, Fences
from outlast.stores.sqlite.connections import Connections
from outlast.stores.sqlite.hints import Hints
from outlast.stores.sqlite.locks import describe_holder, write_lock_holder
from outlast.stores.sqlite.verbs import SURPRISES, apply
from outlast.stores.verbs import Answer, Prune, Verb

GIVING_BACK = frozenset({Prune, DeleteOrigins, DeleteThread, PruneThread})
VACUUM_PAGES = 500  # in one go, so that nobody waits long for the lock


class SqliteStore:
    """Keeps runs in a SQLite file; see `outlast.stores.protocol.Store`.

    `busy_s` is how long a write waits for other processes before it raises
    StoreUnavailable. With `read_only`, or where the file cannot be written,
    everything but `transact` works.
    """

    def __init__(self, path: str, clock: Clock, read_only: bool = False, *, busy_s: float = 10.0) -> None:
        self._clock = clock
        self.now: Callable[[], float] = clock.wall
        self.lease_now: Callable[[], float] = clock.boot
        self.lease_epoch: Callable[[], str] = clock.boot_id
        self._connections = Connections(path, read_only=read_only, busy_s=busy_s)
        self._fences = Fences()
        self._hints = Hints(f"{self.lock_folder()}/look")

    @property
    def path(self) -> str:
        """Return the file's absolute path."""
        return self._connections.file.path

    def lock_folder(self) -> str:
        """Return the folder beside the file where workers keep their lock files."""
        return f"{self.path}-workers"

    def transact(self, verbs: Sequence[Verb]) -> list[Answer]:
        """Commit the verbs in one transaction and answer each, in order."""
        answers = answer(verbs, self._commit)
        if any(map(worth_telling, verbs, answers)):
            self._hints.say()
        if not GIVING_BACK.isdisjoint(map(type, verbs)):
            self._give_back_space()
        return answers

    def _commit(self, verbs: Sequence[Verb]) -> list[Answer]:
        try:
            return self._apply(verbs, careful=False)
        except SURPRISES:
            return self._apply(verbs, careful=True)

    def _apply(self, verbs: Sequence[Verb], *, careful: bool) -> list[Answer]:
        def act(db: apsw.Connection) -> list[Answer]:
            return apply(Batch(db, self._clock, self._fences, self._connections.version, careful=careful), verbs)

        answers = self._connections.write(act)
        self._fences.committed()
        return answers

    def _give_back_space(self) -> None:
        while self._connections.write(_give_back_pages):
            pass

    # -- one run -----------------------------------------------------------------

    def run(self, id: str) -> RunRow | None:
        """Return the run of this id."""
        return self._connections.read(lambda db: reads.run(db, id))

    def run_by_pk(self, pk: int) -> RunRow | None:
        """Return the run of this key."""
        return self._connections.read(lambda db: reads.run_by_pk(db, pk))

    def load(self, pks: Sequence[int]) -> list[Loaded]:
        """Return those of these runs that there are, in this order, each with its whole journal and inbox."""
        return self._connections.read(lambda db: reads.load(db, pks))

    def records(self, pk: int, after: int = 0, limit: int | None = None) -> list[Record]:
        """Return records with a seq above `after`, in order."""
        return self._connections.read(lambda db: reads.records(db, pk, after, limit))

    def stream(self, pk: int, name: str, after: int = 0, limit: int = 100) -> StreamPage | None:
        """Return what stands in a stream of a run after a position."""
        return self._connections.read(lambda db: streams.stream(db, pk, name, after, limit))

    def streams(self, pk: int) -> list[StreamRow]:
        """Return the streams of a run, by name."""
        return self._connections.read(lambda db: streams.streams(db, pk))

    def values(self, pk: int) -> dict[str, bytes]:
        """Return what a run has published, by name."""
        return self._connections.read(lambda db: streams.values(db, pk))

    # -- many runs -----------------------------------------------------------------

    def runs(self, filter: RunFilter, *, limit: int = 100, before: int | None = None) -> list[RunRow]:
        """Return runs, newest first, below the pk `before`."""
        return self._connections.read(lambda db: reads.runs(db, filter, limit, before))

    def owned(self, worker: str) -> list[tuple[int, int]]:
        """Return (pk, claim) of every run that the worker owns."""
        return self._connections.read(lambda db: reads.owned(db, worker))

    def inbox(self, worker: str, seen: Mapping[int, int] = NOTHING_SEEN) -> list[InboxRow]:
        """Return the inbox rows of all runs that the worker owns, in order, those that are seen left out."""
        return self._connections.read(lambda db: reads.inbox(db, worker, seen))

    def next_due(self, workflows: Sequence[str], queues: Sequence[str] = (), worker: str = "") -> float | None:
        """Return when the next run of these workflows may be claimed."""
        return self._connections.read(self._due(workflows, queues, worker))

    def _due(
        self, workflows: Sequence[str], queues: Sequence[str], worker: str
    ) -> Callable[[apsw.Connection], float | None]:
        now = self.now()

        def look(db: apsw.Connection) -> float | None:
            first = reads.next_due(db, workflows, now)
            on_queues = queue_reads.next_due(db, workflows, queues, worker, now) if queues else None
            return min((due for due in (first, on_queues) if due is not None), default=None)

        return look

    def queues(self, keys: int = 20) -> list[QueueState]:
        """Return what is on each queue, by name."""
        return self._connections.read(lambda db: queue_reads.queue_states(db, self.now(), keys))

    def approvals(self, filter: ApprovalFilter, *, limit: int = 100, after: int = 0) -> list[ApprovalRow]:
        """Return approvals, oldest first, above the pk `after`."""
        return self._connections.read(lambda db: approvals(db, filter, limit, after, self.now()))

    def early(self, run: str | None = None, *, limit: int = 100) -> list[EarlyRow]:
        """Return messages for runs that are still to be started, or for the one of this id, oldest first."""
        return self._connections.read(lambda db: reads.early(db, run, limit))

    def ended(self, pks: Sequence[int]) -> list[RunRow]:
        """Return those of the runs that have ended or are stuck."""
        return self._connections.read(lambda db: reads.ended(db, pks))

    # -- what is to come -----------------------------------------------------------------

    def overdue(self, limit: int) -> list[RunRow]:
        """Return runs that nobody has begun by their deadlines."""
        return self._connections.read(lambda db: schedules.overdue(db, limit, self.now()))

    def schedules(self) -> list[ScheduleRow]:
        """Return all schedules, by name."""
        return self._connections.read(schedules.schedules)

    def next_slot(self, workflows: Sequence[str]) -> float | None:
        """Return when the next schedule of these workflows has something to do."""
        return self._connections.read(lambda db: schedules.next_slot(db, workflows))

    def to_come(
        self, workflows: Sequence[str], queues: Sequence[str] = (), worker: str = ""
    ) -> tuple[float | None, float | None]:
        """Return what `next_due` and `next_slot` do, from one snapshot."""
        due = self._due(workflows, queues, worker)
        return self._connections.read(lambda db: (due(db), schedules.next_slot(db, workflows)))

    # -- checkpoints -----------------------------------------------------------------

    def checkpoint(self, thread: str, ns: str, id: str | None = None) -> LoadedCheckpoint | None:
        """Return a checkpoint of a thread and namespace, or its head."""
        return self._connections.read(lambda db: checkpoint_reads.checkpoint(db, thread, ns, id))

    def checkpoints(
        self, filter: CheckpointFilter, *, limit: int = 100, below: int | None = None, bare: bool = False
    ) -> list[LoadedCheckpoint]:
        """Return checkpoints, newest first, below the pk `below`; `bare` without values and writes."""
        return self._connections.read(lambda db: checkpoint_reads.checkpoints(db, filter, limit, below, bare))

    def thread_sizes(self, thread: str) -> dict[str, int]:
        """Return how many bytes the values of each channel of a thread take."""
        return self._connections.read(lambda db: checkpoint_reads.thread_sizes(db, thread))

    # -- the rest --------------------------------------------------------------------

    def workers(self) -> list[WorkerRow]:
        """Return all known workers, newest first."""
        return self._connections.read(reads.workers)

    def owners(self) -> dict[str, int]:
        """Return how many runs each worker owns."""
        return self._connections.read(reads.owners)

    def orphans(self) -> list[str]:
        """Return ids that own runs but have no `alive` worker row."""
        return self._connections.read(reads.orphans)

    def survey(self, workflows: Sequence[str], queues: Sequence[str] = (), worker: str = "") -> Survey:
        """Return the workers, the orphans, and when the next run of these workflows may be claimed."""
        return self._connections.read(
            lambda db: reads.survey(db, workflows, self.now(), self._due(workflows, queues, worker))
        )

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
        """Have `listener` called when somebody, this process or another, has committed what others want to know."""
        self._hints.listen(listener)

    def change(self) -> int:
        """Return a number that differs after others have committed something; costs no transaction."""
        return self._connections.change()

    stream_change = change

    def info(self) -> StoreInfo:
        """Return version, size and counts."""
        return self._connections.read(self._info)

    def _info(self, db: apsw.Connection) -> StoreInfo:
        return StoreInfo(
            kind="sqlite",
            location=self.path,
            schema_version=db.pragma("user_version"),
            size_bytes=db.pragma("page_count") * db.pragma("page_size"),
            engine=f"SQLite {apsw.sqlite_lib_version()}",
            counts=reads.counts(db),
            details={
                "wal_bytes": _size_bytes(self.path + "-wal"),
                "free_pages": db.pragma("freelist_count"),
                "read_only": self._connections.file.read_only,
                "write_lock": describe_holder(self.path) if write_lock_holder(self.path) else "",
            },
        )

    def check(self) -> list[str]:
        """Return what is wrong with the file and between its rows; [] is good."""
        return self._connections.read(reads.check)

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        self._hints.close()
        self._connections.close()


def _give_back_pages(db: apsw.Connection) -> bool:
    """Give some free pages back to the file system; True when there are more."""
    db.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})").fetchall()
    return bool(db.pragma("freelist_count"))


def _size_bytes(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
