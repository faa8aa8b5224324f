"""A usage that is not known is not taken for nothing: a budget then refuses, and a run without one says so."""

from __future__ import annotations

from typing import Any

import pytest

import outlast
from outlast import BudgetExceeded, Retry, step, workflow
from tests.behaviour.flows import executed, note
from tests.behaviour.stage import Ears, OpenApp, Restart, failed_with


@step(effect="pure", name="unknown_ask", spends=True, retry=Retry(attempts=9, initial=0.001))
async def ask(n: int, *, tells: bool = False, fails: int = 0) -> int:
    executed.append(n)
    if outlast.attempt() <= fails:
        raise ConnectionError
    if tells:
        outlast.record_usage(model="m", input_tokens=n)
    return n


@workflow(name="unknown_asking")
async def asking(*calls: int, tells: bool = False, fails: int = 0) -> list[int]:
    return [await ask(n, tells=tells, fails=fails) for n in calls]


@pytest.mark.parametrize("limit", ["max_tokens", "max_cost"])
async def test_the_call_after_one_that_told_nothing_is_refused(open_app: OpenApp, limit: str) -> None:
    limits: Any = {limit: 10}
    async with open_app() as app:
        run = await app.start(asking.options(**limits)(1, 2), id="one")
        error = await failed_with(run, BudgetExceeded)
        assert "run one: step main/unknown_ask#2 was not begun" in str(error)
        assert "calls of the steps 'unknown_ask' (1) have told nothing of it, and the run has a budget" in str(error)
        assert f"give it a budget again: outlast resume one --{limit.replace('_', '-')} N" in str(error)
        assert (error.spent, error.limit) == (0, 10)
        assert (await run.usage()).unknown == {"unknown_ask": 1}
    assert executed == [1]


async def test_steps_that_call_no_model_go_on(open_app: OpenApp) -> None:
    @workflow(name="unknown_caught", max_tokens=9)
    async def flow() -> Any:
        await ask(1)
        with pytest.raises(BudgetExceeded, match="is not known"):
            await ask(2)
        return await note("told a person")

    async with open_app() as app:
        assert await (await app.start(flow())).result() == "told a person"
    assert executed == [1, "told a person"]


async def test_a_run_without_a_budget_goes_on_and_says_so_once(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears) as app:
        run = await app.start(asking(1, 2, 3), id="one")
        assert await run.result() == [1, 2, 3]
        assert (await run.usage()).unknown == {"unknown_ask": 3}
        told = await app.start(asking(1, tells=True), id="told")
        await told.result()
        assert (await told.usage()).unknown == {}
        [info] = await told.steps()
    [notice] = ears.heard("step.usage_unknown")
    assert notice.data == {"run": "one", "step": "main/unknown_ask#1"}
    assert info.note == ""


async def test_a_step_can_say_that_it_used_nothing(open_app: OpenApp) -> None:
    @step(effect="pure", name="unknown_cached", spends=True)
    async def cached() -> None:
        outlast.record_usage()

    @workflow(name="unknown_none", max_tokens=1)
    async def flow() -> None:
        await cached()
        await cached()

    async with open_app() as app:
        run = await app.start(flow())
        await run.result()
        assert (await run.usage()).unknown == {}


async def test_calls_that_failed_are_not_asked_what_they_used(open_app: OpenApp) -> None:
    @workflow(name="unknown_failing", max_tokens=100)
    async def flow() -> int:
        await ask(1, tells=True, fails=2)
        with pytest.raises(ConnectionError):
            await ask.options(retry=None)(2, fails=1)
        return await ask(3, tells=True)

    async with open_app() as app:
        run = await app.start(flow())
        assert await run.result() == 3
        usage = await run.usage()
    assert (usage.spent.total, usage.unknown) == (4, {})


