"""A run that has used up its budget begins no further call of a model, whatever became of it in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast
from outlast import BudgetExceeded, Price, Retry, WrongUse, step, workflow
from tests.behaviour.flows import executed, note
from tests.behaviour.stage import Door, OpenApp, Restart, failed_with, unless_it_ends

PRICES = {"m": Price(input=1000, output=1000)}  # 0.001 each
both = Door()


@step(effect="pure", name="budget_ask", retry=Retry(attempts=9, initial=0.001))
async def ask(tokens: int, model: str = "m", fails: int = 0) -> int:
    executed.append(tokens)
    outlast.record_usage(model=model, input_tokens=tokens)
    if outlast.attempt() <= fails:
        raise ConnectionError
    return tokens


@workflow(name="budget_asking")
async def asking(*calls: int) -> list[int]:
    return [await ask(tokens) for tokens in calls]


async def test_the_call_after_the_budget_is_used_up_is_refused(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(asking.options(max_tokens=10)(4, 6, 1), id="one")
        error = await failed_with(run, BudgetExceeded)
        assert (error.spent, error.limit) == (10, 10)
        assert "run one: step main/budget_ask#3 was not begun: the run has used 10 tokens" in str(error)
        assert "outlast resume one --max-tokens N" in str(error)
        info = await run.info()
        usage = await run.usage()
    assert (info.status, info.culprit) == ("failed", "main/budget_ask#3")
    assert (usage.max_tokens, usage.spent.total) == (10, 10)
    assert executed == [4, 6]


async def test_a_cost_is_a_budget_too(open_app: OpenApp) -> None:
    async with open_app(prices=PRICES) as app:
        run = await app.start(asking.options(max_cost=0.01)(4, 5, 1, 1))
        error = await failed_with(run, BudgetExceeded)
    assert (error.spent, error.limit) == (0.01, 0.01)
    assert executed == [4, 5, 1]


async def test_a_cost_that_is_not_known_is_never_taken_for_nothing(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(asking.options(max_cost=1)(4, 5))
        assert "no price for the model 'm'" in str(await failed_with(run, BudgetExceeded))
    async with open_app(prices=PRICES) as app:
        assert await (await app.resume(run.id)).result() == [4, 5]
    assert executed == [4, 5]


async def test_the_workflows_own_budget_is_for_each_run_of_it(open_app: OpenApp) -> None:
    @workflow(name="budget_usual", max_tokens=3)
    async def flow(*calls: int) -> list[int]:
        return [await ask(tokens) for tokens in calls]

    @workflow(name="budget_parent")
    async def parent() -> list[int]:
        await ask(100)
        return await flow(1, 1, 1)

    async with open_app() as app:
        await failed_with(await app.start(flow(3, 1)), BudgetExceeded)
        assert await (await app.start(flow.options(max_tokens=4)(3, 1))).result() == [3, 1]
        assert await (await app.start(parent())).result() == [1, 1, 1]


async def test_other_steps_go_on(open_app: OpenApp) -> None:
    @workflow(name="budget_caught", max_tokens=1)
    async def flow() -> Any:
        await ask(1)
        with pytest.raises(BudgetExceeded):
            await ask(1)
        with pytest.raises(BudgetExceeded):
            await ask(1)
        return await note("told a person")

    async with open_app() as app:
        assert await (await app.start(flow())).result() == "told a person"
    assert executed == [1, "told a person"]


async def test_a_step_that_says_that_it_spends_is_refused_before_it_has_told_anything(open_app: OpenApp) -> None:
    @step(effect="once", name="budget_spender", spends=True)
    async def spender() -> str:
        executed.append("spender")
        return "spent"

    @workflow(name="budget_spending", max_tokens=1)
    async def flow(*, plain: bool) -> str:
        await ask(1)
        return await (spender.options(spends=False) if plain else spender)()

    async with open_app() as app:
        await failed_with(await app.start(flow(plain=False)), BudgetExceeded)
        assert await (await app.start(flow(plain=True))).result() == "spent"
    assert executed == [1, 1, "spender"]


async def test_retries_end_with_the_budget(open_app: OpenApp) -> None:
    @workflow(name="budget_retrying", max_tokens=3)
    async def flow() -> int:
        return await ask(1, fails=8)

    async with open_app() as app:
        run = await app.start(flow())
        await failed_with(run, BudgetExceeded)
        assert (await run.usage()).spent.calls == 3
    assert executed == [1, 1, 1]


async def test_calls_that_have_begun_are_not_stopped(open_app: OpenApp) -> None:
    @step(effect="pure", name="budget_together", spends=True)
    async def together() -> None:
        await both.passed()
        outlast.record_usage(input_tokens=5)

    @workflow(name="budget_gathering", max_tokens=5)
    async def flow() -> None:
        await asyncio.gather(together(), together())
        await together()

    both.shut()
    before = both.arrived
    async with open_app() as app:
        run = await app.start(flow())
        await unless_it_ends(run, both.reached(before + 2))
        both.open()
        assert (await failed_with(run, BudgetExceeded)).spent == 10


async def test_a_native_body_is_held_to_it(open_app: OpenApp) -> None:
    @workflow(name="budget_native", loop="native", max_tokens=2)
    async def flow() -> list[int]:
        return [await ask(n) for n in (1, 2, 3)]

    async with open_app() as app:
        await failed_with(await app.start(flow()), BudgetExceeded)
    assert executed == [1, 2]


# -- what a budget outlives ---------------------------------------------------------------------


async def test_it_holds_after_a_restart_and_replay_sees_the_same_refusal(open_app: OpenApp, restart: Restart) -> None:
    @workflow(name="budget_restarted", max_tokens=2)
    async def flow() -> list[str]:
        said = []
        for tokens in (2, 1):
            try:
                said.append(str(await ask(tokens)))
            except BudgetExceeded as error:
                said.append(f"{error.spent} of {error.limit}")
        await restart.point()
        try:
            await ask(1)
        except BudgetExceeded as error:
            said.append(f"{error.spent} of {error.limit}")
        return said

    assert await restart.result(flow()) == ["2", "2 of 2", "2 of 2"]
    assert executed == [2]


async def test_a_resume_goes_on_only_with_more(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(asking.options(max_tokens=2)(2, 3, 4), id="one")
        await failed_with(run, BudgetExceeded)
        await app.resume("one")
        await failed_with(run, BudgetExceeded)
        await app.resume("one", max_tokens=5)
        assert (await failed_with(run, BudgetExceeded)).limit == 5
        await app.resume("one", max_tokens=6)
        assert await run.result() == [2, 3, 4]
        assert (await run.usage()).max_tokens == 6
    assert executed == [2, 3, 4]


async def test_it_is_for_all_turns_together(open_app: OpenApp) -> None:
    @workflow(name="budget_turning", max_tokens=5)
    async def flow(turn: int) -> None:
        await ask(2)
        outlast.continue_as(flow(turn + 1))

    async with open_app() as app:
        run = await app.start(flow(1))
        assert (await failed_with(run, BudgetExceeded)).spent == 6
        assert (await run.info()).turn == 4
    assert executed == [2, 2, 2]


async def test_a_turn_of_another_durability_keeps_it(open_app: OpenApp) -> None:
    @workflow(name="budget_other_durability", max_tokens=2)
    async def flow(turn: int) -> None:
        await ask(2)
        outlast.continue_as(flow.options(durability="async")(turn + 1))

    async with open_app() as app:
        run = await app.start(flow(1))
        await failed_with(run, BudgetExceeded)
        assert (await run.info()).durability == "async"


async def test_a_fork_has_it_and_what_it_copies_counts(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(asking.options(max_tokens=5)(2, 3, 4), id="one")
        await failed_with(run, BudgetExceeded)
        await app.resume("one", max_tokens=6)
        await run.result()
        fork = await app.fork("one", "main/budget_ask#3")
        assert await fork.result() == [2, 3, 4]
        tight = await app.start(asking.options(max_tokens=6)(2, 3, 4, 5), id="two")
        await failed_with(tight, BudgetExceeded)
        again = await app.fork("two", "main/budget_ask#4")
        assert (await failed_with(again, BudgetExceeded)).spent == 9
    assert executed == [2, 3, 4, 4, 2, 3, 4]


async def test_a_fork_of_a_later_turn_counts_the_earlier_ones(open_app: OpenApp) -> None:
    @workflow(name="budget_forked_turn", max_tokens=4)
    async def flow(turn: int) -> str:
        await ask(2)
        if turn < 2:
            outlast.continue_as(flow(turn + 1))
        await note("last")
        return "done"

    async with open_app() as app:
        run = await app.start(flow(1), id="one")
        await run.result()
        fork = await app.fork("one", "main/note#1")
        await fork.result()
        usage = await fork.usage()
        assert (usage.copied.total, usage.spent.total) == (4, 0)
        repeated = await app.fork("one", "main/budget_ask#1")
        await repeated.result()
        usage = await repeated.usage()
        assert (usage.copied.total, usage.spent.total) == (2, 2)


async def test_runs_of_a_schedule_have_it(open_app: OpenApp) -> None:
    @workflow(name="budget_scheduled", max_tokens=2)
    async def flow() -> None:
        await ask(2)
        await ask(2)

    async with open_app() as app:
        schedule = await app.schedule("budgets", flow(), every=3600)
        await failed_with(await schedule.trigger(), BudgetExceeded)


@pytest.mark.parametrize(
    "limits", [{"max_tokens": 0}, {"max_tokens": 1.5}, {"max_tokens": True}, {"max_cost": 0}, {"max_cost": "1"}]
)
async def test_a_budget_that_makes_no_sense_is_refused(open_app: OpenApp, limits: dict[str, Any]) -> None:
    name = next(iter(limits))
    with pytest.raises(WrongUse, match=f"{name}=.*: must be a"):
        asking.options(**limits)
    with pytest.raises(WrongUse, match=name):
        workflow(**limits)
    async with open_app() as app:
        with pytest.raises(WrongUse, match=rf"app\.resume\({name}="):
            await app.resume("one", **limits)
