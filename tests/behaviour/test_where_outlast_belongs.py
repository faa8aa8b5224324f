"""What belongs in a run, in a workflow or in a step is refused anywhere else, and says where it belongs."""

from __future__ import annotations

from typing import Any

import pytest

import outlast
from outlast import WrongUse, step, workflow
from tests.behaviour.stage import OpenApp


@workflow
async def flow(what: str) -> str:
    return what


@pytest.mark.parametrize(
    "use",
    [
        outlast.idempotency_key,
        outlast.attempt,
        outlast.fence,
        outlast.heartbeat,
        lambda: outlast.annotate(a=1),
        lambda: outlast.patched("x"),
        lambda: outlast.scope("x").__enter__(),
    ],
    ids=["idempotency_key", "attempt", "fence", "heartbeat", "annotate", "patched", "scope"],
)
def test_what_belongs_in_a_run_is_refused_outside_of_one(use: Any) -> None:
    with pytest.raises(WrongUse, match=r"outside of any run"):
        use()


async def test_a_child_cannot_be_started_outside_of_a_workflow() -> None:
    call = flow("x")
    with pytest.raises(WrongUse, match=r"belongs in a workflow"):
        await outlast.start(call)
    call.close()


async def test_what_belongs_in_a_step_is_refused_in_a_workflow_and_the_other_way_round(open_app: OpenApp) -> None:
    @step
    async def in_step() -> str:
        try:
            return str(outlast.patched("x"))
        except WrongUse as refused:
            return str(refused)

    @workflow
    async def in_body() -> list[str]:
        try:
            outlast.idempotency_key()
        except WrongUse as refused:
            return [str(refused), await in_step()]
        return []

    async with open_app() as app:
        body, in_a_step = await (await app.start(in_body())).result()
    assert body == "outlast.idempotency_key() belongs in a step, and was called in a workflow body"
    assert in_a_step == "outlast.patched('x') belongs in a workflow, and was called in a step"


def test_outside_of_a_run_time_and_chance_are_the_plain_ones() -> None:
    assert outlast.now().tzinfo is not None
    assert outlast.uuid4() != outlast.uuid4()
    assert 0 <= outlast.random() < 1
    assert outlast.random.choice([1]) == 1
    assert outlast.current.run_id is None
    assert outlast.current.step_id is None
    assert outlast.current.workflow is None
