"""One transaction in the making: its connection, its time, what it has locked, and what it has looked at already.

**Few round trips.** `look` asks in one packet for all that the verbs of a batch will need; statements whose rows nobody
asks for are sent along with the next that has some.

**Locks** are taken in one order (see `schema`): workers, then runs by their keys, then what turns up on the way, from
children to parents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from outlast.core.records import RunRow, WorkerRow, WorkerState
from outlast.core.transitions import Status
from outlast.stores.postgres.address import Address
from outlast.stores.postgres.arrays import Ints, Texts
from outlast.stores.postgres.connections import Db, settings_of
from outlast.stores.postgres.inboxes import Inboxes
from outlast.stores.postgres.schema import WORKER_COLUMNS
from outlast.stores.postgres.times import Times
from outlast.stores.postgres.wants import FAMILY, Wants
from outlast.stores.rows import RUN_COLUMNS, TERMS_COLUMNS, Row, encode_forks, run_row, terms, worker_row
from outlast.stores.rules import Hold, hold, lease_lost, lost_claim
from outlast.stores.verbs import Fenced, Verb

FENCES_KEPT = 20_000

LEASES = "SELECT id, state, boot, lease_until, writer FROM workers WHERE id = ANY (%s) ORDER BY id FOR NO KEY UPDATE"
# Who takes over never waits: a row that is locked belongs to somebody who is writing, or who is taking over, too.
DEAD = "SELECT id FROM workers WHERE id = ANY (%s) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED"
LOCK_RUNS = "SELECT pk FROM runs WHERE pk = ANY (%s) ORDER BY pk FOR NO KEY UPDATE"
LOCK_RUNS_BY_NAME = "SELECT pk FROM runs WHERE pk = ANY (%s) OR id = ANY (%s) ORDER BY pk FOR NO KEY UPDATE"
FENCES = (
    "SELECT pk, status, holder, claim, crashes, (SELECT coalesce(max(seq), 0) FROM records WHERE run = pk), "
    "coalesce(parent, 0) FROM runs WHERE pk = ANY (%s)"
)
# By the hash of their ids, in the order of the hashes: whoever locks many of them meets others in the same order.
LOCK_THREADS = (
    "SELECT pg_advisory_xact_lock(hashtext('outlast thread ' || current_schema()), hash) "
    "FROM (SELECT DISTINCT hashtext(id) AS hash FROM unnest(%s::text[]) AS id ORDER BY 1) AS threads"
)
Lease = tuple[str, str, float]


class Again(Exception):
    """Another transaction came between the look and the leap: all is rolled back and done once more."""


class Fence(msgspec.Struct, gc=False):
    """What the fence of a run looks at. `look` is the number of the transaction that looked."""

    status: str
    holder: str
    claim: int
    crashes: int
    last_seq: int  # of the run's journal
    parent: int
    look: int


class Fences:
    """Fences that were looked at, kept from one transaction to the next as far as nobody else can change them.

    A run that is `running` changes only by its worker's hand, as long as the worker is `alive`, which each transaction
    sees for itself. And the worker writes through one store at a time: its row bears this one's `token`. (Where it
    bears another's, all is looked at again.)
    """

    def __init__(self, token: str) -> None:
        self.token = token
        self.runs: dict[int, Fence] = {}
        self.look = 0
        self._open = False

    @property
    def certain(self) -> bool:
        """Whether the transaction that began last was committed, so that what is known holds."""
        return not self._open

    def begin(self) -> int:
        """Start a transaction; return its number."""
        if self._open or len(self.runs) > FENCES_KEPT:
            self.runs.clear()
        self._open = True
        self.look += 1
        return self.look

    def committed(self) -> None:
        """Keep what is known: the transaction that began last is committed."""
        self._open = False


class Batch(Inboxes):
    """A transaction. `careful` says that each verb has a savepoint of its own, `session` where this process listens."""

    def __init__(self, db: Db, session: str, address: Address, times: Times, fences: Fences, *, careful: bool) -> None:
        self.db = db
        self.session = session
        self.careful = careful
        self.now = 0.0
        self.lease_now = 0.0
        self.boot = times.epoch()
        self.token = fences.token
        self.known: set[str] = set()  # ids that are to be started, and that there were before
        self.started: set[str] = set()  # ids that this transaction has started
        self.waited_for: dict[int, set[int]] = {}  # the runs besides the parent that wait for one that is to end
        self._address = address
        self._times = times
        self._fences = fences
        self._look = fences.begin()
        self._leases: dict[str, Lease | None] = {}
        self._mine: set[str] = set()  # workers alive, whose runs can be written only through this store
        self._free: set[str] = set()  # workers that are to be taken over and are not just writing
        self._locked: set[int] = set()

    def rows(self, sql: str, *values: Any) -> list[Row]:
        """Run a statement and return its rows."""
        return self.db.execute(sql, values, binary=True).fetchall()

    def row(self, sql: str, *values: Any) -> Row | None:
        """Run a statement and return its first row."""
        return self.db.execute(sql, values, binary=True).fetchone()

    def run_sql(self, sql: str, *values: Any) -> None:
        """Run a statement whose rows nobody wants."""
        self.db.execute(sql, values, binary=True)

    # -- looking -------------------------------------------------------------------

    def look(self, verbs: Sequence[Verb]) -> None:
        """Begin: say the settings, hear the time, lock what the verbs change, and read their fences."""
        wants = Wants()
        for verb in verbs:
            wants.add(verb)
        asked = self._times.boot()
        settings = settings_of(self._address.limits, writes=True)
        time = self.db.execute(
            f"SELECT {self._times.wall_sql()}, {self._times.lease_sql()}, {settings}",
            (self._address.search_path,),
            binary=True,
        )
        leases = self._ask(LEASES, wants.workers and Texts(sorted(wants.workers)))
        free = self._ask(DEAD, wants.dead and Texts(sorted(wants.dead)))
        if wants.ids:
            locked = self._ask(LOCK_RUNS_BY_NAME, Ints(sorted(wants.changes)), Texts(sorted(wants.ids)))
        else:
            locked = self._ask(LOCK_RUNS, wants.changes and Ints(sorted(wants.changes)))
        known = self._ask("SELECT id FROM runs WHERE id = ANY (%s)", wants.starts and Texts(wants.starts))
        waiters = self._ask(FAMILY, *[wants.ends and Ints(wants.ends)] * 2)
        self._ask(LOCK_THREADS, wants.threads and Texts(sorted(wants.threads)))
        self.now, self.lease_now = time.fetchall()[0][:2]
        self._times.heard(asked, self.lease_now)
        self._free = {row[0] for row in (free.fetchall() if free else ())}
        self._locked = {row[0] for row in (locked.fetchall() if locked else ())}
        self.known = {row[0] for row in (known.fetchall() if known else ())}
        for run, parent in waiters.fetchall() if waiters else ():
            self.waited_for.setdefault(run, set()).add(parent)
        self._take_leases(wants.workers, leases.fetchall() if leases else [])
        self._read_fences(wants.fences)

    def _ask(self, sql: str, *values: Any) -> Any:
        """Send a statement whose rows are fetched later; None where there is nothing to ask for."""
        return self.db.execute(sql, values, binary=True) if all(values) else None

    def _take_leases(self, workers: Iterable[str], rows: list[Row]) -> None:
        found = {row[0]: row for row in rows}
        for worker in workers:
            row = found.get(worker)
            self._leases[worker] = (row[1], row[2], row[3]) if row else None
            if row and row[4] != self.token:
                self._fences.runs.clear()
                self.run_sql("UPDATE workers SET writer = %s WHERE id = %s", self.token, worker)
            if row and row[1] == WorkerState.ALIVE:
                self._mine.add(worker)

    def _read_fences(self, runs: Iterable[int]) -> None:
        new = [pk for pk in runs if self._valid(pk) is None]
        if new:
            for pk, status, holder, claim, crashes, last_seq, parent in self.rows(FENCES, Ints(new)):
                self._fences.runs[pk] = Fence(status, holder, claim, crashes, last_seq, parent, self._look)

    def _valid(self, run: int) -> Fence | None:
        fence = self._fences.runs.get(run)
        if fence and (fence.look == self._look or (fence.status == "running" and fence.holder in self._mine)):
            return fence
        return None

    def lock_runs(self, runs: Iterable[int]) -> None:
        """Lock further runs, so that what is read of them next stays true."""
        new = sorted(set(runs) - self._locked)
        if new:
            self.rows(LOCK_RUNS, Ints(new))
            self._locked.update(new)

    # -- fences ------------------------------------------------------------------

    def worker(self, worker: str) -> WorkerRow | None:
        """Return a worker's row."""
        row = self.row(f"SELECT {WORKER_COLUMNS} FROM workers WHERE id = %s", worker)
        return worker_row(row) if row else None

    def is_busy(self, worker: str) -> bool:
        """Tell whether the row of a worker that is to be taken over could not be locked, if it is there."""
        if worker not in self._free and self.rows(DEAD, Texts([worker])):  # it was added by this transaction
            self._free.add(worker)
        return worker not in self._free

    def lease_lost(self, worker: str) -> str | None:
        """Return why the worker may write nothing, None while its lease holds."""
        if worker not in self._leases:
            self._take_leases([worker], self.rows(LEASES, Texts([worker])))
        return lease_lost(worker, self._leases[worker], self.lease_now, self.boot)

    def fence(self, run: int) -> Fence | None:
        """Return what the fence of a run looks at."""
        fence = self._valid(run)
        if fence is None:
            self._fences.runs.pop(run, None)
            self._read_fences([run])
        return fence or self._fences.runs.get(run)

    def owned(self, run: int, worker: str, claim: int) -> Fence | None:
        """Return the fence of a run that the worker owns by this claim and may write to."""
        fence = self.fence(run)
        if fence is None or fence.holder != worker or fence.claim != claim or fence.status != "running":
            return None
        return None if self.lease_lost(worker) else fence

    def hold(self, run: int, worker: str, claim: int) -> Hold | Fenced:
        """Return what a claim is worth; `Fenced` when it is not valid or the worker's lease is gone."""
        fence = self.fence(run)
        held = hold(fence.status, fence.holder, fence.claim, worker, claim) if fence else Hold.LOST
        if held is Hold.PAST or (held is Hold.OWNED and not self.lease_lost(worker)):
            return held
        return self.fenced(run, worker, claim)

    def fenced(self, run: int, worker: str, claim: int) -> Fenced:
        """Return the answer to a worker whose claim is no longer valid."""
        why = self.lease_lost(worker)
        return Fenced(why or lost_claim(run, worker, claim), worker_lost=why is not None)

    def know(self, run: int, *, holder: str, claim: int, parent: int | None) -> None:
        """Remember the fence of a run that this transaction has made, and that `holder` owns."""
        self._fences.runs[run] = Fence("running", holder, claim, 0, 0, parent or 0, self._look)

    def forget_lease(self, worker: str) -> None:
        """Look at a worker's lease again: the batch has changed it."""
        self._leases.pop(worker, None)

    def forget_run(self, run: int) -> None:
        """Look at a run's fence again: the batch has changed it."""
        self._fences.runs.pop(run, None)

    def forget_all(self) -> None:
        """Look at everything again: a worker, or many runs, changed, or a savepoint was rolled back."""
        self._fences.runs.clear()
        self._leases.clear()
        self._locked.clear()

    # -- runs --------------------------------------------------------------------

    def run(self, pk: int) -> RunRow:
        """Return the run of this key, which is there."""
        ((*row,),) = self.rows(f"SELECT {RUN_COLUMNS} FROM runs WHERE pk = %s", pk)
        return run_row(tuple(row))

    def run_by_id(self, id: str, *, lock: bool = False) -> RunRow | None:
        """Return the run of this id, locked on demand."""
        row = self.row(f"SELECT {RUN_COLUMNS} FROM runs WHERE id = %s{' FOR NO KEY UPDATE' if lock else ''}", id)
        return run_row(row) if row else None

    def insert_run(self, run: RunRow) -> int:
        """Add a new run, pending and due, and return its key."""
        added = self.row(
            "INSERT INTO runs (id, incarnation, workflow, definition, is_step, options, status, due, parent, "
            f"parent_key, forks, created, python, version, input, {TERMS_COLUMNS}) "
            "VALUES (%s, %s, %s, %s, %s, %s, 'pending', %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) "
            "ON CONFLICT DO NOTHING RETURNING pk",
            run.id,
            run.incarnation,
            run.workflow,
            run.definition,
            run.is_step,
            run.options,
            self.now if run.due is None else float(run.due),
            run.parent,
            run.parent_key,
            encode_forks(run.forks),
            self.now,
            run.python,
            run.version,
            run.input,
            *terms(run),
        )
        if added is None:
            raise Again
        self.started.add(run.id)
        return int(added[0])

    def end_run(self, pk: int, status: Status, detail: str) -> None:
        """Set what every end sets, and clear what only a living run needs. The run is locked."""
        self.run_sql(
            "UPDATE runs SET status = %s, ended = %s, detail = %s, owner = NULL, due = NULL, reason = NULL "
            "WHERE pk = %s",
            status.value,
            self.now,
            detail,
            pk,
        )
        self.run_sql("DELETE FROM inbox WHERE run = %s AND kind <> 'message'", pk)
        self.run_sql("DELETE FROM taken WHERE run = %s AND kind = 'cancel'", pk)
        self.withdraw_approvals(pk)
        self.forget_run(pk)

    def withdraw_approvals(self, pk: int) -> None:
        """Close what a run asks people, and what nobody has answered."""
        withdraw = "UPDATE approvals SET status = 'withdrawn', answered = %s WHERE run = %s AND status = 'open'"
        self.run_sql(withdraw, self.now, pk)
