"""A question whose time has come has expired, for everybody and at once."""

from __future__ import annotations

import pytest

import outlast
from outlast import workflow
from tests.behaviour.stage import Ears, OpenApp, eventually


async def test_an_answer_after_its_time_is_refused_also_while_no_worker_has_its_run(
    open_app: OpenApp, ears: Ears
) -> None:
    @workflow(name="too_late")
    async def impatient() -> str:
        try:
            return (await outlast.approve("Now?", timeout=0.3)).by
        except TimeoutError:
            return "nobody"

    async with open_app(on_event=ears, park_after=0) as app:
        run = await app.start(impatient(), id="one")
        await ears.hear("run.parked", run="one")
        await app.hold("one")

        async def has_expired() -> bool:
            return len(await app.approvals(status="expired")) == 1

        await eventually(has_expired)
        (expired,) = await app.approvals(status="expired")
        assert await run.approvals() == []
        for answer in (app.approve, app.reject):
            with pytest.raises(outlast.AlreadyAnswered, match=f"approval '{expired.id}' has expired: Now") as refused:
                await answer(expired.id, by="late")
            assert refused.value.status == "expired"
        await app.release("one")
        assert await run.result() == "nobody"
