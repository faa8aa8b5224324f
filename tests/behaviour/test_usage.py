"""Tokens and money: each attempt's are recorded, and a run says what it spent, spent again, and was saved."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import pytest

import outlast
from outlast import Price, Retry, Tokens, WrongUse, step, workflow
from tests.behaviour.stage import Door, OpenApp, Restart, failure, reaches, unless_it_ends

PRICES = {"small*": Price(input=1, output=10), "small-2": Price(input=2, output=20, cached=0.5)}
door = Door()
healthy: list[bool] = []


@pytest.fixture(autouse=True)
def sick() -> None:
    healthy.clear()
    door.shut()


@step(effect="pure", retry=Retry(attempts=3, initial=0.001), name="usage_ask")
async def ask(output: int, fails: int = 0, model: str = "small-1") -> int:
    outlast.record_usage(model=model, input_tokens=100, output_tokens=output)
    if outlast.attempt() <= fails:
        raise ConnectionError("cut off in the middle of an answer")
    return output


@workflow(name="usage_asking")
async def asking(*calls: tuple[int, int]) -> int:
    return sum([await ask(*call) for call in calls])


def counts(tokens: Tokens) -> tuple[int, int, int]:
    return tokens.input, tokens.output, tokens.calls


async def test_what_steps_tell_is_added_up_by_model_and_priced(open_app: OpenApp) -> None:
    @step(name="usage_several")
    async def several() -> None:
        for model, cached in (("small-1", 0), ("small-2", 40), ("small-2", 0), ("other", 0)):
            outlast.record_usage(model=model, input_tokens=100, output_tokens=5, cached_tokens=cached)
        outlast.record_usage(model="other", cost=0.25)
        outlast.annotate(temperature=1)

    @workflow(name="usage_models")
    async def flow() -> None:
        await several()

    async with open_app(prices=PRICES) as app:
        run = await app.start(flow())
        await run.result()
        usage = await run.usage()
        [info] = await run.steps()
    assert usage.models == {
        "small-1": Tokens(100, 5, 0, 1, 0.00015),
        "small-2": Tokens(200, 10, 40, 2, 0.00054),
        "other": Tokens(100, 5, 0, 2, 0.25),
    }
    assert usage.spent == info.usage == Tokens(400, 20, 40, 5, 0.25069)
    assert usage.spent.total == 420
    assert usage.again == usage.saved == Tokens()
    assert info.note == '{"temperature": 1}'


async def test_failed_attempts_count_and_are_told_apart(open_app: OpenApp) -> None:
    async with open_app(prices=PRICES) as app:
        run = await app.start(asking((1, 2), (2, 0)))
        assert await run.result() == 3
        usage = await run.usage()
        first = (await run.steps())[0]
    assert counts(usage.spent) == (400, 5, 4)
    assert counts(usage.again) == (200, 2, 2)
    assert usage.again.cost == 0.00022
    assert first.usage is not None
    assert first.usage.calls == first.attempts == 3
    assert first.note == ""


async def test_a_failure_that_is_an_outcome_is_spent_and_not_again(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(asking((1, 3)))
        assert isinstance(await failure(run), ConnectionError)
        usage = await run.usage()
    assert counts(usage.spent) == (300, 3, 3)
    assert counts(usage.again) == (200, 2, 2)


async def test_a_model_without_a_price_is_named(open_app: OpenApp) -> None:
    async with open_app(prices=PRICES) as app:
        run = await app.start(ask(1, model="unheard-of"))
        await run.result()
        usage = await run.usage()
    assert (usage.spent.cost, usage.unpriced) == (None, ("unheard-of",))


async def test_a_cost_stays_what_it_was_and_a_missing_one_is_that_of_now(open_app: OpenApp) -> None:
    async with open_app(prices={"small-1": Price(1, 1)}) as app:
        ids = [(await app.start(ask(0, model=model))).id for model in ("small-1", "late")]
        for each in ids:
            await (await app.get(each)).result()
    async with open_app(prices={"small-1": Price(9, 9), "late": Price(2, 2)}) as app:
        assert [(await (await app.get(each)).usage()).spent.cost for each in ids] == [0.0001, 0.0002]


async def test_a_step_in_a_thread_tells_it_too(open_app: OpenApp) -> None:
    @step(name="usage_in_thread")
    def think() -> None:
        outlast.record_usage(model="m", output_tokens=7)

    async with open_app() as app:
        run = await app.start(think.call())
        await run.result()
        assert counts((await run.usage()).spent) == (0, 7, 1)


async def test_what_a_late_outcome_used_counts(open_app: OpenApp) -> None:
    @step(effect="once", name="usage_late")
    async def late() -> None:
        outlast.record_usage(input_tokens=3)
        await door.passed()

    @workflow(name="usage_left_behind")
    async def flow() -> None:
        task = asyncio.create_task(late())  # type: ignore[var-annotated, arg-type]
        await ask(1)
        task.cancel()

    before = door.arrived
    async with open_app() as app:
        run = await app.start(flow())
        await unless_it_ends(run, door.reached(before + 1))
        door.open()
        await run.result()
        assert counts((await run.usage()).spent) == (103, 1, 2)


async def test_what_a_cancelled_step_used_counts(open_app: OpenApp) -> None:
    @step(effect="pure", name="usage_cancelled")
    async def endless() -> None:
        outlast.record_usage(input_tokens=3)
        await asyncio.Event().wait()

    @workflow(name="usage_cancelling")
    async def flow() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await endless()
        await ask(1)

    async with open_app() as app:
        run = await app.start(flow())
        await run.result()
        usage = await run.usage()
    assert counts(usage.spent) == (103, 1, 2)


async def test_parking_and_handing_back_save_nothing(open_app: OpenApp, restart: Restart) -> None:
    @workflow(name="usage_parked")
    async def flow() -> None:
        await ask(1)
        await outlast.receive("go")
        await restart.point()
        await ask(2)

    call = flow()
    async with open_app() as app:
        run = await app.start(call, id="one")
        await reaches(run, "waiting")
        await run.send("go")
        await unless_it_ends(run, restart._door.reached())
    restart._door.open()
    async with open_app() as app:
        run = await app.get("one")
        await run.result()
        assert (await run.info()).claims > 1
        usage = await run.usage()
    assert (counts(usage.spent), usage.saved) == ((200, 3, 2), Tokens())


async def test_a_resume_saves_what_is_recorded_and_keeps_count_of_what_it_forgets(open_app: OpenApp) -> None:
    @step(effect="pure", name="usage_flaky")
    async def flaky() -> None:
        outlast.record_usage(model="big", output_tokens=7)
        if not healthy:
            raise ValueError

    @workflow(name="usage_resumed")
    async def flow() -> None:
        await ask(1, 1)
        await flaky()
        await ask(2)

    async with open_app(prices=PRICES) as app:
        run = await app.start(flow(), id="one")
        for _ in range(2):
            assert isinstance(await failure(run), ValueError)
            await app.resume("one")
        assert isinstance(await failure(run), ValueError)
        healthy.append(True)
        await (await app.resume("one")).result()
        usage = await run.usage()
    assert usage.models["big"] == Tokens(output=28, calls=4)
    assert counts(usage.spent) == (300, 32, 7)
    assert counts(usage.again) == (100, 22, 4)  # the retry, and the outcomes that were forgotten
    assert counts(usage.saved) == (300, 3, 3)  # ask(1), three times


async def test_turns_of_a_run_add_up(open_app: OpenApp) -> None:
    @workflow(name="usage_turning")
    async def flow(left: int) -> None:
        await ask(1, 1)
        if left:
            outlast.continue_as(flow(left - 1))

    async with open_app() as app:
        run = await app.start(flow(2))
        await run.result()
        usage = await run.usage()
        assert len(await run.steps()) == 1
    assert (counts(usage.spent), counts(usage.again)) == ((600, 6, 6), (300, 3, 3))


async def test_a_fork_has_spent_nothing_for_what_was_copied(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(asking((1, 1), (2, 0)), id="one")
        await run.result()
        fork = await app.fork("one", "main/usage_ask#2")
        await fork.result()
        usage, original = await fork.usage(), await run.usage()
    assert counts(original.spent) == (300, 4, 3)
    assert counts(usage.spent) == (100, 2, 1)
    assert counts(usage.copied) == (200, 2, 2)
    assert counts(usage.saved) == (100, 1, 1)
    assert usage.again == Tokens()


async def test_children_are_counted_where_they_are_asked_for(open_app: OpenApp) -> None:
    @workflow(name="usage_parent")
    async def parent(depth: int) -> None:
        await ask(depth)
        if depth:
            await asyncio.gather(parent(depth - 1), parent(depth - 1))

    async with open_app() as app:
        run = await app.start(parent(2))
        await run.result()
        alone, family = await run.usage(), await run.usage(children=True)
    assert (counts(alone.spent), alone.runs) == ((100, 2, 1), 1)
    assert (counts(family.spent), family.runs) == ((700, 4, 7), 7)


def test_the_blocking_face_has_it(url: str) -> None:
    with outlast.sync.App(url) as app:
        run = app.start(asking((3, 0)))
        run.result()
        assert counts(run.usage().spent) == counts(run.usage(children=True).spent) == (100, 3, 1)


# -- what is refused -------------------------------------------------------------------------


async def test_outside_of_any_run_a_step_that_tells_it_is_the_plain_function() -> None:
    @step(name="usage_plain")
    async def plain() -> int:
        outlast.record_usage(input_tokens=1)
        return 5

    assert await plain() == 5


async def test_in_a_body_it_is_refused(open_app: OpenApp) -> None:
    @workflow(name="usage_in_body")
    async def flow() -> None:
        outlast.record_usage(input_tokens=1)

    async with open_app() as app:
        assert "belongs in a step" in str(await failure(await app.start(flow())))


@pytest.mark.parametrize(
    "given",
    [
        {"input_tokens": -1},
        {"output_tokens": 1.5},
        {"output_tokens": True},
        {"cached_tokens": 2, "input_tokens": 1},
        {"cost": -0.1},
        {"cost": inf},
        {"cost": "1"},
        {"model": 5},
    ],
)
def test_what_is_no_number_of_tokens_is_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(WrongUse, match=next(iter(given))):
        outlast.record_usage(**given)


@pytest.mark.parametrize(
    "price", [{"input": -1, "output": 1}, {"input": 1, "output": "2"}, {"input": 1, "output": inf}]
)
def test_what_is_no_price_is_refused(price: dict[str, Any]) -> None:
    with pytest.raises(WrongUse, match="must be a finite number"):
        Price(**price)


@pytest.mark.parametrize("prices", [{"m": 1.0}, {1: Price(1, 1)}, [Price(1, 1)]])
def test_what_are_no_prices_is_refused(open_app: OpenApp, prices: Any) -> None:
    with pytest.raises(WrongUse, match="prices="):
        open_app(prices=prices)
