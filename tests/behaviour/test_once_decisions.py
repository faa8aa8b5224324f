"""A person decides an attempt in doubt: that attempt and no other, once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import outlast
from outlast import DidNotHappen, Happened, InDoubt, NotResumable, Retry, Run, RunCancelled, WrongUse, step, workflow
from tests.behaviour.stage import Door, OpenApp, eventually, failure, reaches, stuck

sent: list[Any] = []


async def eventually_says(run: Run[Any], text: str) -> Any:
    """Wait until what is said of a run has this text in it."""

    async def says() -> bool:
        return text in (await run.info()).detail

    await eventually(says)
    return await run.info()


@dataclass
class Receipt:
    id: str
    cents: int


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


@step(effect="once", settle=0, retry=Retry(attempts=5, initial=0, on=ConnectionRefusedError))
async def pay(cents: int) -> Receipt:
    sent.append((outlast.attempt(), outlast.idempotency_key()))
    if len(sent) < 2:
        raise TimeoutError
    return Receipt("r-live", cents)


@workflow
async def flow() -> Receipt:
    return await pay(5)


@workflow
async def careful() -> str:
    try:
        return (await pay(5)).id
    except InDoubt as decided:
        return f"decided: {decided}"


async def test_happened_gives_the_step_the_value_and_the_run_goes_on(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await stuck(run)
        await app.resolve("one", "main/pay#1", Happened(Receipt("r-9", 5)), attempt=1, by="ann")
        assert await run.result() == Receipt("r-9", 5)
        (record,) = await run.steps()
        assert (record.state, record.note) == ("done", "decided: happened")
    assert len(sent) == 1


async def test_did_not_happen_lets_the_step_be_tried_again_with_the_same_key(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await stuck(run)
        await app.resolve("one", "pay", DidNotHappen())
        assert await run.result() == Receipt("r-live", 5)
    assert [attempt for attempt, _ in sent] == [1, 2]
    assert len({key for _, key in sent}) == 1


async def test_fail_raises_in_the_body(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(careful(), id="one")
        await stuck(run)
        await app.resolve("one", "pay", "fail")
        told = await run.result()
        assert "step main/pay#1 of run one: attempt 1 was in doubt, and a person decided that it failed" in told
    assert len(sent) == 1


async def test_a_run_that_fails_by_a_decision_has_its_error(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await stuck(run)
        await app.resolve("one", "pay", "fail")
        assert isinstance(await failure(run), InDoubt)
        assert await run.status() == "failed"


async def test_a_decision_for_another_attempt_is_refused(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        before = await stuck(run)
        for attempt in (0, 2, 7):
            with pytest.raises(
                NotResumable, match=f"attempt {attempt} of step main/pay#1 is not in doubt; attempt 1 is"
            ):
                await app.resolve("one", "pay", DidNotHappen(), attempt=attempt)
        assert await run.info() == before


async def test_the_same_decision_again_is_the_same_decision(open_app: OpenApp) -> None:
    async with open_app(worker=False) as client:
        async with open_app() as app:
            await stuck(await app.start(flow(), id="one"))
        await client.resolve("one", "pay", Happened(Receipt("r-9", 5)), attempt=1)
        await client.resolve("one", "pay", Happened(Receipt("r-9", 5)), attempt=1)  # nobody has taken it up yet
        await client.resolve("one", "pay", Happened(Receipt("r-9", 5)))
        async with open_app():
            run = await client.get("one")
            assert await run.result() == Receipt("r-9", 5)
            await client.resolve("one", "pay", Happened(Receipt("r-9", 5)), attempt=1)  # and after it went on, too
        assert [s.note for s in await run.steps()] == ["decided: happened"]


async def test_another_decision_for_a_decided_attempt_is_refused(open_app: OpenApp) -> None:
    async with open_app(worker=False) as client:
        async with open_app() as app:
            await stuck(await app.start(flow(), id="one"))
        await client.resolve("one", "pay", Happened(Receipt("r-9", 5)), attempt=1)
        others: list[Any] = [DidNotHappen(), "fail", Happened(Receipt("r-8", 5))]
        for other in others:
            with pytest.raises(NotResumable, match="was decided already: happened"):
                await client.resolve("one", "pay", other, attempt=1)
        async with open_app():
            assert await (await client.get("one")).result() == Receipt("r-9", 5)
    assert len(sent) == 1


async def test_a_decision_does_not_reach_the_next_attempt(open_app: OpenApp) -> None:
    @step(effect="once", settle=0)
    async def never_sure(cents: int) -> str:
        sent.append(outlast.attempt())
        raise TimeoutError

    @workflow
    async def unsure() -> str:
        return await never_sure(5)

    async with open_app() as app:
        run = await app.start(unsure(), id="one")
        await stuck(run)
        await app.resolve("one", "never_sure", DidNotHappen(), attempt=1)
        info = await stuck_again(run, "attempt 2 is in doubt")
        await app.resolve("one", "never_sure", DidNotHappen(), attempt=1)  # sent once more: it is about the first
        assert await run.info() == info
        await app.resolve("one", "never_sure", Happened("found"), attempt=2)
        assert await run.result() == "found"
    assert sent == [1, 2]


async def stuck_again(run: outlast.Run[Any], says: str) -> outlast.RunInfo:
    async def there() -> bool:
        info = await run.info()
        return info.status == "stuck" and says in info.detail

    await eventually(there)
    return await run.info()


async def test_of_several_in_doubt_each_is_decided_by_itself(open_app: OpenApp) -> None:
    @step(effect="once")
    async def send(n: int) -> str:
        sent.append(n)
        raise TimeoutError

    @workflow
    async def sending() -> list[str]:
        return list(await asyncio.gather(*(send(n) for n in range(3))))

    async with open_app() as app:
        run = await app.start(sending(), id="one")
        await stuck(run)
        with pytest.raises(NotResumable, match="more than one step 'send' in doubt; in doubt: 'main/send#1'"):
            await app.resolve("one", "send", DidNotHappen())
        for n in (2, 1, 3):
            await app.resolve("one", f"main/send#{n}", Happened(f"receipt {n}"))
            if n != 3:
                await stuck(run)
        assert await run.result() == ["receipt 1", "receipt 2", "receipt 3"]
    assert sorted(sent) == [0, 1, 2]


async def test_what_is_not_in_doubt_cannot_be_decided(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await stuck(run)
        with pytest.raises(NotResumable, match="no step 'other' in doubt; in doubt: 'main/pay#1' \\(attempt 1\\)"):
            await app.resolve("one", "other", DidNotHappen())
        await app.resolve("one", "pay", Happened(Receipt("r-9", 5)))
        await run.result()
        with pytest.raises(NotResumable):
            await app.resolve("one", "pay", DidNotHappen())


@pytest.mark.parametrize("decision", ["happened", True, None, Happened, outlast.Unknown()])
async def test_what_is_no_decision_is_refused(open_app: OpenApp, decision: Any) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        before = await stuck(run)
        with pytest.raises(WrongUse, match=r"a decision is Happened\(value\), DidNotHappen\(\) or 'fail'"):
            await app.resolve("one", "pay", decision)
        assert await run.info() == before


async def test_a_value_that_cannot_be_stored_is_refused_and_changes_nothing(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        before = await stuck(run)
        with pytest.raises(outlast.EncodingError, match=r"\$"):
            await app.resolve("one", "pay", Happened(object()))
        assert await run.info() == before


async def test_a_decided_value_is_given_as_what_the_step_returns(open_app: OpenApp) -> None:
    """A person at a command line has only JSON."""
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await stuck(run)
        await app.resolve("one", "pay", Happened({"id": "r-9", "cents": 5}))
        assert await run.result() == Receipt("r-9", 5)


@workflow
async def with_another_card() -> str:
    try:
        return (await pay(5)).id
    except Exception:  # noqa: BLE001 - as careless code does
        return "paid with another card"


@pytest.mark.parametrize("value", [{"id": "r-9"}, {"nr": 9}, "r-9", 9, None], ids=repr)
async def test_a_value_that_is_not_what_the_step_returns_leaves_it_in_doubt(open_app: OpenApp, value: Any) -> None:
    """The body must not take a person's slip for the failure of what has happened."""
    async with open_app() as app:
        run = await app.start(with_another_card(), id="one")
        await stuck(run)
        await app.resolve("one", "pay", Happened(value), attempt=1, by="ann")
        info = await eventually_says(run, "of no use")
        assert (info.status, info.reason) == ("stuck", "in_doubt")
        await app.resolve("one", "pay", Happened({"id": "r-9", "cents": 5}), attempt=1, by="ann")
        assert await run.result() == "r-9"
    assert len(sent) == 1


