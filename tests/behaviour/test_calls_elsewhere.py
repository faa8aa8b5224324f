"""A call belongs to the place where it was made, and is awaited there."""

from __future__ import annotations

from typing import Any

from outlast import Call, LostRun, StepError, workflow
from tests.behaviour.flows import note
from tests.behaviour.stage import OpenApp, failure


async def told(open_app: OpenApp, kept: list[Call[Any]]) -> str:
    """Have a run await a call that was kept from elsewhere; return what it fails with."""

    @workflow
    async def awaits() -> Any:
        return await kept.pop()

    async with open_app() as app:
        error = await failure(await app.start(awaits(), id="two"))
    assert isinstance(error, LostRun) or (isinstance(error, StepError) and "LostRun" in error.type_name)
    return str(error)


async def test_a_call_made_outside_of_any_run_is_not_awaited_in_one(open_app: OpenApp) -> None:
    says = await told(open_app, [note(1)])
    assert says.startswith(
        "step note was called outside of a run, or in a context that has lost its run, and is awaited"
    )


async def test_a_call_kept_from_a_run_that_has_ended_is_not_awaited_in_another(open_app: OpenApp) -> None:
    kept: list[Call[Any]] = []

    @workflow
    async def keeps() -> None:
        kept.append(note(1))

    async with open_app() as app:
        await (await app.start(keeps(), id="one")).result()
    says = await told(open_app, kept)
    assert "step note was called in run one and is awaited in run two; call it where it is awaited" in says
