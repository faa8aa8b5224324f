"""Runs held back, moved, and ended by force, at random."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from outlast.stores.course_verbs import Hold, Move, Terminate
from tests.conformance.random_approvals import RandomApprovals
from tests.conformance.two_sides import FLOWS, names, seldom, workers


class RandomCourses(RandomApprovals):
    """The verbs of a run's course."""

    @rule(
        held=st.booleans(), id=st.none() | names, workflow=st.none() | st.sampled_from(FLOWS), limit=st.integers(0, 3)
    )
    def hold(self, held: bool, id: str | None, workflow: str | None, limit: int) -> None:
        self.batch.append(Hold(held=held, id=id, workflow=workflow, limit=limit))

    @rule(flows=st.permutations(FLOWS), often=seldom)
    def move(self, flows: list[str], often: int) -> None:
        if not often:
            self.batch.append(Move(workflow=flows[0], to=flows[1], limit=2))

    @rule(id=names, worker=st.none() | workers, fits=st.booleans())
    def terminate(self, id: str, worker: int | None, fits: bool) -> None:
        run = self.memory.run(id)
        owner = run.owner if run and fits else self._worker(worker) if worker else None
        self.batch.append(Terminate(id=id, worker=owner, by="ann"))