async def test_a_stuck_run_can_be_cancelled(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await stuck(run)
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        with pytest.raises(NotResumable):
            await app.resolve("one", "pay", DidNotHappen())
        assert len(sent) == 1


async def test_a_run_cancelled_in_doubt_is_in_doubt_again_when_it_is_resumed(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await stuck(run)
        await run.cancel()
        await failure(run)
        await app.resume("one")
        assert (await stuck(run)).reason == "in_doubt"
        await app.resolve("one", "pay", Happened(Receipt("r-9", 5)))
        assert await run.result() == Receipt("r-9", 5)
    assert len(sent) == 1


async def test_a_decision_that_it_did_not_happen_waits_until_that_has_settled(open_app: OpenApp) -> None:
    @step(effect="once", settle=3600)
    async def send() -> str:
        raise TimeoutError

    @workflow
    async def sending() -> str:
        return await send()

    async with open_app() as app:
        run = await app.start(sending())
        await stuck(run)
        await app.resolve(run.id, "send", DidNotHappen(), attempt=1)
        await reaches(run, "waiting")
        assert "3600 s to pass since the attempt could last send anything" in (await run.info()).detail
        await run.cancel()


async def test_while_its_thread_runs_nobody_is_believed_that_it_did_not_happen(open_app: OpenApp) -> None:
    """What was seen before the thread has ended says nothing of what it sends then: a person has to look again."""
    door = Door()

    @step(effect="once", timeout=0.02, settle=0)
    def send() -> str:
        sent.append("begun")
        if len(sent) == 1:
            door.pass_in_thread()
        sent.append("sent")
        return "receipt"

    @workflow
    async def sending() -> str:
        return await send.call()

    async with open_app() as app:
        run = await app.start(sending())
        await door.reached()
        await stuck(run)
        for _ in range(2):  # as often as it is said
            before = (await run.info()).claims
            await app.resolve(run.id, "send", DidNotHappen(), attempt=1)
            await eventually(partial(is_stuck_after, run, before))
            assert "wait for the code of the attempt to end, which still runs" in (await run.info()).detail
        assert sent == ["begun"]
        door.open()
        await eventually(lambda: sent == ["begun", "sent"])
        await app.resolve(run.id, "send", Happened("late receipt"), attempt=1)
        assert await run.result() == "late receipt"
        (shown,) = await run.steps()
    assert [line.partition(":")[0] for line in shown.history] == ["in doubt", "decided"] * 3


async def is_stuck_after(run: Run[Any], claims: int) -> bool:
    info = await run.info()
    return info.status == "stuck" and info.claims > claims


async def test_what_another_worker_saw_end_it_need_not_wait_for(open_app: OpenApp) -> None:
    """The code raised on a worker that lives on: another one need not wait for the attempt's time to be over."""
    async with open_app() as first:
        await stuck(await first.start(flow(), id="one"))
        await first.drain()  # it executes nothing more, and is no worker that is gone either
        async with open_app():
            await first.resolve("one", "pay", DidNotHappen(), attempt=1)
            assert await (await first.get("one")).result() == Receipt("r-live", 5)


async def test_a_decision_can_be_made_where_no_worker_is(open_app: OpenApp) -> None:
    async with open_app() as app:
        await stuck(await app.start(flow(), id="one"))
    async with open_app(worker=False) as client:
        await client.resolve("one", "pay", DidNotHappen())
        assert await (await client.get("one")).status() == "pending"
    async with open_app() as app:
        assert await (await app.get("one")).result() == Receipt("r-live", 5)
