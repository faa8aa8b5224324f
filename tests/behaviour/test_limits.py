"""Limits bound what a worker holds at once; they never keep work from being done."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from outlast import step, workflow
from tests.behaviour.stage import Door, Ears, OpenApp, reaches, unless_it_ends


class Gauge:
    """Counts how many are inside, and remembers the most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.inside = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.inside -= 1


def measured(gauge: Gauge) -> Any:
    """Return a step that returns its argument, and is measured meanwhile."""

    @step
    async def work(n: int) -> int:
        with gauge:
            await asyncio.sleep(0.001)
        return n

    return work


@pytest.mark.parametrize("limit", [1, 3])
async def test_more_runs_than_fit_in_memory_all_finish(open_app: OpenApp, limit: int) -> None:
    gauge = Gauge()
    work = measured(gauge)

    @workflow
    async def flow(n: int) -> int:
        return await work(n)

    async with open_app(worker_concurrency=limit) as app:
        runs = await asyncio.gather(*(app.start(flow(n)) for n in range(limit + 15)))
        assert await asyncio.gather(*(run.result() for run in runs)) == list(range(limit + 15))
    assert gauge.most <= limit


async def test_more_runs_to_take_up_again_than_fit_all_finish(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def wait(n: int) -> int:
        await door.passed()
        return n

    @workflow
    async def flow(n: int) -> int:
        return await wait(n)

    async with open_app() as app:
        for n in range(15):
            await app.start(flow(n), id=f"run-{n}")
        await door.reached(15)
    door.open()
    async with open_app(worker_concurrency=4, max_threads=2) as app:
        runs = [await app.get(f"run-{n}") for n in range(15)]
        assert await asyncio.gather(*(run.result() for run in runs)) == list(range(15))


async def test_a_parent_and_its_children_get_by_with_room_for_one(open_app: OpenApp) -> None:
    @workflow
    async def child(n: int) -> int:
        return n

    @workflow
    async def parent() -> int:
        return sum(await asyncio.gather(*(child(n) for n in range(5))))

    async with open_app(worker_concurrency=1, park_after=0.01) as app:
        assert await (await app.start(parent())).result() == 10


async def test_waiting_runs_do_not_count(open_app: OpenApp) -> None:
    @workflow
    async def sleeping() -> None:
        await asyncio.sleep(3600)

    @workflow
    async def quick() -> str:
        return "done"

    async with open_app(worker_concurrency=2) as app:
        sleepers = [await app.start(sleeping()) for _ in range(10)]
        for run in sleepers:
            await reaches(run, "waiting")
        assert await (await app.start(quick())).result() == "done"


async def test_no_more_steps_are_in_flight_than_allowed(open_app: OpenApp) -> None:
    gauge = Gauge()
    work = measured(gauge)

    @workflow
    async def fan_out() -> list[int]:
        return list(await asyncio.gather(*(work(n) for n in range(20))))

    async with open_app(max_steps=3) as app:
        runs = [await app.start(fan_out()) for _ in range(2)]
        assert [await run.result() for run in runs] == [list(range(20))] * 2
    assert gauge.most == 3


async def test_a_step_that_waits_for_a_place_can_be_given_up(open_app: OpenApp) -> None:
    door, started = Door(), []

    @step
    async def hold() -> None:
        await door.passed()

    @step
    async def second() -> None:
        started.append(1)

    @workflow
    async def flow() -> str:
        holding = asyncio.create_task(hold())
        await asyncio.sleep(0)  # so that it is called first on every Python: wait_for makes no task from 3.12 on
        try:
            await asyncio.wait_for(second(), 0.05)
        except TimeoutError:
            holding.cancel()
            return "given up"
        return ""

    async with open_app(max_steps=1) as app:
        assert await (await app.start(flow())).result() == "given up"
        assert await (await app.start(flow())).result() == "given up"  # the places were given back
    assert started == []


async def test_blocking_steps_wait_for_a_thread(open_app: OpenApp) -> None:
    gauge = Gauge()

    @step
    def work(n: int) -> int:
        with gauge:
            time.sleep(0.002)
        return n

    @workflow
    async def fan_out() -> list[int]:
        return list(await asyncio.gather(*(work.call(n) for n in range(10))))

    async with open_app(max_threads=2) as app:
        assert await (await app.start(fan_out())).result() == list(range(10))
    assert gauge.most == 2


async def test_the_time_that_a_step_waits_for_a_thread_is_not_taken_from_its_timeout(open_app: OpenApp) -> None:
    @step(timeout=1.0)
    def work(n: int) -> int:
        time.sleep(0.02)
        return n

    @workflow
    async def fan_out() -> list[int]:
        return list(await asyncio.gather(*(work.call(n) for n in range(70))))

    async with open_app(max_threads=1) as app:
        assert await (await app.start(fan_out())).result() == list(range(70))


async def test_threads_do_not_pile_up(open_app: OpenApp) -> None:
    @step
    def work() -> None: ...

    @workflow
    async def flow() -> None:
        await work.call()

    async with open_app(max_threads=4) as app:
        for _ in range(30):
            await (await app.start(flow())).result()
        assert sum(thread.name.startswith("outlast-step") for thread in threading.enumerate()) <= 4


async def test_a_step_that_blocks_the_loop_is_named(open_app: OpenApp, ears: Ears) -> None:
    stop = threading.Event()

    @step
    async def blocking() -> None:
        stop.wait(10)  # what must not be done in an async step

    @workflow
    async def flow() -> None:
        await blocking()

    def listen(notice: object) -> None:
        if getattr(notice, "name", "") == "loop.blocked":
            stop.set()

    async with open_app(on_event=[ears, listen]) as app:
        await (await app.start(flow(), id="one")).result()
    (notice,) = ears.heard("loop.blocked")
    assert "step main/blocking#1 of run one" in notice.data["where"]
    assert notice.data["seconds"] >= 1


async def test_a_body_that_blocks_the_loop_is_named(open_app: OpenApp, ears: Ears) -> None:
    stop = threading.Event()

    @workflow
    async def blocking_body() -> None:
        stop.wait(10)

    def listen(notice: object) -> None:
        if getattr(notice, "name", "") == "loop.blocked":
            stop.set()

    async with open_app(on_event=[ears, listen]) as app:
        await (await app.start(blocking_body(), id="one")).result()
    (notice,) = ears.heard("loop.blocked")
    assert "if this is a workflow body, move slow work into a step" in notice.data["where"]


async def test_a_blocked_loop_does_not_cost_the_lease(open_app: OpenApp, ears: Ears) -> None:
    """Beats come from a thread that user code cannot stall."""
    executions: list[int] = []

    @step
    async def blocking() -> str:
        executions.append(1)
        time.sleep(0.9)  # noqa: ASYNC251 - three leases long, what must not be done
        return "done"

    @workflow
    async def flow() -> str:
        return await blocking()

    async with open_app(on_event=ears, lease=0.3) as app:
        run = await app.start(flow())
        assert await run.result() == "done"
        assert (await run.info()).claims == 1
    assert len(executions) == 1
    assert not ears.heard("worker.lost_lease")


async def test_a_long_run_of_short_steps_keeps_its_lease(open_app: OpenApp, ears: Ears) -> None:
    @step
    async def short(n: int) -> int:
        await asyncio.sleep(0.05)
        return n

    @workflow
    async def flow() -> int:
        return sum([await short(n) for n in range(10)])

    async with open_app(on_event=ears, lease=0.2) as app:
        run = await app.start(flow())
        await unless_it_ends(run, ears.hear("step.ended"))
        assert await run.result() == 45
        assert (await run.info()).claims == 1
