"""What the memory store holds, and the few things that several verbs do to it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from outlast.core.records import ApprovalRow, InboxRow, Kind, QueueRow, Record, RunRow, Standing, WorkerRow
from outlast.core.schedule_rows import ScheduleRow
from outlast.core.transitions import ENDED, Status
from outlast.stores.memory.streams import RunOutput
from outlast.stores.memory.threads import Thread
from outlast.stores.protocol import Clock
from outlast.stores.rows import as_started
from outlast.stores.rules import Hold, hold, lease_lost, lost_claim
from outlast.stores.verbs import Fenced, Resume, Send, TakenOver

LIVE = frozenset({Status.PENDING, Status.RUNNING, Status.WAITING})


@dataclass
class Entry:
    """One run with all there is of it."""

    row: RunRow
    holder: str = ""  # who claimed it last
    ask: str = ""  # the key of that claim
    resumed: Resume | None = None  # the last resume, to know it again
    records: dict[int, Record] = field(default_factory=dict)
    inbox: dict[int, InboxRow] = field(default_factory=dict)
    taken: set[tuple[Kind, str]] = field(default_factory=set)  # messages delivered, and cancellations in this life
    given_up: set[str] = field(default_factory=set)  # how its parent gave it up, in any life
    first: tuple[str, str, str, bytes] | None = None  # see `started_as`
    waiters: set[tuple[int, str]] = field(default_factory=set)  # (run, key) to tell besides the parent
    output: RunOutput = field(default_factory=RunOutput)

    @property
    def pk(self) -> int:
        """Return the run's key."""
        return self.row.pk

    def started_as(self) -> RunRow:
        """Return the run with the incarnation and call of its start, where it has continued as something else since."""
        return as_started(copy.copy(self.row), self.first)

    def journal(self) -> list[Record]:
        """Return the records in order."""
        return [self.records[seq] for seq in sorted(self.records)]

    def knows_child(self, key: str) -> bool:
        """Return whether the journal has the end of the child that this run knows as `key`."""
        return any(record.key == key and record.kind in (Kind.CHILD, Kind.LATE) for record in self.records.values())


@dataclass
class Member:
    """One worker. `taken_by` and `answer` are those of the verb that ended it, to know it again."""

    row: WorkerRow
    taken_by: str = ""
    answer: TakenOver = field(default_factory=lambda: TakenOver(()))


@dataclass
class Timetable:
    """One schedule. `ticked` and `started` are the key of its last tick and what that answered, to know it again."""

    row: ScheduleRow
    ticked: str = ""
    started: tuple[str, ...] = ()


@dataclass
class Use:
    """A moment at which something begins under a rate, or is to (not `taken`)."""

    name: str
    at: float
    amount: float
    key: str = ""
    taken: bool = False


