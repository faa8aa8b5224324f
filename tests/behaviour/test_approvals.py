"""A question to people is listed from when it may be seen, answered once, and its answer reaches the run that asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

import outlast
from outlast import App, ApprovalInfo, workflow
from tests.behaviour.flows import executed, note
from tests.behaviour.stage import Ears, OpenApp, eventually


@dataclass
class Refund:
    """What a person may fill in."""

    cents: int
    reason: str = ""


@workflow
async def refunding(who: str) -> str:
    answer = await outlast.approve(f"Refund {who}?", data={"who": who}, to="desk")
    if not answer:
        return f"{answer.by} said no: {answer.note}"
    await note(f"refund {who}")
    return f"{answer.by} said yes"


async def open_ones(app: App, count: int = 1, **wanted: Any) -> list[ApprovalInfo]:
    """Wait until so many approvals are open; return them."""

    async def there() -> bool:
        return len(await app.approvals(**wanted)) == count

    await eventually(there)
    return await app.approvals(**wanted)


async def test_a_question_is_listed_with_what_people_need_and_its_answer_goes_to_the_run(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(refunding("ada"), id="one")
        (asked,) = await open_ones(app)
        assert (asked.run, asked.question, asked.data, asked.to, asked.status) == (
            "one",
            "Refund ada?",
            {"who": "ada"},
            "desk",
            "open",
        )
        told = await app.approve(asked.id, by="bob", note="fine")
        assert (told.status, told.by, told.note, told.id) == ("approved", "bob", "fine", asked.id)
        assert await run.result() == "bob said yes"
        assert await app.approvals() == []
        assert [a.id for a in await app.approvals(status=None)] == [asked.id]
        assert [a.id for a in await run.approvals(status="approved")] == [asked.id]


async def test_no_is_an_answer_too(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(refunding("ada"))
        (asked,) = await open_ones(app)
        await app.reject(asked.id, by="bob", note="not hers")
        assert await run.result() == "bob said no: not hers"
    assert executed == []


async def test_whoever_answers_next_is_told_who_did(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(refunding("ada"))
        (asked,) = await open_ones(app)
        await app.approve(asked.id, by="bob")
        for _ in range(2):
            with pytest.raises(
                outlast.AlreadyAnswered, match=f"approval '{asked.id}' was approved already by bob"
            ) as no:
                await app.reject(asked.id, by="cid")
            assert (no.value.status, no.value.by) == ("approved", "bob")
            await run.result()
        assert executed == ["refund ada"]


@pytest.mark.parametrize("answering", [2, 8, 32])
async def test_of_many_who_answer_at_once_one_wins_and_the_others_know_whom(open_app: OpenApp, answering: int) -> None:
    async with open_app() as app:
        run = await app.start(refunding("ada"))
        (asked,) = await open_ones(app)
        clients = [open_app(worker=False) for _ in range(min(answering, 8))]
        for client in clients:
            await client.__aenter__()

        async def answer(n: int) -> str:
            try:
                return (await clients[n % len(clients)].approve(asked.id, by=f"p{n}")).by
            except outlast.AlreadyAnswered as no:
                return no.by

        said = Counter(await asyncio.gather(*(answer(n) for n in range(answering))))
        for client in clients:
            await client.__aexit__()
        ((winner, times),) = said.items()
        assert times == answering
        assert await run.result() == f"{winner} said yes"
    assert executed == ["refund ada"]


async def test_questions_asked_in_parallel_never_mix(open_app: OpenApp) -> None:
    @workflow
    async def asking() -> list[str]:
        answers = await asyncio.gather(*(outlast.approve("the same question?", data=n) for n in range(5)))
        return [answer.note for answer in answers]

    async with open_app() as app:
        run = await app.start(asking())
        asked = await open_ones(app, 5)
        assert sorted(a.data for a in asked) == list(range(5))
        for one in reversed(asked):
            await app.approve(one.id, note=f"for {one.data}")
        assert await run.result() == [f"for {n}" for n in range(5)]


async def test_one_question_after_the_other_each_waits_for_its_own_answer(open_app: OpenApp) -> None:
    @workflow
    async def inner(who: str) -> list[str]:
        return [(await outlast.approve(f"{who} {n}?")).note for n in range(3)]

    @workflow
    async def outer() -> list[str]:
        return [*await inner("child"), (await outlast.approve("parent?")).note]

    async with open_app() as app:
        run = await app.start(outer())
        for n in range(4):
            (asked,) = await open_ones(app)
            await app.approve(asked.id, note=f"{n}: {asked.question}")
        assert await run.result() == ["0: child 0?", "1: child 1?", "2: child 2?", "3: parent?"]


async def test_an_answer_is_kept_while_nobody_executes_the_run(open_app: OpenApp) -> None:
    async with open_app() as app:
        await app.start(refunding("ada"), id="one")
        (asked,) = await open_ones(app)
    async with open_app(worker=False) as client:
        await client.approve(asked.id, by="bob")
        assert await client.approvals() == []
    async with open_app() as app:
        assert await (await app.get("one")).result() == "bob said yes"


async def test_a_run_that_asks_parks_and_says_what_it_asks(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears) as app:
        run = await app.start(refunding("ada"), id="one")
        await ears.hear("run.parked", run="one")
        (asked,) = await app.approvals(run="one")
        assert (await run.info()).detail == f"approval {asked.id}: Refund ada?"


# -- time, and questions that nobody needs to answer any more ----------------------


async def test_a_question_that_nobody_answers_in_time_is_asked_of_somebody_else(open_app: OpenApp) -> None:
    @workflow
    async def escalating() -> str:
        try:
            await outlast.approve("Refund?", to="desk", timeout=0.05)
        except TimeoutError as error:
            said = str(error)
        return f"{said} {(await outlast.approve('Refund?', to='boss')).by}"

    async with open_app() as app:
        run = await app.start(escalating())
        (asked,) = await open_ones(app, to="boss")
        await app.approve(asked.id, by="eve")
        (first,) = await app.approvals(status="expired")
        assert await run.result() == f"nobody answered approval {first.id} within 0.05 s: Refund? eve"
        with pytest.raises(outlast.AlreadyAnswered, match=f"approval '{first.id}' has expired"):
            await app.approve(first.id, by="late")


async def test_a_question_that_changed_under_a_run_is_never_answered_by_the_old_answer(open_app: OpenApp) -> None:
    question = ["Refund 5?"]

    @workflow
    async def asking() -> str:
        return (await outlast.approve(question[0])).by

    async with open_app() as app:
        await app.start(asking(), id="one")
        (asked,) = await open_ones(app)
    question[0] = "Delete everything?"
    async with open_app() as app:
        await app.approve(asked.id, by="bob")
        with pytest.raises(outlast.RunStuck, match="diverged"):
            await (await app.get("one")).result()


async def test_a_fork_asks_anew(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(refunding("ada"), id="one")
        (asked,) = await open_ones(app)
        await app.approve(asked.id, by="bob")
        await run.result()
        fork = await app.fork("one", "main/!approve#1", new_id="two")
        (again,) = await open_ones(app)
        assert again.id != asked.id
        await app.reject(again.id, by="cid")
        assert (await fork.result()).startswith("cid said no")


# -- wrong use -------------------------------------------------------------------


async def test_nobody_asked_that(open_app: OpenApp) -> None:
    async with open_app() as app:
        with pytest.raises(outlast.ApprovalNotFound, match="no approval has the id 'nothing'"):
            await app.approve("nothing")
        with pytest.raises(outlast.WrongUse, match=r"app.approvals\(status='done'\): must be one of open, approved"):
            await app.approvals(status="done")


async def test_yes_or_no_takes_no_form(open_app: OpenApp) -> None:
    async with open_app() as app:
        await app.start(refunding("ada"))
        (asked,) = await open_ones(app)
        with pytest.raises(outlast.WrongUse, match="asks for no form"):
            await app.approve(asked.id, form={"cents": 5})


@pytest.mark.parametrize(
    "wrong", [{"question": ""}, {"timeout": -1}, {"timeout": "soon"}, {"to": 5}, {"form": {"cents": 1}}]
)
async def test_what_cannot_be_asked_says_why(open_app: OpenApp, wrong: dict[str, Any]) -> None:
    @workflow
    async def asking() -> str:
        try:
            await outlast.approve(**({"question": "?"} | wrong))
        except outlast.WrongUse as error:
            return str(error)
        return "asked"

    async with open_app() as app:
        assert (await (await app.start(asking())).result()).startswith("outlast.approve(")


def test_a_sync_workflow_asks_by_blocking(url: str) -> None:
    @workflow
    def blocking() -> list[Any]:
        answer = outlast.sync.approve("How much?", form=Refund)
        return [answer.by, answer.form.cents]

    with outlast.sync.App(url, park_after=0.02, grace=0.0) as app:
        run = app.start(blocking())
        while not (asked := app.approvals()):
            pass
        app.approve(asked[0].id, by="bob", form=Refund(7))
        assert run.result() == ["bob", 7]
        assert [a.status for a in run.approvals(status=None)] == ["approved"]


@pytest.mark.parametrize("answer", ["approve", "reject"])
async def test_only_the_branch_that_was_chosen_is_taken_and_nothing_before_it_again(
    open_app: OpenApp, answer: str
) -> None:
    @workflow
    async def gate() -> str:
        await note("before")
        return str(await note("yes" if await outlast.approve("Well?") else "no"))

    async with open_app() as app:
        run = await app.start(gate(), id="one")
        (asked,) = await open_ones(app)
    async with open_app() as app:
        await getattr(app, answer)(asked.id)
        run = await app.get("one")
        assert await run.result() == ("yes" if answer == "approve" else "no")
        assert executed == ["before", await run.result()]


async def test_a_child_asks_as_often_as_it_likes_while_its_parent_waits(open_app: OpenApp) -> None:
    @workflow
    async def child(who: str) -> list[str]:
        return [(await outlast.approve(f"{who} {n}?")).note for n in range(3)]

    @workflow
    async def parent() -> list[list[str]]:
        return await asyncio.gather(child("a"), child("b"))

    async with open_app() as app:
        run = await app.start(parent())
        for n in range(3):
            for asked in await open_ones(app, 2):
                await app.approve(asked.id, note=f"{n}: {asked.question}")
        assert await run.result() == [[f"{n}: {who} {n}?" for n in range(3)] for who in "ab"]
