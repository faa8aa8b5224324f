"""Time and chance in a workflow body are those of the run: the same after every restart."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from typing import Any

import pytest

import outlast
from outlast import step, workflow
from tests.behaviour.stage import OpenApp, Restart

seen: list[Any] = []


@step
async def note(what: Any) -> Any:
    return what


def first_and_last(values: list[Any]) -> tuple[Any, Any]:
    """Return what the body saw before the restart and what it saw after it, and forget both."""
    first, last = values[0], values[-1]
    assert len(values) > 1
    values.clear()
    return first, last


async def test_time_is_that_of_the_last_recorded_event(restart: Restart) -> None:
    @workflow
    async def flow() -> list[dt.datetime]:
        times = [outlast.now(), outlast.now()]
        await note(1)
        times.append(outlast.now())
        await asyncio.sleep(0.03)
        times.append(outlast.now())
        seen.append(list(times))
        await restart.point()
        return [*times, outlast.now()]

    times = await restart.result(flow())
    live, replayed = first_and_last(seen)
    assert live == replayed == times[:4]
    assert times[0] == times[1]
    assert times == sorted(times)
    assert times[3] - times[2] >= dt.timedelta(seconds=0.03)
    assert times[0].tzinfo is dt.UTC


async def test_loop_time_stands_still_between_events(restart: Restart) -> None:
    @workflow
    async def flow() -> list[float]:
        loop = asyncio.get_running_loop()
        first = loop.time()
        for _ in range(1000):
            pass
        times = [first, loop.time(), outlast.now().timestamp()]
        seen.append(times)
        await restart.point()
        return times

    await restart.result(flow())
    live, replayed = first_and_last(seen)
    assert live == replayed
    assert live[0] == live[1] == pytest.approx(live[2], abs=1e-5)


async def test_uuids_and_random_numbers_are_drawn_again_alike(restart: Restart) -> None:
    @workflow
    async def flow() -> list[Any]:
        cards = list(range(20))
        outlast.random.shuffle(cards)
        drawn: list[Any] = [
            outlast.uuid4(),
            outlast.uuid4(),
            outlast.random(),
            outlast.random.randint(1, 10**12),
            outlast.random.choice("abcdefghij"),
            outlast.random.gauss(0, 1),
            outlast.random.sample(range(1000), 5),
            outlast.random.getrandbits(300),
            cards,
        ]
        seen.append(drawn)
        await restart.point()
        return [*drawn, outlast.uuid4()]

    result = await restart.result(flow())
    live, replayed = first_and_last(seen)
    assert live == replayed == result[:-1]
    assert len({result[0], result[1], result[-1]}) == 3
    assert {u.version for u in (result[0], result[-1])} == {4}


async def test_draws_are_those_of_the_run_and_no_others(open_app: OpenApp) -> None:
    @workflow
    async def flow() -> list[Any]:
        return [outlast.uuid4(), outlast.random()]

    async with open_app() as app:
        runs = [await app.start(flow()) for _ in range(10)]
        drawn = [await run.result() for run in runs]
    assert len({str(d) for d in drawn}) == 10


async def test_seeding_by_others_changes_nothing(restart: Restart) -> None:
    @workflow
    async def flow() -> list[float]:
        outlast.random.seed(5)
        random.seed(5)
        drawn = [outlast.random(), outlast.random()]
        seen.append(drawn)
        await restart.point()
        return drawn

    await restart.result(flow())
    live, replayed = first_and_last(seen)
    assert live == replayed
    assert live[0] != live[1]


async def test_draws_of_parallel_branches_do_not_depend_on_their_interleaving(restart: Restart) -> None:
    async def branch(turns: int) -> str:
        for _ in range(turns):
            await note(turns)
        return str(outlast.uuid4())

    @workflow
    async def flow() -> list[str]:
        drawn = list(await asyncio.gather(branch(3), branch(1), branch(2)))
        seen.append(drawn)
        await restart.point()
        return drawn

    await restart.result(flow())
    live, replayed = first_and_last(seen)
    assert live == replayed
    assert len(set(live)) == 3


async def test_a_uuid_given_to_a_step_is_the_same_after_a_restart(restart: Restart) -> None:
    given: list[Any] = []

    @step
    async def use(id: Any) -> None:
        given.append(id)
        await restart.point.fn()

    @workflow
    async def flow() -> str:
        await use(outlast.uuid4())
        return "done"

    assert await restart.result(flow()) == "done"
    assert len(given) == 2
    assert given[0] == given[1]


async def test_in_a_step_time_and_chance_are_the_plain_ones(open_app: OpenApp) -> None:
    @step
    async def look() -> list[Any]:
        first = outlast.now()
        await asyncio.sleep(0.01)
        return [outlast.now() > first, outlast.uuid4(), outlast.random()]

    @workflow
    async def flow() -> list[Any]:
        return [await look(), await look()]

    async with open_app() as app:
        first, second = await (await app.start(flow())).result()
    assert first[0]
    assert first[1] != second[1]
    assert first[2] != second[2]


async def test_a_scope_keeps_its_draws_when_others_come_before_it(restart: Restart) -> None:
    @workflow
    async def flow() -> list[Any]:
        drawn: list[Any] = []
        for name in ("a", "b") if seen else ("b",):  # the second time round something came before
            with outlast.scope(name):
                drawn.append((name, outlast.uuid4()))
        seen.append(dict(drawn)["b"])
        await restart.point()
        return drawn

    await restart.result(flow())
    live, replayed = first_and_last(seen)
    assert live == replayed


async def test_sets_of_tasks_and_calls_have_one_order(restart: Restart) -> None:
    @workflow
    async def flow() -> list[Any]:
        tasks = {asyncio.create_task(note(n)) for n in range(20)}
        calls = {note(n) for n in range(20)}
        order = [await task for task in tasks] + [await call for call in calls]
        done, _ = await asyncio.wait({asyncio.create_task(note(n)) for n in range(20)})
        order += [task.result() for task in done]
        seen.append(order)
        await restart.point()
        return order

    await restart.result(flow())
    live, replayed = first_and_last(seen)
    assert live == replayed
    assert sorted(live) == sorted([*range(20)] * 3)
