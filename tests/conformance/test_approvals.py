"""What people are asked is answered until its time has come by the store's clock, and never after."""

from __future__ import annotations

import pytest

from outlast.core.records import ApprovalRow, Standing
from outlast.stores.approval_verbs import AnswerApproval, OpenApproval
from outlast.stores.protocol import ApprovalFilter
from outlast.stores.verbs import Answer, Done, Refused
from tests.conformance.world import World

WITHIN_S = 60.0


def asking(world: World, due_in_s: float | None = WITHIN_S) -> int:
    """Have a run ask; return its key."""
    run = world.running()
    due = None if due_in_s is None else world.clock.wall() + due_in_s
    approval = ApprovalRow(id="ask", run=run.pk, key="main/approve#1", question="Now?", due=due)
    assert world.do(OpenApproval(worker="w1", claim=run.claim, approval=approval)) == Done()
    return run.pk


def answer(world: World, run: int, status: Standing = Standing.APPROVED) -> Answer:
    return world.do(AnswerApproval(id="ask", run=run, status=status, ask=status.value, by="ada", message=b"[]"))


def standing(world: World) -> dict[str, Standing]:
    """Return how the approval stands in each listing that it is in."""
    listings: dict[str, Standing | None] = {"all": None, **{standing.value: standing for standing in Standing}}
    found = {}
    for name, wanted in listings.items():
        for row in world.store.approvals(ApprovalFilter(status=wanted)):
            found[name] = row.status
    return found


def test_an_answer_counts_until_the_time_has_come(world: World) -> None:
    run = asking(world)
    world.clock.advance(WITHIN_S - 0.001)
    assert standing(world) == {"all": Standing.OPEN, "open": Standing.OPEN}
    assert answer(world, run) == Done((run,))
    world.clock.advance(1)
    assert standing(world) == {"all": Standing.APPROVED, "approved": Standing.APPROVED}
    assert answer(world, run) == Done((run,))  # sent again


@pytest.mark.parametrize("status", [Standing.APPROVED, Standing.REJECTED])
def test_from_then_on_it_has_expired_though_nobody_said_so(world: World, status: Standing) -> None:
    run = asking(world)
    world.clock.advance(WITHIN_S)
    assert standing(world) == {"all": Standing.EXPIRED, "expired": Standing.EXPIRED}
    refused = answer(world, run, status)
    assert isinstance(refused, Refused)
    assert refused.why == "approval 'ask' has expired"
    assert world.inbox(run) == []
    assert answer(world, run, Standing.EXPIRED) == Done((run,))
    assert len(world.inbox(run)) == 1


def test_a_question_without_a_time_stays_open(world: World) -> None:
    run = asking(world, None)
    world.clock.advance(10 * 365 * 86_400)
    world.worker()
    assert standing(world) == {"all": Standing.OPEN, "open": Standing.OPEN}
    assert answer(world, run) == Done((run,))
