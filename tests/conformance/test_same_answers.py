"""The same verbs in any order give the same answers on every store, and leave the same rows.

Memory is the reference. Each other store is used through two faces in turn, as
two processes would, so that what one of them remembers is put to the test.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from outlast.core.records import Fork, Kind, Record, RunRow, WorkerRow, WorkerState
from outlast.core.transitions import Reason, Status
from outlast.stores.memory import MemoryStore
from outlast.stores.protocol import RunFilter, Store
from outlast.stores.sqlite import SqliteStore
from outlast.stores.verbs import (
    Beat,
    Cancel,
    Claim,
    Finish,
    ForkRun,
    Leave,
    Park,
    Prune,
    Register,
    Release,
    Resolve,
    Resume,
    Send,
    StartRun,
    Stick,
    TakeOver,
    Verb,
    Write,
)
from tests.conformance.world import SetClock, memory_folder
from tests.support.postgres import empty_store_url, open_with_given_times

FLOWS = ("flow", "other")
NAMES = ("a", "b", "c", "d")
KEYS = ("main/x#1", "main/y#1")

workers = st.integers(1, 3)  # slots, each with the worker that was registered there last
names = st.sampled_from(NAMES)
keys = st.sampled_from(KEYS)
pks = st.integers(0, 5)  # which of the runs there are
# Mostly what the run really has, so that many verbs are legal; sometimes off by one, so that many are not.
off = st.sampled_from([0, 0, 0, 0, 0, 1, -1])
seldom = st.integers(0, 4)  # 0 is the time to do it
values = st.sampled_from([None, b"", b"1"])
kinds = st.sampled_from([Kind.STEP, Kind.CHILD, Kind.LATE, Kind.INTENT, Kind.ATTEMPT, Kind.MESSAGE])


class SameAnswers(RuleBasedStateMachine):
    """Applies each verb to the reference and, through one of two faces, to another store."""

    def open_faces(self) -> list[Store]:
        """Return two faces of one empty store."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=memory_folder()))
        self.clock = SetClock()
        self.memory = MemoryStore(self.clock)
        self.faces = self.open_faces()
        self.batch: list[Verb] = []
        self.last: list[Verb] = []
        self.started = 0
        self.slots = {1: 0, 2: 0, 3: 0}

    def teardown(self) -> None:
        try:
            assert self.faces[0].check() == []
        finally:
            for face in self.faces:
                face.close()
            shutil.rmtree(self.folder)

    # -- the two sides -----------------------------------------------------------

    @rule(face=st.integers(0, 1))
    @precondition(lambda self: self.batch)
    def commit(self, face: int) -> None:
        self.last, self.batch = self.batch, []
        self._apply(face, self.last)

    @rule(face=st.integers(0, 1))
    @precondition(lambda self: self.last and not self.batch)
    def the_answer_was_lost_and_all_is_sent_again(self, face: int) -> None:
        self._apply(face, self.last)

    def _apply(self, face: int, verbs: list[Verb]) -> None:
        expected = self.memory.transact(verbs)
        assert self.faces[face].transact(verbs) == expected
        for store in self.faces:
            self._compare(store)

    def _compare(self, store: Store) -> None:
        runs = self.memory.runs(RunFilter())
        assert store.runs(RunFilter()) == runs
        assert [store.load(run.pk) for run in runs] == [self.memory.load(run.pk) for run in runs]
        assert store.workers() == self.memory.workers()
        assert store.owners() == self.memory.owners()
        assert store.orphans() == self.memory.orphans()
        assert store.next_due(FLOWS) == self.memory.next_due(FLOWS)
        assert store.ended(range(20)) == self.memory.ended(range(20))
        assert store.info().counts == self.memory.info().counts
        for worker in (row.id for row in self.memory.workers()):
            assert store.owned(worker) == self.memory.owned(worker)
            assert store.inbox(worker) == self.memory.inbox(worker)

    @rule(seconds=st.sampled_from([0.5, 10.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(often=seldom)
    def the_machine_restarts(self, often: int) -> None:
        if often:
            return
        self.clock.boot_name = f"boot-{self.clock.wall_s}"
        self.clock.boot_s = 1.0

    # -- looking, so that verbs fit ------------------------------------------------

    def _worker(self, slot: int) -> str:
        return f"w{slot}.{self.slots[slot]}"

    def _run(self, which: int) -> RunRow:
        runs = self.memory.runs(RunFilter())
        return runs[which % len(runs)] if runs else RunRow(pk=1, id="?", incarnation="?", workflow="flow")

    def _last_seq(self, pk: int) -> int:
        records = self.memory.records(pk)
        return records[-1].seq if records else 0

    def _owner(self, run: RunRow, slot: int, off: int) -> dict[str, Any]:
        return {"worker": run.owner or self._worker(slot), "run": run.pk, "claim": run.claim + off}

    def _new(self, id: str, workflow: str, value: bytes | None, **fields: Any) -> RunRow:
        self.started += 1
        return RunRow(pk=0, id=id, incarnation=f"inc-{self.started}", workflow=workflow, input=value or b"", **fields)

    # -- verbs ---------------------------------------------------------------------

    @initialize()
    def somebody_works(self) -> None:
        for slot in self.slots:
            self.register(slot)
        claim = Claim(worker=self._worker(1), workflows=FLOWS, limit=2)
        self.batch += [*(StartRun(run=self._new(name, "flow", b"")) for name in NAMES[:3]), claim]
        self.commit(0)

    @rule(worker=workers, serves=st.sampled_from([None, (), ("flow",)]))
    def register(self, worker: int, serves: tuple[str, ...] | None = None) -> None:
        rows = {row.id: row for row in self.memory.workers()}
        row = rows.get(self._worker(worker))
        if row and (row.state is not WorkerState.ALIVE or row.boot != self.clock.boot_id()):
            self.slots[worker] += 1  # a new process has a new id
        self.batch.append(Register(worker=WorkerRow(id=self._worker(worker), pid=1, serves=serves), lease_s=30.0))

    @rule(worker=workers)
    def beat(self, worker: int) -> None:
        self.batch.append(Beat(worker=self._worker(worker), lease_s=30.0))

    @rule()
    def everybody_goes_on(self) -> None:
        for slot in self.slots:
            self.register(slot)
            self.batch.append(Claim(worker=self._worker(slot), workflows=FLOWS, limit=2))

    @rule(worker=workers, often=seldom)
    def leave(self, worker: int, often: int) -> None:
        if often:
            return
        self.batch.append(Leave(worker=self._worker(worker)))

    @rule(worker=workers, dead=workers, gone=st.booleans(), max_crashes=st.sampled_from([1, 2, 10]))
    def take_over(self, worker: int, dead: int, gone: bool, max_crashes: int) -> None:
        worker_id, dead_id = self._worker(worker), self._worker(dead)
        self.batch.append(TakeOver(worker=worker_id, dead=dead_id, gone=gone, max_crashes=max_crashes))

    @rule(worker=workers, limit=st.integers(0, 3), key=st.sampled_from(["", "", "k1", "k2"]))
    def claim(self, worker: int, limit: int, key: str) -> None:
        claim = Claim(worker=self._worker(worker), workflows=FLOWS, limit=limit, key=key, version=key)
        self.batch.append(claim)

    @rule(
        id=names,
        workflow=st.sampled_from(FLOWS),
        value=values,
        worker=st.none() | workers,
        due=st.sampled_from([None, None, 5.0]),
        parent=st.none() | pks,
        key=keys,
        off=off,
        fenced=st.booleans(),
    )
    def start(
        self,
        id: str,
        workflow: str,
        value: bytes | None,
        worker: int | None,
        due: float | None,
        parent: int | None,
        key: str,
        off: int,
        fenced: bool,
    ) -> None:
        fields: dict[str, Any] = {"due": due + self.clock.wall()} if due else {}
        fence: dict[str, Any] = {}
        if parent is not None:
            run = self._run(parent)
            fields |= {"parent": run.pk, "parent_key": key}
            owner = self._owner(run, 1, off)
            fence = {"parent_worker": owner["worker"], "parent_claim": owner["claim"]} if fenced else {}
        claim_by = self._worker(worker) if worker else None
        self.batch.append(StartRun(run=self._new(id, workflow, value, **fields), claim_by=claim_by, **fence))

    @rule(
        pk=pks,
        worker=workers,
        claim_off=off,
        seq_off=off,
        contents=st.lists(st.tuples(kinds, keys, values, st.integers(0, 2)), max_size=3),
        consumes=st.booleans(),
        note=st.sampled_from(["", "", "", "\0"]),
    )
    def write(
        self,
        pk: int,
        worker: int,
        claim_off: int,
        seq_off: int,
        contents: list[tuple[Kind, str, bytes | None, int]],
        consumes: bool,
        note: str,
    ) -> None:
        run = self._run(pk)
        seq = self._last_seq(run.pk) + seq_off
        records = tuple(
            Record(seq=seq + n, kind=kind, key=key, at=self.clock.wall(), value=value, attempt=attempt, note=note)
            for n, (kind, key, value, attempt) in enumerate(contents, 1)
        )
        loaded = self.memory.load(run.pk)
        taken = tuple(row.id for row in loaded.inbox[:1]) if loaded and consumes else ()
        self.batch.append(Write(**self._owner(run, worker, claim_off), records=records, consumes=taken))

    @rule(pk=pks, worker=workers, off=off, due=st.sampled_from([None, 0.0, 20.0]), ignoring=st.booleans())
    def park(self, pk: int, worker: int, off: int, due: float | None, ignoring: bool) -> None:
        run = self._run(pk)
        loaded = self.memory.load(run.pk)
        ignored = tuple(row.id for row in loaded.inbox) if loaded and ignoring else ()
        when = None if due is None else self.clock.wall() + due
        self.batch.append(Park(**self._owner(run, worker, off), due=when, detail="d", ignoring=ignored))

    @rule(pk=pks, worker=workers, off=off)
    def release(self, pk: int, worker: int, off: int) -> None:
        self.batch.append(Release(**self._owner(self._run(pk), worker, off)))

    @rule(pk=pks, worker=workers, off=off, reason=st.sampled_from(Reason))
    def stick(self, pk: int, worker: int, off: int, reason: Reason) -> None:
        self.batch.append(Stick(**self._owner(self._run(pk), worker, off), reason=reason, detail="why"))

    @rule(
        pk=pks,
        worker=workers,
        claim_off=off,
        seq_off=off,
        status=st.sampled_from([Status.SUCCEEDED, Status.FAILED, Status.FAILED, Status.CANCELLED, Status.STUCK]),
        value=values,
    )
    def finish(self, pk: int, worker: int, claim_off: int, seq_off: int, status: Status, value: bytes | None) -> None:
        run = self._run(pk)
        last_seq = self._last_seq(run.pk) + seq_off
        self.batch.append(
            Finish(**self._owner(run, worker, claim_off), status=status, last_seq=last_seq, result=value, error=value)
        )

    @rule(order=st.permutations(range(5)), status=st.sampled_from([Status.SUCCEEDED, Status.FAILED]), off=off)
    def many_finish_at_once(self, order: list[int], status: Status, off: int) -> None:
        running = [run for run in self.memory.runs(RunFilter()) if run.owner]
        for run in (running[place] for place in order if place < len(running)):
            last_seq = self._last_seq(run.pk)
            added = Record(seq=last_seq + 1, kind=Kind.STEP, key=KEYS[0], at=1.0)
            owner = self._owner(run, 1, off)
            self.batch.append(Write(**owner, records=(added,)))
            self.batch.append(Finish(**owner, status=status, last_seq=last_seq + 1, result=b"1"))

    @rule(flow=st.sampled_from(FLOWS), worker=workers, parent=pks, some=st.lists(names, min_size=2, max_size=4))
    def many_start_at_once(self, flow: str, worker: int, parent: int, some: list[str]) -> None:
        run = self._run(parent)
        family = {"parent": run.pk, "parent_key": KEYS[0]}
        fence = {"parent_worker": run.owner, "parent_claim": run.claim} if run.owner else {}
        self.batch += [
            StartRun(run=self._new(name, flow, None, **family), claim_by=self._worker(worker), **fence) for name in some
        ]

    @rule(
        id=names, kind=st.sampled_from([Kind.MESSAGE, Kind.MESSAGE, Kind.CHILD, Kind.STEP]), message=keys, value=values
    )
    def send(self, id: str, kind: Kind, message: str, value: bytes | None) -> None:
        self.batch.append(Send(id=id, kind=kind, key="k", message_id=message, value=value))

    @rule(id=names, by=st.sampled_from(["", "ann"]), parent=st.none() | pks, message=st.sampled_from(["", "a", "b"]))
    def cancel(self, id: str, by: str, parent: int | None, message: str) -> None:
        asker = None if parent is None else self._run(parent).pk
        self.batch.append(Cancel(id=id, by=by, parent=asker, message_id=message))

    @rule(pk=pks, key=keys, worker=workers)
    def get_in_doubt(self, pk: int, key: str, worker: int) -> None:
        run = self._run(pk)
        seq = self._last_seq(run.pk) + 1
        intent = Record(seq=seq, kind=Kind.INTENT, key=key, at=1.0, attempt=1, effect="once", name="charge")
        owner = self._owner(run, worker, 0)
        self.batch += [Write(**owner, records=(intent,)), Stick(**owner, reason=Reason.IN_DOUBT, detail="doubt")]

    @rule(
        id=names,
        key=keys,
        attempt=st.sampled_from([1, 1, 1, 2]),
        decision=st.sampled_from(["happened", "fail", "no"]),
        value=values,
    )
    def resolve(self, id: str, key: str, attempt: int, decision: str, value: bytes | None) -> None:
        self.batch.append(Resolve(id=id, key=key, attempt=attempt, decision=decision, value=value, by="ann"))

    @rule(id=names, off=off, drop=st.booleans(), status=st.none() | st.sampled_from(Status))
    def resume(self, id: str, off: int, drop: bool, status: Status | None) -> None:
        run = self.memory.run(id) or self._run(0)
        last_seq = self._last_seq(run.pk)
        dropped = (last_seq,) if drop else ()
        self.batch.append(Resume(id=id, status=status or run.status, last_seq=last_seq + off, drop=dropped))

    @rule(id=names, source=pks, keep=st.integers(0, 3), extra=st.sampled_from([(), (), (99,)]))
    def fork(self, id: str, source: int, keep: int, extra: tuple[int, ...]) -> None:
        run = self._run(source)
        seqs = tuple(record.seq for record in self.memory.records(run.pk)[:keep])
        row = self._new(id, "flow", b"", forks=(Fork(max(seqs, default=0), run.incarnation),))
        self.batch.append(ForkRun(source=run.pk, keep=seqs + extra, run=row))

    @rule(age=st.sampled_from([0.0, 0.0, 30.0]), limit=st.integers(0, 3))
    def prune(self, age: float, limit: int) -> None:
        self.batch.append(Prune(before=self.clock.wall() - age, limit=limit))


class SqliteAnswers(SameAnswers):
    """A file."""

    def open_faces(self) -> list[Store]:
        return [SqliteStore(str(self.folder / "test.db"), self.clock) for _ in range(2)]


class PostgresAnswers(SameAnswers):
    """A schema of the session's server."""

    def open_faces(self) -> list[Store]:
        url = empty_store_url()
        return [open_with_given_times(url, self.clock) for _ in range(2)]


RANDOM = settings(
    max_examples=80,
    stateful_step_count=80,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestSqliteAnswers = SqliteAnswers.TestCase
TestPostgresAnswers = PostgresAnswers.TestCase
TestSqliteAnswers.settings = TestPostgresAnswers.settings = RANDOM


def test_the_random_verbs_are_all_the_verbs_there_are() -> None:
    verbs = {name for name, value in vars(SameAnswers).items() if hasattr(value, "hypothesis_stateful_rule")}
    aliases = {"start": "StartRun", "fork": "ForkRun", "take_over": "TakeOver"}
    spoken = {aliases.get(name, name.capitalize()) for name in verbs}
    assert {verb.__name__ for verb in Verb.__subclasses__()} <= spoken
    assert all(issubclass(verb, msgspec.Struct) for verb in Verb.__subclasses__())
