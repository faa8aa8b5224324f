"""A workflow called in a workflow is a run of its own; its parent is told how it ends, whatever happens to either."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast
from outlast import RunCancelled, RunConflict, WrongUse, step, workflow
from tests.behaviour.stage import Door, Ears, OpenApp, Restart, eventually, failure, reaches


@step
async def double(n: int) -> int:
    return 2 * n


@step(effect="pure")
async def think(n: int) -> int:
    return n


@workflow
async def child(n: int) -> int:
    return await double(n)


@workflow
async def sleeper() -> str:
    await asyncio.sleep(3600)
    return "woke"


@workflow
async def parent(n: int) -> int:
    return await child(n) + 1


async def test_a_child_is_a_run_of_its_own(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(parent(5), id="p")
        assert await run.result() == 11
        (info,) = await app.runs(workflow="child")
        assert info.id.startswith("p.child.")
        assert (info.status, info.parent) == ("succeeded", "p")
        assert await (await app.get(info.id)).result() == 10
        assert [(s.kind, s.id, s.value) for s in await run.steps()] == [("child", "main/child#1", 10)]


async def test_fifty_children_at_once(open_app: OpenApp) -> None:
    @workflow
    async def fan_out() -> list[int]:
        return list(await asyncio.gather(*(child(n) for n in range(50))))

    async with open_app() as app:
        run = await app.start(fan_out())
        assert await run.result() == [2 * n for n in range(50)]
        assert len(await app.runs(workflow="child")) == 50


async def test_children_of_children(open_app: OpenApp) -> None:
    @workflow
    async def tree(depth: int) -> int:
        if depth == 0:
            return 1
        return sum(await asyncio.gather(tree(depth - 1), tree(depth - 1)))

    async with open_app() as app:
        assert await (await app.start(tree(4))).result() == 16
        assert len(await app.runs(workflow="tree")) == 31


async def test_a_child_that_fails_raises_its_error_in_the_parent(open_app: OpenApp) -> None:
    @workflow
    async def failing() -> None:
        raise LookupError("in the child")

    @workflow
    async def careful() -> str:
        try:
            await failing()
        except LookupError as error:
            return str(error)
        return ""

    @workflow
    async def careless() -> None:
        await failing()

    async with open_app() as app:
        assert await (await app.start(careful())).result() == "in the child"
        run = await app.start(careless())
        assert isinstance(await failure(run), LookupError)
        assert (await run.info()).culprit == "main/failing#1"


async def test_a_child_that_is_cancelled_is_an_error_in_the_parent_and_not_a_cancellation(open_app: OpenApp) -> None:
    @workflow
    async def caring() -> str:
        try:
            await sleeper()
        except RunCancelled as error:
            return f"told: {error}"
        return ""

    async with open_app() as app:
        run = await app.start(caring(), id="p")
        await eventually(lambda: _any(app, "sleeper"))
        (info,) = await app.runs(workflow="sleeper")
        await app.cancel(info.id)
        assert "cancelled" in await run.result()


async def _any(app: outlast.App, workflow: str, status: str | None = None) -> bool:
    return bool(await app.runs(workflow=workflow, status=status))


async def test_a_child_cancelled_before_any_worker_took_it_tells_its_parent(open_app: OpenApp) -> None:
    """Each way a run can end wakes its waiters."""

    @workflow
    async def caring() -> str:
        try:
            await sleeper()
        except RunCancelled:
            return "told"
        return ""

    async with open_app(worker_concurrency=1, park_after=3600) as app:  # the parent fills the worker
        run = await app.start(caring(), id="p")
        await eventually(lambda: _any(app, "sleeper"))
        (info,) = await app.runs(workflow="sleeper")
        assert info.status == "pending"
        await app.cancel(info.id)
        assert await run.result() == "told"


async def test_a_stuck_child_keeps_its_parent_waiting_and_is_named(open_app: OpenApp) -> None:
    @step(effect="once")
    async def pay() -> str:
        raise ConnectionError

    @workflow
    async def paying() -> str:
        return await pay()

    @workflow
    async def shopping() -> str:
        return await paying()

    async with open_app() as app:
        run = await app.start(shopping(), id="p")
        await reaches(run, "waiting")
        assert "child main/paying#1" in (await run.info()).detail
        await eventually(lambda: _any(app, "paying", "stuck"))
        (info,) = await app.runs(status="stuck")
        await app.resolve(info.id, "pay", outlast.Happened("paid"))
        assert await run.result() == "paid"


async def test_a_parent_leaves_memory_while_its_child_sleeps_and_is_woken(open_app: OpenApp, ears: Ears) -> None:
    @workflow
    async def napper() -> str:
        await asyncio.sleep(0.15)
        return "rested"

    @workflow
    async def caring() -> str:
        return await napper()

    async with open_app(on_event=ears, park_after=0) as app:
        run = await app.start(caring(), id="p")
        await ears.hear("run.parked", run="p")
        assert await run.result() == "rested"
        assert len(ears.heard("run.parked")) == 2


async def test_a_child_ends_while_its_parent_is_being_parked(open_app: OpenApp) -> None:
    """No wake-up is lost, whichever comes first."""

    @workflow
    async def loop(rounds: int) -> int:
        total = 0
        for n in range(rounds):
            total += await child(n)
        return total

    async with open_app(park_after=0) as app:
        runs = [await app.start(loop(20)) for _ in range(10)]
        assert await asyncio.gather(*(run.result() for run in runs)) == [sum(2 * n for n in range(20))] * 10


async def test_a_parent_in_one_worker_and_its_child_in_another(open_app: OpenApp) -> None:
    async with open_app(worker_concurrency=1, park_after=0) as one, open_app(worker_concurrency=1, park_after=0):
        runs = [await one.start(parent(n)) for n in range(10)]
        assert await asyncio.gather(*(run.result() for run in runs)) == [2 * n + 1 for n in range(10)]


async def test_a_finished_child_is_not_started_again_after_a_restart(restart: Restart) -> None:
    executions: list[int] = []

    @step
    async def count() -> int:
        executions.append(1)
        return len(executions)

    @workflow
    async def counted() -> int:
        return await count()

    @workflow
    async def caring() -> list[int]:
        first = await counted()
        await restart.point()
        return [first, await counted()]

    assert await restart.result(caring()) == [1, 2]


# -- started and not awaited -------------------------------------------------------------------


async def test_a_started_child_goes_on_beside_its_parent(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def work() -> str:
        await door.passed()
        return "done"

    @workflow
    async def worker() -> str:
        return await work()

    @workflow
    async def starting() -> list[str]:
        started = await outlast.start(worker())
        await double(1)
        await opening()
        return [started.id, await started.result()]

    @step
    async def opening() -> None:
        await door.reached()
        door.open()

    async with open_app() as app:
        run = await app.start(starting(), id="p")
        child_id, result = await run.result()
        assert result == "done"
        assert await (await app.get(child_id)).result() == "done"


@pytest.mark.parametrize("before", ["nothing", "pure", "idempotent", "timer"])
async def test_a_child_started_at_the_very_end_exists_and_outlives_its_parent(open_app: OpenApp, before: str) -> None:
    @workflow
    async def starting() -> str:
        if before == "pure":
            await think(1)
        elif before == "idempotent":
            await double(1)
        elif before == "timer":
            await asyncio.sleep(0.01)
        return (await outlast.start(child(4))).id

    async with open_app() as app:
        child_id = await (await app.start(starting())).result()
        assert await (await app.get(child_id)).result() == 8


async def test_the_result_of_a_started_child_can_be_asked_for_again(open_app: OpenApp) -> None:
    @workflow
    async def starting() -> list[int]:
        started = await outlast.start(child(3))
        return [await started.result(), await started.result(), *await asyncio.gather(*(started.result(),) * 2)]

    async with open_app() as app:
        assert await (await app.start(starting())).result() == [6, 6, 6, 6]


async def test_a_child_can_be_given_an_id(open_app: OpenApp) -> None:
    @workflow
    async def starting() -> list[Any]:
        started = await outlast.start(child(1), id="started")
        called = await child.options(id="called")(2)
        return [started.id, await started.result(), called]

    async with open_app() as app:
        assert await (await app.start(starting())).result() == ["started", 2, 4]
        assert await (await app.get("called")).result() == 4


async def test_an_id_that_belongs_to_another_run_is_a_conflict_in_the_parent(open_app: OpenApp) -> None:
    @workflow
    async def starting(n: int) -> str:
        try:
            await child.options(id="taken")(n)
        except RunConflict as error:
            return str(error)
        return "no conflict"

    async with open_app() as app:
        other = await app.start(sleeper(), id="taken")
        assert "belongs to another run (sleeper, " in await (await app.start(starting(1), id="p")).result()
        assert await other.status() in ("running", "waiting")


async def test_an_id_that_belongs_to_the_child_of_another_parent_is_a_conflict(open_app: OpenApp) -> None:
    @workflow
    async def starting() -> int:
        return await child.options(id="taken")(1)

    async with open_app() as app:
        await (await app.start(starting(), id="first")).result()
        error = await failure(await app.start(starting(), id="second"))
    assert isinstance(error, RunConflict)
    assert "belongs to another run (child, succeeded, a child of another parent)" in str(error)


async def test_a_conflict_is_told_even_while_the_parent_is_being_parked(open_app: OpenApp) -> None:
    @workflow
    async def starting() -> str:
        try:
            await child.options(id="taken")(1)
        except RunConflict:
            return "conflict"
        return "no conflict"

    async with open_app(park_after=0) as app:
        await app.start(sleeper(), id="taken")
        runs = [await app.start(starting()) for _ in range(20)]
        assert await asyncio.gather(*(run.result() for run in runs)) == ["conflict"] * 20


async def test_a_parent_given_up_during_a_conflict_does_not_cancel_the_stranger(open_app: OpenApp) -> None:
    @workflow
    async def starting() -> str:
        task = asyncio.create_task(child.options(id="taken")(1))
        await asyncio.sleep(0)
        started = await outlast.start(child.options(id="taken")(1))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await asyncio.wait_for(started.result(), 0)
        except (TimeoutError, RunConflict):
            return "given up"
        return ""

    async with open_app() as app:
        stranger = await app.start(sleeper(), id="taken")
        run = await app.start(starting(), id="p")
        await run.result()
        assert await (await app.start(parent(1))).result() == 3  # whatever the first asked for is done by now
        assert await stranger.status() in ("running", "waiting")
        assert [s for s in await stranger.steps() if s.kind == "cancel"] == []


async def test_only_calls_of_workflows_are_started_as_children(open_app: OpenApp) -> None:
    @workflow
    async def starting() -> str:
        call = double(1)
        try:
            await outlast.start(call)  # type: ignore[arg-type]
        except WrongUse as error:
            call.close()
            return str(error)
        return ""

    async with open_app() as app:
        assert "a step is awaited" in await (await app.start(starting())).result()


async def test_a_bad_child_id_is_refused_where_it_is_given(open_app: OpenApp) -> None:
    @workflow
    async def starting(child_id: str) -> str:
        try:
            await child.options(id=child_id)(1)
        except WrongUse as error:
            return str(error)
        return "started"

    async with open_app() as app:
        for bad in ("", "x" * 256, "a\nb"):
            assert "a run id" in await (await app.start(starting(bad))).result()


async def test_arguments_that_do_not_fit_the_child_are_refused_in_the_parent(open_app: OpenApp) -> None:
    @workflow
    async def calling() -> str:
        try:
            return str(await child(1, 2, 3))  # type: ignore[call-arg]
        except TypeError as error:
            return str(error)

    async with open_app() as app:
        assert "child" in await (await app.start(calling())).result()
