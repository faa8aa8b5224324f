"""A question whose time has come has expired, for everybody and at once."""

from __future__ import annotations

import pytest

import outlast
from outlast import workflow
from outlast.stores.approval_verbs import AnswerApproval
from outlast.stores.verbs import Answer, Refused, Verb
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


async def test_it_expires_while_its_run_is_parked(open_app: OpenApp, ears: Ears) -> None:
    @workflow
    async def impatient() -> str:
        try:
            await outlast.approve("Now?", timeout=0.3)
        except TimeoutError:
            return "nobody"
        return "somebody"

    async with open_app(on_event=ears, park_after=0) as app:
        run = await app.start(impatient(), id="one")
        notice = await ears.hear("run.parked", run="one")
        assert notice.data["due"] is not None
        assert await run.result() == "nobody"


async def test_a_worker_whose_clock_is_ahead_of_the_store_asks_again_until_it_has_expired(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    @workflow
    async def impatient() -> str:
        try:
            await outlast.approve("Now?", timeout=0.05)
        except TimeoutError:
            return "nobody"
        return "somebody"

    async with open_app(park_after=30) as app:
        store, early = app.store, [True, True]
        transact = store.transact

        def not_due_yet(verbs: list[Verb]) -> list[Answer]:
            asks = [isinstance(verb, AnswerApproval) for verb in verbs]
            if any(asks) and early:
                early.pop()
                others = iter(transact([verb for verb, asked in zip(verbs, asks, strict=True) if not asked]))
                return [Refused("it is not due yet") if asked else next(others) for asked in asks]
            return transact(verbs)

        monkeypatch.setattr(store, "transact", not_due_yet)
        run = await app.start(impatient())
        assert await run.result() == "nobody"
        assert early == []
