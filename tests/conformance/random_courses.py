"""Runs held back, moved, ended by force, and gone on as other calls, at random."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from outlast.stores.course_verbs import ContinueAs, Hold, Move, Terminate
from tests.conformance.random_approvals import RandomApprovals
from tests.conformance.two_sides import FLOWS, names, off, pks, seldom, workers


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

    @rule(pk=pks, worker=workers, claim_off=off, seq_off=off)
    def continue_as(self, pk: int, worker: int, claim_off: int, seq_off: int) -> None:
        run = self._run(pk)
        self.started += 1
        self.batch.append(
            ContinueAs(
                **self._owner(run, worker, claim_off),
                last_seq=self._last_seq(run.pk) + seq_off,
                incarnation=f"inc-{self.started}",
                workflow=run.workflow,
                definition="shop:flow",
                input=b"2",
                options="{}",
                at=self.clock.wall(),
            )
        )
