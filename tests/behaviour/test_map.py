"""`outlast.map`: results in the items' order, so many at a time, and what errors make of the rest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast
from outlast import RunCancelled, WrongUse, step, workflow
from tests.behaviour.flows import executed
from tests.behaviour.stage import Door, OpenApp, failed_with, reaches


class Busy:
    """Counts how many are in a step at a time."""

    def __init__(self) -> None:
        self.now = self.most = 0


busy = Busy()


@step(effect="pure")
async def double(n: int) -> int:
    busy.now += 1
    busy.most = max(busy.most, busy.now)
    await asyncio.sleep(0)
    busy.now -= 1
    if n < 0:
        raise ValueError(n)
    return 2 * n


@step(effect="pure")
def triple(n: int) -> int:
    return 3 * n


@workflow
async def child(n: int) -> int:
    return await double(n)


@workflow
async def mapped(items: list[int], limit: int | None = None) -> list[int]:
    return await outlast.map(double, items, limit=limit)


@workflow
async def children(items: list[int], limit: int | None = None) -> list[int]:
    return await outlast.map(child, items, limit=limit)


@workflow
async def tolerant(items: list[int], least: int) -> list[Any]:
    return [repr(v) if isinstance(v, Exception) else v for v in await outlast.map(double, items, min_successful=least)]


@workflow
def in_a_thread(items: list[int], limit: int | None, least: int | None) -> list[Any]:
    found = outlast.sync.map(double, items, limit=limit, min_successful=least)
    return [repr(value) if isinstance(value, Exception) else value for value in found]


@pytest.mark.parametrize("flow", [mapped, children], ids=["steps", "children"])
@pytest.mark.parametrize("limit", [None, 1, 3, 100])
async def test_results_stand_in_the_order_of_the_items(open_app: OpenApp, flow: Any, limit: int | None) -> None:
    async with open_app() as app:
        assert await (await app.start(flow([*range(7)], limit))).result() == [2 * n for n in range(7)]


async def test_of_no_items_there_are_no_results(open_app: OpenApp) -> None:
    async with open_app() as app:
        assert await (await app.start(mapped([]))).result() == []
        assert await (await app.start(tolerant([], 0))).result() == []
        assert await (await app.start(in_a_thread([], None, None))).result() == []


async def test_calls_are_known_by_the_places_of_their_items(open_app: OpenApp) -> None:
    @workflow
    async def twice() -> list[int]:
        first = await outlast.map(double, [1, 2], limit=1)
        return first + await outlast.map(double, [3]) + [await double(4)]

    async with open_app() as app:
        run = await app.start(twice())
        assert await run.result() == [2, 4, 6, 8]
        ids = [(s.id, s.value) for s in await run.steps()]
        assert ids == [
            ("main.map#1/double#1", 2),
            ("main.map#1/double#2", 4),
            ("main.map#2/double#1", 6),
            ("main/double#1", 8),
        ]


async def test_no_more_than_the_limit_are_under_way(open_app: OpenApp) -> None:
    busy.most = 0
    async with open_app() as app:
        await (await app.start(mapped([*range(20)], 3))).result()
    assert busy.most <= 3


async def test_a_sync_step_and_a_function_that_makes_the_call(open_app: OpenApp) -> None:
    @workflow
    async def both() -> list[int]:
        return await outlast.map(triple, [1, 2]) + await outlast.map(lambda n: double(n + 1), [1, 2])

    async with open_app() as app:
        assert await (await app.start(both())).result() == [3, 6, 4, 6]


@pytest.mark.parametrize("flow", [mapped, children], ids=["steps", "children"])
@pytest.mark.parametrize("limit", [None, 2])
async def test_the_first_error_is_raised(open_app: OpenApp, flow: Any, limit: int | None) -> None:
    async with open_app() as app:
        error = await failed_with(await app.start(flow([1, -5, 2, 3], limit)), ValueError)
        assert error.args == (-5,)


async def test_an_error_cancels_the_rest_and_waits_for_them(open_app: OpenApp) -> None:
    door = Door()
    ended = []

    @step
    async def work(n: int) -> None:
        if n == 1:
            await door.reached(2)
            raise LookupError(n)
        try:
            await door.passed()
        finally:
            ended.append(n)

    @workflow
    async def flow() -> None:
        await outlast.map(work, [0, 1, 2])

    async with open_app() as app:
        await failed_with(await app.start(flow()), LookupError)
    assert sorted(ended) == [0, 2]


async def test_what_was_not_begun_when_it_failed_never_begins(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(mapped([-1, 2, 3], 1))
        await failed_with(run, ValueError)
        assert [s.id for s in await run.steps()] == ["main.map#1/double#1"]


async def test_enough_successes_let_errors_stand_in_their_places(open_app: OpenApp) -> None:
    async with open_app() as app:
        assert await (await app.start(tolerant([1, -2, 3], 2))).result() == [2, "ValueError(-2)", 6]
        assert await (await app.start(tolerant([-1], 0))).result() == ["ValueError(-1)"]


async def test_too_few_successes_are_a_group_of_the_errors(open_app: OpenApp) -> None:
    async with open_app() as app:
        error = await failed_with(await app.start(tolerant([1, -2, -3], 2)), ExceptionGroup)
        assert "of 3 calls 2 failed, and 2 had to succeed" in str(error)
        assert [e.args for e in error.exceptions] == [(-2,), (-3,)]


@pytest.mark.parametrize("limit", [None, 1, 2])
async def test_a_sync_workflow_maps_too(open_app: OpenApp, limit: int | None) -> None:
    async with open_app() as app:
        assert await (await app.start(in_a_thread([1, 2, 3], limit, None))).result() == [2, 4, 6]
        assert await (await app.start(in_a_thread([1, -2, 3], limit, 2))).result() == [2, "ValueError(-2)", 6]
        assert (await failed_with(await app.start(in_a_thread([1, -2, 3], limit, None)), ValueError)).args == (-2,)
        await failed_with(await app.start(in_a_thread([-1, -2, 3], limit, 2)), ExceptionGroup)


async def test_a_parent_that_maps_children_parks_and_a_restart_goes_on(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def wait(n: int) -> int:
        await door.passed()
        return n

    @workflow
    async def waiting(n: int) -> int:
        return await wait(n)

    @workflow
    async def parent() -> list[int]:
        return await outlast.map(waiting, [1, 2, 3], limit=2)

    async with open_app() as app:
        run = await app.start(parent(), id="p")
        await door.reached(2)
        await reaches(run, "waiting")
    door.open()
    async with open_app() as app:
        assert await (await app.get("p")).result() == [1, 2, 3]
        assert len(await app.runs(workflow="waiting")) == 3


async def test_cancelling_the_run_cancels_all_of_its_calls(open_app: OpenApp) -> None:
    @workflow
    async def sleeper(n: int) -> None:
        await asyncio.sleep(3600)

    @workflow
    async def parent() -> None:
        await outlast.map(sleeper, range(3))

    async with open_app() as app:
        run = await app.start(parent())
        await reaches(run, "waiting")
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
        for info in await app.runs(workflow="sleeper"):
            await reaches(await app.get(info.id), "cancelled")


@pytest.mark.parametrize(
    "given",
    [{"limit": 0}, {"limit": 1.5}, {"limit": True}, {"min_successful": -1}, {"min_successful": 3}, {"fn": len}],
)
async def test_what_makes_no_sense_is_refused(open_app: OpenApp, given: dict[str, Any]) -> None:
    settings = dict(given)
    fn = settings.pop("fn", double)

    @workflow
    async def flow() -> None:
        await outlast.map(fn, ["a", "b"], **settings)

    async with open_app() as app:
        await failed_with(await app.start(flow()), WrongUse)


async def test_it_belongs_in_a_workflow() -> None:
    with pytest.raises(WrongUse, match=r"outlast.map\(\) belongs in a workflow"):
        outlast.map(double, [1])
    with pytest.raises(WrongUse, match=r"outlast.sync.map\(\) belongs in a workflow"):
        outlast.sync.map(double, [1])


async def test_a_finished_item_is_not_executed_again_after_a_restart(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def first_then_wait(n: int) -> int:
        executed.append(n)
        if n:
            await door.passed()
        return n

    @workflow
    async def flow() -> list[int]:
        return await outlast.map(first_then_wait, [0, 1])

    executed.clear()
    async with open_app() as app:
        run = await app.start(flow(), id="r")
        await door.reached()
    door.open()
    async with open_app() as app:
        run = await app.get("r")
        assert await run.result() == [0, 1]
    assert executed.count(0) == 1
