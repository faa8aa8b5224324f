"""One transaction in the making: its connection, its time, and what it has looked at already.

The fence of a worker or run is read once and then remembered: nobody else can
change it while the transaction holds the write lock, and what the batch itself
changes it forgets here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import apsw
import msgspec

from outlast.core.records import InboxRow, Kind, RunRow, WorkerRow
from outlast.core.transitions import Status
from outlast.stores.protocol import Clock
from outlast.stores.rows import TERMS_COLUMNS, WORKER_COLUMNS, Row, encode_forks, run_row, terms, worker_row
from outlast.stores.rules import Hold, hold, lease_lost, lost_claim
from outlast.stores.sqlite.schema import RUN_COLUMNS
from outlast.stores.verbs import Fenced

FENCES_KEPT = 5_000
LIVE = ("pending", "running", "waiting")


class Surprise(Exception):
    """Something is not as the fast path supposes: the batch is rolled back and applied verb by verb."""


class Fence(msgspec.Struct, gc=False):
    """What the fence of a run looks at."""

    status: str
    holder: str
    claim: int
    crashes: int
    last_seq: int  # of the run's journal


class Fences:
    """Fences that were looked at, kept from one transaction to the next while nobody else has committed anything.

    SQLite answers that question (`Connections.version`). What a transaction itself
    changes, its verbs forget; when it does not commit, all is forgotten.
    """

    def __init__(self) -> None:
        self.leases: dict[str, tuple[str, str, float] | None] = {}
        self.runs: dict[int, Fence | None] = {}
        self._version = -1
        self._open = False

    def begin(self, version: int) -> None:
        """Forget what may no longer hold, at the start of a transaction that has the write lock.

        `version` is that of what others have committed.
        """
        if self._open or version != self._version or len(self.runs) > FENCES_KEPT:
            self.forget_all()
        self._version, self._open = version, True

    def committed(self) -> None:
        """Keep what is known: the transaction that began last is committed."""
        self._open = False

    def forget_all(self) -> None:
        """Look at everything again."""
        self.leases.clear()
        self.runs.clear()


class Batch:
    """A transaction that holds the write lock. `careful` says that each verb has a savepoint of its own."""

    def __init__(self, db: apsw.Connection, clock: Clock, fences: Fences, version: int, *, careful: bool) -> None:
        self.db = db
        self.careful = careful
        self.now = clock.wall()  # read after the lock was got: waiting for it may have taken long
        self.lease_now = clock.boot()
        self.boot = clock.boot_id()
        self._fences = fences
        self._why: dict[str, str | None] = {}  # by worker: why it may write nothing
        fences.begin(version)

    def rows(self, sql: str, *values: Any) -> list[Row]:
        """Run a statement to its end and return its rows."""
        return self.db.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> Row | None:
        """Run a statement to its end and return its first row."""
        found = self.db.execute(sql, values).fetchall()
        return found[0] if found else None

    # -- fences ------------------------------------------------------------------

    def worker(self, worker: str) -> WorkerRow | None:
        """Return a worker's row."""
        row = self.row(f"SELECT {WORKER_COLUMNS} FROM workers WHERE id = ?", worker)
        return worker_row(row) if row else None

    def lease_lost(self, worker: str) -> str | None:
        """Return why the worker may write nothing, None while its lease holds."""
        if worker not in self._why:
            leases = self._fences.leases
            if worker not in leases:
                row = self.row("SELECT state, boot, lease_until FROM workers WHERE id = ?", worker)
                leases[worker] = (row[0], row[1], row[2]) if row else None
            self._why[worker] = lease_lost(worker, leases[worker], self.lease_now, self.boot)
        return self._why[worker]

    def fence(self, run: int) -> Fence | None:
        """Return what the fence of a run looks at."""
        runs = self._fences.runs
        if run not in runs:
            row = self.row(
                "SELECT status, holder, claim, crashes, (SELECT coalesce(max(seq), 0) FROM records WHERE run = pk) "
                "FROM runs WHERE pk = ?",
                run,
            )
            runs[run] = Fence(*row) if row else None
        return runs[run]

    def owned(self, run: int, worker: str, claim: int) -> Fence | None:
        """Return the fence of a run that the worker owns by this claim and may write to, in as few steps as can be."""
        fence = self._fences.runs.get(run) or self.fence(run)
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

    def know(self, run: int, fence: Fence) -> None:
        """Remember the fence of a run that this transaction has made."""
        self._fences.runs[run] = fence

    def forget_run(self, run: int) -> None:
        """Look at a run's fence again: the batch has changed it."""
        self._fences.runs.pop(run, None)

    def forget_all(self) -> None:
        """Look at every fence again: a worker, or many runs, changed, or a savepoint was rolled back."""
        self._fences.forget_all()
        self._why.clear()

    # -- runs --------------------------------------------------------------------

    def run(self, pk: int) -> RunRow:
        """Return the run of this key, which is there."""
        (row,) = self.rows(f"SELECT {RUN_COLUMNS} FROM runs WHERE pk = ?", pk)
        return run_row(row)

    def run_by_id(self, id: str) -> RunRow | None:
        """Return the run of this id."""
        row = self.row(f"SELECT {RUN_COLUMNS} FROM runs WHERE id = ?", id)
        return run_row(row) if row else None

    def insert_run(self, run: RunRow) -> int:
        """Add a new run, pending and due, and return its key."""
        ((pk,),) = self.rows(
            "INSERT INTO runs (id, incarnation, workflow, definition, is_step, options, status, due, parent, "
            "parent_key, forks, created, python, version) "
            "VALUES (?, ?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?) RETURNING pk",
            run.id,
            run.incarnation,
            run.workflow,
            run.definition,
            run.is_step,
            run.options,
            self.now if run.due is None else run.due,
            run.parent,
            run.parent_key,
            encode_forks(run.forks),
            self.now,
            run.python,
            run.version,
        )
        if any(terms(run)):
            sets = ", ".join(f"{name} = ?" for name in TERMS_COLUMNS.split(", "))
            self.db.execute(f"UPDATE runs SET {sets} WHERE pk = ?", (*terms(run), pk))
        if run.input:
            self.db.execute("INSERT INTO inputs (run, input) VALUES (?, ?)", (pk, run.input))
        return int(pk)

    def end_run(self, pk: int, status: Status, detail: str) -> None:
        """Set what every end sets, and clear what only a living run needs."""
        self.db.execute(
            "UPDATE runs SET status = ?, ended = ?, detail = ?, owner = NULL, due = NULL, reason = NULL WHERE pk = ?",
            (status, self.now, detail, pk),
        )
        self.db.execute("DELETE FROM inbox WHERE run = ? AND kind <> 'message'", (pk,))
        self.db.execute("DELETE FROM taken WHERE run = ? AND kind = 'cancel'", (pk,))
        self.withdraw_approvals(pk)
        self.forget_run(pk)

    def withdraw_approvals(self, pk: int) -> None:
        """Close what a run asks people, and what nobody has answered."""
        self.db.execute(
            "UPDATE approvals SET status = 'withdrawn', answered = ? WHERE run = ? AND status = 'open'", (self.now, pk)
        )

    # -- inboxes -----------------------------------------------------------------

    def put(self, row: InboxRow) -> None:
        """Put a row in an inbox and make the run due, unless the same message is or was there.

        It was made now, unless it says when.
        """
        added = self.rows(
            "INSERT INTO inbox (run, kind, key, message_id, ok, value, created) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 "
            "WHERE NOT EXISTS (SELECT 1 FROM inbox WHERE run = ?1 AND kind = ?2 AND message_id = ?4) "
            "AND NOT EXISTS (SELECT 1 FROM taken WHERE run = ?1 AND kind = ?2 AND message_id = ?4) RETURNING id",
            row.run,
            row.kind,
            row.key,
            row.message_id,
            row.ok,
            row.value,
            row.created or self.now,
        )
        if added:
            # A run that is pending keeps its time: a start that was put off stays put off.
            self.db.execute(
                "UPDATE runs SET due = ?1 WHERE pk = ?2 AND status = 'waiting' AND (due IS NULL OR due > ?1)",
                (self.now, row.run),
            )

    def deliver_rows(self, run: int, rows: Iterable[int]) -> None:
        """Delete inbox rows that a run has taken, and remember the messages."""
        for row_id in rows:
            self.db.execute(
                "INSERT OR IGNORE INTO taken (run, kind, message_id) "
                "SELECT run, kind, message_id FROM inbox WHERE id = ? AND run = ? AND kind <> 'child'",
                (row_id, run),
            )
            self.db.execute("DELETE FROM inbox WHERE id = ? AND run = ?", (row_id, run))

    def has_had(self, run: int, kind: Kind, message_id: str) -> bool:
        """Tell whether a message is in a run's inbox, or was."""
        return bool(
            self.rows(
                "SELECT 1 FROM inbox WHERE run = ?1 AND kind = ?2 AND message_id = ?3 "
                "UNION ALL SELECT 1 FROM taken WHERE run = ?1 AND kind = ?2 AND message_id = ?3",
                run,
                kind,
                message_id,
            )
        )

    def deliver_early(self, runs: Mapping[str, int]) -> set[int]:
        """Give runs that are new, by their ids, the messages that came before them; return which had any."""
        had = set[int]()
        if not self.rows("SELECT 1 FROM early LIMIT 1"):
            return had
        for run_id, pk in runs.items():
            early = self.rows("SELECT key, message_id, value, created FROM early WHERE run_id = ? ORDER BY id", run_id)
            for key, message_id, value, sent in early:
                self.put(
                    InboxRow(
                        id=0,
                        run=pk,
                        kind=Kind.MESSAGE,
                        key=key,
                        message_id=message_id,
                        value=value,
                        created=sent,
                    )
                )
                had.add(pk)
            if early:
                self.db.execute("DELETE FROM early WHERE run_id = ?", (run_id,))
        return had

    def tell(self, child: RunRow, parent: int, key: str) -> None:
        """Put a child's end in a parent's inbox; a row of an earlier end that is still there gets the new one."""
        ok = child.status == Status.SUCCEEDED
        value = child.result if ok else child.error
        message_id = f"{child.incarnation}:{key}"
        told = self.rows(
            "UPDATE inbox SET ok = ?, value = ? WHERE run = ? AND kind = 'child' AND message_id = ? RETURNING id",
            ok,
            value,
            parent,
            message_id,
        )
        if not told:
            self.put(InboxRow(id=0, run=parent, kind=Kind.CHILD, key=key, message_id=message_id, ok=ok, value=value))

    def knows_child(self, parent: int, key: str) -> bool:
        """Return whether a parent's journal has the end of the child that it knows as `key`. Reads all of it."""
        return bool(
            self.rows(
                "SELECT 1 FROM records WHERE run = ? AND key = ? AND kind IN ('child', 'late') LIMIT 1", parent, key
            )
        )

    def parents(self, child: RunRow) -> list[tuple[int, str, str]]:
        """Return (run, the key that it knows the child by, its status) of those that wait for it and have not ended."""
        return [
            (pk, key, status)
            for pk, key, status in self.rows(
                "SELECT p.pk, w.parent_key, p.status FROM (SELECT parent, parent_key FROM waiters WHERE run = ?1 "
                "UNION SELECT ?2, ?3) AS w JOIN runs AS p ON p.pk = w.parent WHERE p.ended IS NULL "
                "ORDER BY p.pk, w.parent_key",
                child.pk,
                child.parent,
                child.parent_key,
            )
        ]

    def tell_parents(self, child: RunRow) -> tuple[int, ...]:
        """Tell all who wait for a child that it has ended; return those that this gives something to do."""
        ((resumed,),) = self.rows("SELECT resumed FROM runs WHERE pk = ?", child.pk)
        parents = self.parents(child)
        for pk, key, _ in parents:
            if not (resumed and self.knows_child(pk, key)):
                self.tell(child, pk, key)
        return _live(parents)

    def woken_parents(self, child: RunRow) -> tuple[int, ...]:
        """Return who has something to do since the child ended."""
        return _live(self.parents(child))


def _live(parents: list[tuple[int, str, str]]) -> tuple[int, ...]:
    return tuple(sorted({pk for pk, _, status in parents if status in LIVE}))