async def test_a_resume_with_a_budget_lets_such_steps_go_on_and_another_does_not(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(asking.options(max_tokens=10)(1, 2, 3), id="one")
        await failed_with(run, BudgetExceeded)
        await app.resume("one")
        await failed_with(run, BudgetExceeded)
        await app.resume("one", max_tokens=10)
        assert await run.result() == [1, 2, 3]
        usage = await run.usage()
    assert (usage.unknown, usage.max_tokens) == ({"unknown_ask": 3}, 10)
    assert executed == [1, 2, 3]


async def test_a_resume_accepts_the_steps_that_were_named_and_no_others(open_app: OpenApp) -> None:
    @step(effect="pure", name="unknown_other", spends=True)
    async def other() -> None:
        executed.append("other")

    @workflow(name="unknown_two_kinds", max_tokens=10)
    async def flow() -> None:
        await ask(1)
        await other()
        await ask(2)

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await failed_with(run, BudgetExceeded)
        await app.resume("one", max_tokens=10)
        assert "of the steps 'unknown_other' (1)" in str(await failed_with(run, BudgetExceeded))
    assert executed == [1, "other"]


async def test_what_a_resume_forgets_stays_unknown(open_app: OpenApp) -> None:
    healthy: list[bool] = []

    @step(effect="pure", name="unknown_judge")
    async def judge() -> None:
        if not healthy:
            raise ValueError("no good")

    @workflow(name="unknown_forgotten")
    async def flow() -> None:
        try:
            await judge()
        finally:
            await ask(1)

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await failed_with(run, ValueError)
        healthy.append(True)
        await app.resume("one")
        await run.result()
        assert (await run.usage()).unknown == {"unknown_ask": 2}
    assert executed == [1, 1]


# -- what it outlives ---------------------------------------------------------------------------


@pytest.mark.parametrize("loop", ["deterministic", "native"])
async def test_it_is_known_after_a_restart(open_app: OpenApp, restart: Restart, ears: Ears, loop: Any) -> None:
    @workflow(name=f"unknown_restarted_{loop}", max_tokens=9, loop=loop)
    async def flow() -> str:
        await ask(1)
        await restart.point()
        try:
            await ask(2)
        except BudgetExceeded as error:
            return str(error)
        return "begun"

    assert "what the run has used is not known" in await restart.result(flow(), on_event=ears)
    assert executed == [1]
    assert len(ears.heard("step.usage_unknown")) == 1


async def test_turns_of_a_run_keep_it(open_app: OpenApp) -> None:
    @workflow(name="unknown_turning", max_tokens=9)
    async def flow(turn: int) -> None:
        await (ask(1) if turn == 1 else note("again"))
        if turn < 3:
            outlast.continue_as(flow(turn + 1))
        await ask(2)

    async with open_app() as app:
        run = await app.start(flow(1))
        await failed_with(run, BudgetExceeded)
        assert (await run.usage()).unknown == {"unknown_ask": 1}
        await app.resume(run.id, max_tokens=9)
        await run.result()
    assert executed == [1, "again", "again", 2]


async def test_a_fork_has_it_from_what_it_copies(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(asking.options(max_tokens=9)(1, 2, 3), id="one")
        await failed_with(run, BudgetExceeded)
        fork = await app.fork("one", "main/unknown_ask#2")
        await failed_with(fork, BudgetExceeded)
        await app.resume("one", max_tokens=9)
        await run.result()
        accepted = await app.fork("one", "main/unknown_ask#2")
        assert await accepted.result() == [1, 2, 3]
        assert (await accepted.usage()).unknown == {"unknown_ask": 3}
    assert executed == [1, 2, 3, 2, 3]


async def test_children_are_counted_where_they_are_asked_for(open_app: OpenApp) -> None:
    @workflow(name="unknown_parent")
    async def parent() -> None:
        await ask(1)
        await asking(1, 2)

    async with open_app() as app:
        run = await app.start(parent())
        await run.result()
        assert (await run.usage()).unknown == {"unknown_ask": 1}
        assert (await run.usage(children=True)).unknown == {"unknown_ask": 3}
