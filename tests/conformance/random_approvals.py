"""Approvals, asked for and answered at random."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from outlast.core.records import ApprovalRow, Standing
from outlast.stores.approval_verbs import AnswerApproval, OpenApproval, ReopenApproval
from outlast.stores.protocol import ApprovalFilter
from tests.conformance.two_sides import KEYS, TwoSides, names, off, pks, values, workers


class RandomApprovals(TwoSides):
    """The verbs of approvals."""

    @rule(id=names, pk=pks, worker=workers, off=off, due=st.sampled_from([None, 20.0]))
    def open_approval(self, id: str, pk: int, worker: int, off: int, due: float | None) -> None:
        run = self._run(pk)
        owner = self._owner(run, worker, off)
        asks = ApprovalRow(
            id=id, run=run.pk, key=KEYS[0], question="?", due=None if due is None else self.clock.wall() + due
        )
        self.batch.append(OpenApproval(worker=owner["worker"], claim=owner["claim"], approval=asks))

    @rule(id=names, pk=pks, status=st.sampled_from(Standing), ask=st.sampled_from(["x", "y"]), value=values)
    def answer_approval(self, id: str, pk: int, status: Standing, ask: str, value: bytes | None) -> None:
        known = self.memory.approvals(ApprovalFilter(id=id))
        run = known[0].run if known and pk else self._run(pk).pk
        self.batch.append(AnswerApproval(id=id, run=run, status=status, ask=ask, by="ann", value=value, message=value))

    @rule(id=names, pk=pks, worker=workers, off=off)
    def reopen_approval(self, id: str, pk: int, worker: int, off: int) -> None:
        run = self._run(pk)
        loaded = next(iter(self.memory.load([run.pk])), None)
        row = loaded.inbox[0].id if loaded and loaded.inbox else 0
        self.batch.append(ReopenApproval(**self._owner(run, worker, off), id=id, problem="no", consumes=row))
