"""Two stores that are given the same verbs, and what a test knows of them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from outlast.core.queues import Limits
from outlast.core.records import Kind, RunRow
from outlast.stores.memory import MemoryStore
from outlast.stores.protocol import ApprovalFilter, RunFilter, Store
from outlast.stores.verbs import Verb
from tests.conformance.world import SetClock, memory_folder

FLOWS = ("flow", "other")
NAMES = ("a", "b", "c", "d")
KEYS = ("main/x#1", "main/y#1")
QUEUES = ("q", "r")
LIMITS = (Limits(), Limits(concurrency=1), Limits(per_worker=1, per_key=1), Limits(rate=1, per=8.0), Limits(fair=False))

workers = st.integers(1, 3)  # slots, each with the worker that was registered there last
names = st.sampled_from(NAMES)
keys = st.sampled_from(KEYS)
queues = st.sampled_from(QUEUES)
pks = st.integers(0, 5)  # which of the runs there are
# Mostly what the run really has, so that many verbs are legal; sometimes off by one, so that many are not.
off = st.sampled_from([0, 0, 0, 0, 0, 1, -1])
seldom = st.integers(0, 4)  # 0 is the time to do it
values = st.sampled_from([None, b"", b"1"])
kinds = st.sampled_from([Kind.STEP, Kind.CHILD, Kind.LATE, Kind.INTENT, Kind.ATTEMPT, Kind.MESSAGE])


class TwoSides(RuleBasedStateMachine):
    """Applies batches of verbs to the reference and, through one of two faces, to another store."""

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
        pks = [run.pk for run in runs]
        assert store.load(pks) == self.memory.load(pks)
        assert store.approvals(ApprovalFilter()) == self.memory.approvals(ApprovalFilter())
        assert store.workers() == self.memory.workers()
        assert store.owners() == self.memory.owners()
        assert store.orphans() == self.memory.orphans()
        assert store.next_due(FLOWS) == self.memory.next_due(FLOWS)
        for slot in self.slots:
            on_queues = (FLOWS, QUEUES, self._worker(slot))
            assert store.next_due(*on_queues) == self.memory.next_due(*on_queues)
        assert store.queues() == self.memory.queues()
        assert {run.pk for run in store.overdue(20)} == {run.pk for run in self.memory.overdue(20)}
        assert store.schedules() == self.memory.schedules()
        assert store.next_slot(FLOWS) == self.memory.next_slot(FLOWS)
        assert store.to_come(FLOWS) == self.memory.to_come(FLOWS)
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
