"""A question that nobody waits for any more is withdrawn, and asked again where its run waits for it once more."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import outlast
from outlast import App, step, workflow
from outlast.stores.approval_verbs import AnswerApproval
from outlast.stores.verbs import Answer, Done, Verb
from tests.behaviour.stage import OpenApp, Signal, eventually, failure, reaches, stuck
from tests.behaviour.test_approvals import open_ones


@pytest.mark.parametrize("how", ["timeout", "cancelled", "ended"])
async def test_a_question_that_is_waited_for_no_longer_is_withdrawn(open_app: OpenApp, how: str) -> None:
    @workflow
    async def asking(how: str) -> str:
        question = asyncio.create_task(outlast.approve("Still?"))
        await asyncio.sleep(0.05)
        if how == "timeout":
            try:
                await asyncio.wait_for(question, 0.01)
            except TimeoutError:
                return "gave up"
        return "left it" if how == "ended" else await question

    async with open_app() as app:
        run = await app.start(asking(how))

        async def is_there() -> bool:
            return bool(await app.approvals(status=None))  # it may be withdrawn by the time that we look

        await eventually(is_there)
        (asked,) = await app.approvals(status=None)
        if how == "cancelled":
            await run.cancel()
            with pytest.raises(outlast.RunCancelled):
                await run.result()
        else:
            await run.result()

        async def withdrawn() -> bool:
            return [a.status for a in await app.approvals(status=None)] == ["withdrawn"]

        await eventually(withdrawn)
        with pytest.raises(outlast.AlreadyAnswered, match="was withdrawn already"):
            await app.approve(asked.id)


@pytest.mark.parametrize("how", ["cancelled", "by force", "at its deadline", "stuck and cancelled"])
async def test_a_run_that_ended_while_it_asked_asks_again_once_it_is_resumed(open_app: OpenApp, how: str) -> None:
    @step(effect="once")
    async def pay() -> None:
        raise ConnectionError

    @workflow
    async def asking() -> str:
        question = asyncio.create_task(outlast.approve("Still?"))
        if how == "stuck and cancelled":
            await outlast.receive("go")
            await pay()
        return (await question).by

    async with open_app() as app:
        run = await app.start(asking(), deadline=0.3 if how == "at its deadline" else None)
        (asked,) = await open_ones(app)
        if how == "stuck and cancelled":
            await run.send("go")
            await stuck(run)
        if how != "at its deadline":
            await app.cancel(run.id, force=how == "by force")
        await failure(run)
        await eventually(lambda: _stands(app, asked.id, "withdrawn"))
        await app.resume(run.id)
        if how == "stuck and cancelled":
            await stuck(run)
            await app.resolve(run.id, "pay", outlast.Happened(None))
        (again,) = await open_ones(app)
        assert (again.id, again.question, again.answered) == (asked.id, "Still?", None)
        await app.approve(asked.id, by="bob")
        assert await run.result() == "bob"


async def _stands(app: App, id: str, status: str) -> bool:
    return [asked.status for asked in await app.approvals(status=None) if asked.id == id] == [status]


async def test_a_withdrawal_that_a_crash_swallowed_is_made_up_for(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    @workflow
    async def asking() -> str:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(outlast.approve("Still?"), 0.01)
        await outlast.receive("go on")
        return "gave up"

    async with open_app() as app:
        transact, swallowed = app.store.transact, Signal()
        lost: list[Verb] = []

        def crash(verbs: list[Verb]) -> list[Answer]:
            answers = iter(transact([verb for verb in verbs if not isinstance(verb, AnswerApproval)]))
            swallowed.change(lambda: lost.extend(verb for verb in verbs if isinstance(verb, AnswerApproval)))
            return [Done() if isinstance(verb, AnswerApproval) else next(answers) for verb in verbs]

        with monkeypatch.context() as patch:
            patch.setattr(app.store, "transact", crash)
            run = await app.start(asking(), id="one")
            await swallowed.until(lambda: bool(lost))
            assert [a.status for a in await app.approvals(status=None)] == ["open"]
            await reaches(run, "waiting")
        await run.send("go on")
        assert await run.result() == "gave up"

        async def withdrawn() -> bool:
            return [a.status for a in await app.approvals(status=None)] == ["withdrawn"]

        await eventually(withdrawn)
