"""The same verbs in any order give the same answers on every store, and leave the same rows.

Memory is the reference. Each other store is used through two faces in turn, as
two processes would, so that what one of them remembers is put to the test.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from outlast.core.queues import Draw, Limits
from outlast.core.records import Fork, Kind, Record, WorkerRow, WorkerState
from outlast.core.schedule_rows import ScheduleRow
from outlast.core.transitions import Reason, Status
from outlast.stores.protocol import RunFilter, Store
from outlast.stores.queue_verbs import DeclareQueue, DrawRate, PauseQueue
from outlast.stores.sqlite import SqliteStore
from outlast.stores.time_verbs import DropSchedule, Expire, PauseSchedule, PutSchedule, Slot, Tick
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
from tests.conformance.random_checkpoints import RandomCheckpoints
from tests.conformance.random_courses import RandomCourses
from tests.conformance.two_sides import (
    FLOWS,
    KEYS,
    LIMITS,
    NAMES,
    QUEUES,
    keys,
    kinds,
    names,
    off,
    pks,
    queues,
    seldom,
    values,
    workers,
)
from tests.support.postgres import empty_store_url, open_with_given_times

schedule_names = st.sampled_from(["nightly", "hourly"])


class SameAnswers(RandomCheckpoints, RandomCourses):
    """All verbs, at random."""

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
        claim = Claim(worker=self._worker(worker), workflows=FLOWS, limit=limit, key=key, version=key, queues=QUEUES)
        self.batch.append(claim)

    @rule(queue=queues, limits=st.sampled_from(LIMITS))
    def declare_queue(self, queue: str, limits: Limits) -> None:
        self.batch.append(DeclareQueue(name=queue, limits=limits))

    @rule(queue=queues, paused=st.sampled_from([True, False, False, False]))
    def pause_queue(self, queue: str, paused: bool) -> None:
        self.batch.append(PauseQueue(name=queue, paused=paused, by="ann"))

    @rule(pk=pks, worker=workers, off=off, amounts=st.lists(st.sampled_from([1.0, 3.0]), min_size=1, max_size=2))
    def draw_rate(self, pk: int, worker: int, off: int, amounts: list[float]) -> None:
        draws = tuple(Draw(f"rate{n}", 4.0, 10.0, amount) for n, amount in enumerate(amounts))
        owner = self._owner(self._run(pk), worker, off)
        self.batch.append(DrawRate(**owner, key=f"{pk}/{len(amounts)}", draws=draws, slack=1.0))

    @rule(
        id=names,
        workflow=st.sampled_from(FLOWS),
        value=values,
        queue=queues,
        key=st.sampled_from(["", "k"]),
        priority=st.sampled_from([0, 0, 7]),
        shared=st.sampled_from(["", "", "dedup", "debounce"]),
        due=st.sampled_from([None, 5.0]),
        limit=st.sampled_from([None, 30.0]),
    )
    def start_on_terms(
        self,
        id: str,
        workflow: str,
        value: bytes | None,
        queue: str,
        key: str,
        priority: int,
        shared: str,
        due: float | None,
        limit: float | None,
    ) -> None:
        fields: dict[str, Any] = {"queue": queue, "queue_key": key, "priority": priority}
        if shared:
            fields[shared] = "same"
        if due is not None:
            fields["due"] = self.clock.wall() + due
        if limit is not None:
            fields["deadline"] = self.clock.wall() + limit
        self.batch.append(StartRun(run=self._new(id, workflow, value, **fields), max_wait=12.0))

    @rule(
        id=names,
        workflow=st.sampled_from(FLOWS),
        value=values,
        worker=st.none() | workers,
        due=st.sampled_from([None, None, 5.0]),
        deadline=st.sampled_from([None, None, None, 5.0]),
        outlives=st.booleans(),
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
        deadline: float | None,
        outlives: bool,
        parent: int | None,
        key: str,
        off: int,
        fenced: bool,
    ) -> None:
        fields: dict[str, Any] = {"due": due + self.clock.wall()} if due else {}
        fields |= {"deadline": deadline + self.clock.wall()} if deadline else {}
        fence: dict[str, Any] = {}
        if parent is not None:
            run = self._run(parent)
            fields |= {"parent": run.pk, "parent_key": key, "outlives": outlives}
            owner = self._owner(run, 1, off)
            fence = {"parent_worker": owner["worker"], "parent_claim": owner["claim"]} if fenced else {}
        claim_by = self._worker(worker) if worker else None
        self.batch.append(StartRun(run=self._new(id, workflow, value, **fields), claim_by=claim_by, **fence))

    @rule(worker=st.integers(0, 3), pk=pks)
    def expire(self, worker: int, pk: int) -> None:
        late = self.memory.overdue(1) or [self._run(pk)]
        by = self._worker(worker) if worker else None
        self.batch.append(Expire(worker=by, run=late[0].pk, error=b"late"))

    @rule(name=schedule_names, spec=st.sampled_from(["{}", "{ }"]), paused=st.sampled_from([None, None, True, False]))
    def put_schedule(self, name: str, spec: str, paused: bool | None) -> None:
        at = self.clock.wall() + 5.0
        row = ScheduleRow(name=name, spec=spec, workflow="flow", next=at, anchor=at)
        self.batch.append(PutSchedule(schedule=row, paused=paused))

    @rule(name=schedule_names, on=st.booleans())
    def pause_schedule(self, name: str, on: bool) -> None:
        self.batch.append(PauseSchedule(name=name, next=self.clock.wall() + 7.0 if on else None))

    @rule(name=schedule_names, often=seldom)
    def drop_schedule(self, name: str, often: int) -> None:
        if not often:
            self.batch.append(DropSchedule(name=name))

    @rule(
        worker=workers,
        name=schedule_names,
        off=off,
        key=st.sampled_from(["k1", "k2", "k3"]),
        ids=st.lists(names, max_size=3, unique=True),
        busy=st.sampled_from(["skip", "queue", "allow"]),
    )
    def tick(self, worker: int, name: str, off: int, key: str, ids: list[str], busy: str) -> None:
        known = {row.name: row for row in self.memory.schedules()}
        revision = known[name].revision if name in known else 1
        slots = tuple(Slot(at=float(n), run=self._new(one, "flow", b""), busy=busy) for n, one in enumerate(ids))
        fields: dict[str, Any] = {"worker": self._worker(worker), "name": name, "revision": revision + off, "key": key}
        self.batch.append(Tick(**fields, next=self.clock.wall() + 3.0, slots=slots, missed=off))

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
        loaded = next(iter(self.memory.load([run.pk])), None)
        taken = tuple(row.id for row in loaded.inbox[:1]) if loaded and consumes else ()
        self.batch.append(Write(**self._owner(run, worker, claim_off), records=records, consumes=taken))

    @rule(pk=pks, worker=workers, off=off, due=st.sampled_from([None, 0.0, 20.0]), seen=st.booleans())
    def park(self, pk: int, worker: int, off: int, due: float | None, seen: bool) -> None:
        run = self._run(pk)
        loaded = next(iter(self.memory.load([run.pk])), None)
        last = max((row.id for row in loaded.inbox), default=0) if loaded and seen else 0
        when = None if due is None else self.clock.wall() + due
        self.batch.append(Park(**self._owner(run, worker, off), due=when, detail="d", seen=last))

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
        id=names,
        kind=st.sampled_from([Kind.MESSAGE, Kind.MESSAGE, Kind.CHILD, Kind.STEP]),
        message=keys,
        value=values,
        early=st.booleans(),
    )
    def send(self, id: str, kind: Kind, message: str, value: bytes | None, early: bool) -> None:
        self.batch.append(Send(id=id, kind=kind, key="k", message_id=message, value=value, early=early))

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
        dropped, options = ((last_seq,), '{"max_tokens":9}') if drop else ((), None)
        status = status or run.status
        self.batch.append(Resume(id=id, status=status, last_seq=last_seq + off, drop=dropped, options=options))

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
TestSqliteAnswers.settings = RANDOM
TestPostgresAnswers.settings = settings(RANDOM, max_examples=30)  # each costs it ten times as much


def test_the_random_verbs_are_all_the_verbs_there_are() -> None:
    named = (item for cls in SameAnswers.__mro__ for item in vars(cls).items())
    verbs = {name for name, value in named if hasattr(value, "hypothesis_stateful_rule")}
    aliases = {"start": "StartRun", "fork": "ForkRun"}
    spoken = {aliases.get(name, name.title().replace("_", "")) for name in verbs}
    assert {verb.__name__ for verb in Verb.__subclasses__()} <= spoken
    assert all(issubclass(verb, msgspec.Struct) for verb in Verb.__subclasses__())