class Tables:
    """All rows, and the clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.runs: dict[int, Entry] = {}
        self.ids: dict[str, int] = {}
        self.children: dict[int, set[int]] = {}  # by parent
        self.schedules: dict[str, Timetable] = {}
        self.workers: dict[str, Member] = {}
        # By run id and message id, each with its time: messages that came before their runs.
        self.early: dict[str, dict[str, tuple[float, Send]]] = {}
        self.approvals: dict[str, ApprovalRow] = {}
        self.last_approval = 0
        self.queues: dict[str, QueueRow] = {}
        self.uses: list[Use] = []
        self.threads: dict[str, Thread] = {}
        self.last_checkpoint = 0
        self.last_pk = 0
        self.last_inbox = 0

    # -- looking ---------------------------------------------------------------

    def by_id(self, id: str) -> Entry | None:
        """Return the run of this id."""
        return self.runs.get(self.ids.get(id, 0))

    def holder(self, workflow: str, dedup: str) -> Entry | None:
        """Return the run that holds this `dedup`, under its name or that under which it was started."""
        holds = [entry for entry in self.runs.values() if entry.row.dedup == dedup and entry.row.status not in ENDED]
        found = [entry for entry in holds if entry.row.workflow == workflow]
        found += [entry for entry in holds if entry.started_as().workflow == workflow]
        return found[0] if found else None

    def lease_lost(self, worker: str) -> str | None:
        """Return why the worker may write nothing, None while its lease holds."""
        row = self.workers[worker].row if worker in self.workers else None
        lease = (row.state, row.boot, row.lease_until) if row else None
        return lease_lost(worker, lease, self.clock.boot(), self.clock.boot_id())

    def give_up_keys(self, entry: Entry, *names: str) -> None:
        """Take `dedup` and `debounce` from a run that is to have them under these names, where another holds them."""
        row = entry.row
        for name in names:
            holder = self.holder(name, row.dedup) if row.dedup else None
            row.dedup = "" if holder not in (None, entry) else row.dedup
            for other in self.runs.values():
                waits = other.row.started is None and other.row.status not in ENDED
                if other is not entry and waits and (other.row.workflow, other.row.debounce) == (name, row.debounce):
                    row.debounce = ""

    def hold(self, run: int, worker: str, claim: int) -> Hold | Fenced:
        """Return what a claim is worth; `Fenced` when it is not valid or the worker's lease is gone."""
        entry = self.runs.get(run)
        held = hold(entry.row.status, entry.holder, entry.row.claim, worker, claim) if entry else Hold.LOST
        if held is Hold.PAST or (held is Hold.OWNED and not self.lease_lost(worker)):
            return held
        return self.fenced(run, worker, claim)

    def fenced(self, run: int, worker: str, claim: int) -> Fenced:
        """Return the answer to a worker whose claim is no longer valid."""
        why = self.lease_lost(worker)
        return Fenced(why or lost_claim(run, worker, claim), worker_lost=why is not None)

    def claimable(self, workflows: Sequence[str]) -> list[RunRow]:
        """Return the runs of these workflows that are not held back."""
        return [entry.row for entry in self.runs.values() if entry.row.workflow in workflows and not entry.row.held]

    def owned(self, worker: str) -> list[Entry]:
        """Return the runs that a worker owns, in order of their keys."""
        return [entry for pk, entry in sorted(self.runs.items()) if entry.row.owner == worker]

    # -- changing ----------------------------------------------------------------

    def next_checkpoint(self) -> int:
        """Return the key of a new checkpoint."""
        self.last_checkpoint += 1
        return self.last_checkpoint

    def insert(self, run: RunRow) -> Entry:
        """Add a new run, as pending and due; answers nothing about it yet."""
        self.last_pk += 1
        now = self.clock.wall()
        row = RunRow(
            pk=self.last_pk,
            id=run.id,
            incarnation=run.incarnation,
            workflow=run.workflow,
            definition=run.definition,
            is_step=run.is_step,
            input=run.input,
            options=run.options,
            due=now if run.due is None else run.due,
            parent=run.parent,
            parent_key=run.parent_key,
            forks=run.forks,
            created=now,
            python=run.python,
            version=run.version,
            queue=run.queue,
            queue_key=run.queue_key,
            priority=run.priority,
            dedup=run.dedup,
            debounce=run.debounce,
            deadline=run.deadline,
            outlives=run.outlives,
        )
        entry = Entry(row)
        self.runs[row.pk] = entry
        self.ids[row.id] = row.pk
        if row.parent is not None:
            self.children.setdefault(row.parent, set()).add(row.pk)
        for at, sent in self.early.pop(row.id, {}).values():
            self.put(entry, sent.kind, sent.key, sent.message_id, True, sent.value, at)
        return entry

    def has_had(self, entry: Entry, kind: Kind, message_id: str) -> bool:
        """Tell whether a message is in the inbox, or was."""
        return (kind, message_id) in entry.taken or any(
            row.kind == kind and row.message_id == message_id for row in entry.inbox.values()
        )

    def put(
        self,
        entry: Entry,
        kind: Kind,
        key: str,
        message_id: str,
        ok: bool,
        value: bytes | None,
        created: float | None = None,
    ) -> None:
        """Put a row in an inbox and make the run due, unless the same message is or was there."""
        if self.has_had(entry, kind, message_id):
            return
        self.last_inbox += 1
        entry.inbox[self.last_inbox] = InboxRow(
            id=self.last_inbox,
            run=entry.pk,
            kind=kind,
            key=key,
            message_id=message_id,
            ok=ok,
            value=value,
            created=self.clock.wall() if created is None else created,
        )
        self.wake(entry)

    def wake(self, entry: Entry) -> None:
        """Make a parked run due. One that is pending keeps its time: a start put off stays put off."""
        now = self.clock.wall()
        if entry.row.status is Status.WAITING and (entry.row.due is None or entry.row.due > now):
            entry.row.due = now

    def end(self, entry: Entry, status: Status) -> None:
        """Set what every end sets, and clear what only a living run needs."""
        row = entry.row
        row.status, row.ended = status, self.clock.wall()
        row.owner = row.due = row.reason = None
        entry.inbox = {pk: row for pk, row in entry.inbox.items() if row.kind is Kind.MESSAGE}
        self.withdraw_approvals(entry.pk)
        entry.taken = {(kind, message_id) for kind, message_id in entry.taken if kind is Kind.MESSAGE}

    def withdraw_approvals(self, pk: int) -> None:
        """Close what a run asks people, and what nobody has answered."""
        for name, approval in self.approvals.items():
            if approval.run == pk and approval.status is Standing.OPEN:
                self.approvals[name] = replace(approval, status=Standing.WITHDRAWN, answered=self.clock.wall())

    def parents(self, child: Entry) -> list[tuple[Entry, str]]:
        """Return the runs that wait for a child and have not ended, each with the key that it knows the child by."""
        told = set(child.waiters)
        if child.row.parent is not None:
            told.add((child.row.parent, child.row.parent_key))
        found = [(self.runs[pk], key) for pk, key in sorted(told) if pk in self.runs]
        return [(entry, key) for entry, key in found if entry.row.status not in ENDED]

    def tell(self, child: Entry, parent: Entry, key: str) -> None:
        """Put the child's end in a parent's inbox; a row of an earlier end that is still there gets the new one."""
        row, message_id = child.row, f"{child.row.incarnation}:{key}"
        ok = row.status is Status.SUCCEEDED
        value = row.result if ok else row.error
        for row_id, old in parent.inbox.items():
            if old.kind is Kind.CHILD and old.message_id == message_id:
                parent.inbox[row_id] = replace(old, ok=ok, value=value)
                return
        self.put(parent, Kind.CHILD, key, message_id, ok, value)

    def tell_parents(self, child: Entry) -> tuple[int, ...]:
        """Tell all who wait for a child that it has ended; return those that this gives something to do."""
        for parent, key in self.parents(child):
            if not (child.resumed and parent.knows_child(key)):
                self.tell(child, parent, key)
        return self.woken_parents(child)

    def woken_parents(self, child: Entry) -> tuple[int, ...]:
        """Return who has something to do since the child ended."""
        return tuple(sorted({parent.pk for parent, _ in self.parents(child) if parent.row.status in LIVE}))
