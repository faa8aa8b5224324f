"""The store itself: what `outlast.stores.protocol.Store` promises, on a schema of a PostgreSQL database."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from outlast.core.errors import StoreUnavailable
from outlast.core.records import ApprovalRow, InboxRow, QueueState, Record, RunRow, WorkerRow
from outlast.core.schedule_rows import ScheduleRow
from outlast.stores.batches import answer
from outlast.stores.checkpoint_verbs import CheckpointFilter, LoadedCheckpoint
from outlast.stores.news import worth_telling
from outlast.stores.postgres import checkpoint_reads, reads, schedules, streams
from outlast.stores.postgres import queues as queue_reads
from outlast.stores.postgres.address import parse
from outlast.stores.postgres.appending import append
from outlast.stores.postgres.approvals import approvals
from outlast.stores.postgres.batch import Again, Batch, Fences
from outlast.stores.postgres.connections import BEGIN_WRITE, Connections, Db, Link, transaction
from outlast.stores.postgres.faults import REFUSALS
from outlast.stores.postgres.hints import Hints
from outlast.stores.postgres.renewing import renew
from outlast.stores.postgres.schema import prepare, version_of
from outlast.stores.postgres.times import ServerTimes, Times
from outlast.stores.postgres.verbs import apply
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
from outlast.stores.verbs import Answer, Beat, Register, Verb, Write

T = TypeVar("T")

log = logging.getLogger("outlast.store")
OPEN_AGAIN_S = 0.2
COME_BACK_AT_ONCE_S = 0.3


class PostgresStore:
    """Keeps runs in a PostgreSQL database; see `outlast.stores.protocol.Store`.

    `url` is libpq's, with `schema` as one more option. `times` is where times come from, by default the server. With
    `read_only`, or where the server is a standby, everything but `transact` works.
    """

    def __init__(self, url: str, clock: Clock, read_only: bool = False, *, times: Times | None = None) -> None:
        self.address = parse(url)
        self._times = times or ServerTimes(clock)
        self.now: Callable[[], float] = self._times.now
        self.lease_now: Callable[[], float] = self._times.lease_now
        self._connections = Connections(self.address, self._times)
        self._fences = Fences(secrets.token_hex(8))
        self._hints = Hints(self._connections)
        try:
            self._read_only = self._open(read_only)
        except BaseException:
            self._connections.close()
            raise

    def _open(self, read_only: bool) -> bool:
        """Have the tables there, and return whether they can only be read. Waits for the database as long as it may."""
        told, until = False, self._times.boot() + self.address.limits.open_timeout
        while True:
            try:
                return self._connections.write(lambda link: prepare(link.db, self.address, read_only=read_only))
            except StoreUnavailable as error:
                if self._times.boot() >= until:
                    raise
                if not told:
                    told = True
                    log.warning("waiting for the store, up to %g s: %s", self.address.limits.open_timeout, error)
                threading.Event().wait(OPEN_AGAIN_S)

    def lock_folder(self) -> None:
        """Return None: workers may be on any machine."""
        return

    def lease_epoch(self) -> str:
        """Return the name of the server's clock: there is one for all workers."""
        return self._times.epoch()

    def transact(self, verbs: Sequence[Verb]) -> list[Answer]:
        """Commit the verbs in one transaction and answer each, in order."""
        return answer(verbs, self._commit)

    def _commit(self, verbs: Sequence[Verb]) -> list[Answer]:
        for verb in verbs:
            if type(verb) is Register or type(verb) is Beat:
                self._hints.work_for(verb.worker.id if isinstance(verb, Register) else verb.worker)
        answers = self._committed(verbs)
        if any(map(worth_telling, verbs, answers)):
            self._hints.say()
        if any(type(verb) is Write and verb.emits for verb in verbs):
            self._hints.say(streams=True)
        return answers

    def _committed(self, verbs: Sequence[Verb]) -> list[Answer]:
        while True:
            try:
                return self._connections.write(lambda link: self._apply(link, verbs, careful=False))
            except Again:
                continue
            except REFUSALS:
                return self._connections.write(lambda link: self._apply(link, verbs, careful=True))

    def _apply(self, link: Link, verbs: Sequence[Verb], *, careful: bool) -> list[Answer]:
        session = self._hints.session
        if not careful:
            answers = renew(link, session, self.address, self._times, verbs)
            if answers is None:
                answers = append(link, self.address, self._times, self._fences, verbs)
            if answers is not None:
                return answers
        batch = Batch(link.db, session, self.address, self._times, self._fences, careful=careful)
        with transaction(link.db, BEGIN_WRITE, pipelined=not careful):
            answers = apply(batch, verbs)
        self._fences.committed()
        return answers

    def _ask(self, action: Callable[[Db], Callable[[], T]]) -> T:
        return self._connections.ask(action)

    def _read(self, action: Callable[[Db], T], *, long: bool = False) -> T:
        return self._connections.read(action, long=long)

    # -- one run -----------------------------------------------------------------

    def run(self, id: str) -> RunRow | None:
        """Return the run of this id."""
        return self._read(lambda db: reads.run(db, id))

    def run_by_pk(self, pk: int) -> RunRow | None:
        """Return the run of this key."""
        return self._read(lambda db: reads.run_by_pk(db, pk))

    def load(self, pks: Sequence[int]) -> list[Loaded]:
        """Return those of these runs that there are, in this order, each with its whole journal and inbox."""
        return self._read(lambda db: reads.load(db, pks))

    def records(self, pk: int, after: int = 0, limit: int | None = None) -> list[Record]:
        """Return records with a seq above `after`, in order."""
        return self._read(lambda db: reads.records(db, pk, after, limit))

    def stream(self, pk: int, name: str, after: int = 0, limit: int = 100) -> StreamPage | None:
        """Return what stands in a stream of a run after a position."""
        return self._read(lambda db: streams.stream(db, pk, name, after, limit))

    def streams(self, pk: int) -> list[StreamRow]:
        """Return the streams of a run, by name."""
        return self._read(lambda db: streams.streams(db, pk))

    def values(self, pk: int) -> dict[str, bytes]:
        """Return what a run has published, by name."""
        return self._read(lambda db: streams.values(db, pk))

    # -- many runs -----------------------------------------------------------------

    def runs(self, filter: RunFilter, *, limit: int = 100, before: int | None = None) -> list[RunRow]:
        """Return runs, newest first, below the pk `before`."""
        return self._read(lambda db: reads.runs(db, filter, limit, before), long=True)

    def owned(self, worker: str) -> list[tuple[int, int]]:
        """Return (pk, claim) of every run that the worker owns."""
        return self._read(lambda db: reads.owned(db, worker))

    def inbox(self, worker: str, seen: Mapping[int, int] = NOTHING_SEEN) -> list[InboxRow]:
        """Return the inbox rows of all runs that the worker owns, in order, those that are seen left out."""
        return self._read(lambda db: reads.inbox(db, worker, seen))

    def next_due(self, workflows: Sequence[str], queues: Sequence[str] = (), worker: str = "") -> float | None:
        """Return when the next run of these workflows may be claimed."""
        return self._ask(self._due(workflows, queues, worker))

    def _due(
        self, workflows: Sequence[str], queues: Sequence[str], worker: str
    ) -> Callable[[Db], Callable[[], float | None]]:
        now = self.now()

        def look(db: Db) -> Callable[[], float | None]:
            first = reads.next_due(db, workflows, now)
            on_queues = queue_reads.next_due(db, workflows, queues, worker, now) if queues else None
            return lambda: min((due for due in (first(), on_queues) if due is not None), default=None)

        return look

    def queues(self, keys: int = 20) -> list[QueueState]:
        """Return what is on each queue, by name."""
        return self._read(lambda db: queue_reads.queue_states(db, self.now(), keys), long=True)

    def approvals(self, filter: ApprovalFilter, *, limit: int = 100, after: int = 0) -> list[ApprovalRow]:
        """Return approvals, oldest first, above the pk `after`."""
        return self._read(lambda db: approvals(db, filter, limit, after, self.now()))

    def early(self, run: str | None = None, *, limit: int = 100) -> list[EarlyRow]:
        """Return messages for runs that are still to be started, or for the one of this id, oldest first."""
        return self._read(lambda db: reads.early(db, run, limit), long=True)

    def ended(self, pks: Sequence[int]) -> list[RunRow]:
        """Return those of the runs that have ended or are stuck."""
        return self._read(lambda db: reads.ended(db, pks))

    # -- what is to come -----------------------------------------------------------------

    def overdue(self, limit: int) -> list[RunRow]:
        """Return runs that nobody has begun by their deadlines."""
        return self._ask(lambda db: schedules.overdue(db, limit, self.now()))

    def schedules(self) -> list[ScheduleRow]:
        """Return all schedules, by name."""
        return self._read(schedules.schedules)

    def next_slot(self, workflows: Sequence[str]) -> float | None:
        """Return when the next schedule of these workflows has something to do."""
        return self._ask(lambda db: schedules.next_slot(db, workflows))

    def to_come(
        self, workflows: Sequence[str], queues: Sequence[str] = (), worker: str = ""
    ) -> tuple[float | None, float | None]:
        """Return what `next_due` and `next_slot` do, in one round trip where there are no queues."""
        due = self._due(workflows, queues, worker)

        def look(db: Db) -> Callable[[], tuple[float | None, float | None]]:
            slot, first = schedules.next_slot(db, workflows), due(db)
            return lambda: (first(), slot())

        return self._ask(look)

    # -- checkpoints -----------------------------------------------------------------

    def checkpoint(self, thread: str, ns: str, id: str | None = None) -> LoadedCheckpoint | None:
        """Return a checkpoint of a thread and namespace, or its head."""
        return self._read(lambda db: checkpoint_reads.checkpoint(db, thread, ns, id))

    def checkpoints(
        self, filter: CheckpointFilter, *, limit: int = 100, below: int | None = None, bare: bool = False
    ) -> list[LoadedCheckpoint]:
        """Return checkpoints, newest first, below the pk `below`; `bare` without values and writes."""
        return self._read(lambda db: checkpoint_reads.checkpoints(db, filter, limit, below, bare))

    def thread_sizes(self, thread: str) -> dict[str, int]:
        """Return how many bytes the values of each channel of a thread take."""
        return self._read(lambda db: checkpoint_reads.thread_sizes(db, thread))

    # -- the rest --------------------------------------------------------------------

    def workers(self) -> list[WorkerRow]:
        """Return all known workers, newest first."""
        return self._read(reads.workers)

    def owners(self) -> dict[str, int]:
        """Return how many runs each worker owns."""
        return self._read(reads.owners)

    def orphans(self) -> list[str]:
        """Return ids that own runs but have no `alive` worker row."""
        return self._read(reads.orphans)

    def survey(self, workflows: Sequence[str], queues: Sequence[str] = (), worker: str = "") -> Survey:
        """Return the workers, the orphans, and when the next run of these workflows may be claimed."""
        return self._ask(lambda db: reads.survey(db, workflows, self.now(), self._due(workflows, queues, worker)))

    def session(self) -> int:
        """Return a number that differs after the session in which this process listens has dropped."""
        return self._hints.drops

    def dropped(self) -> list[str]:
        """Return the workers whose sessions have ended and did not come back."""
        return sorted(self._hints.cut_off())

    def cut_off(self) -> list[str]:
        """Return the workers whose sessions have ended; who does not come back at once is likely to be dead."""
        ended = self._read(reads.cut_off)
        if ended:
            threading.Event().wait(COME_BACK_AT_ONCE_S)
            ended &= self._read(reads.cut_off)
        return sorted(ended)

    def hear(self, listener: Callable[[], None] | None) -> None:
        """Have `listener` called when another process says that it has committed something."""
        self._hints.listener = listener

    def change(self) -> int:
        """Return a number that differs after anybody has committed something. Asks nobody: a thread listens."""
        self._hints.start()
        return hash((self._hints.heard, self._hints.snapshot))

    def stream_change(self) -> int:
        """Return a number that differs after anybody has written to a stream; has the hints of it listened to."""
        return self._hints.stream_change()

    def info(self) -> StoreInfo:
        """Return version, size and counts."""
        return self._read(self._info, long=True)

    def _info(self, db: Db) -> StoreInfo:
        return StoreInfo(
            kind="postgresql",
            location=self.address.text,
            schema_version=version_of(db, self.address),
            size_bytes=reads.size_bytes(db),
            engine=f"PostgreSQL {db.info.parameter_status('server_version')}",
            counts=reads.counts(db),
            details={"read_only": self._read_only, "pooler": self._connections.pooled},
        )

    def check(self) -> list[str]:
        """Return what is wrong between the rows; [] is good."""
        return self._read(reads.check, long=True)

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        self._hints.close()
        self._connections.close()
