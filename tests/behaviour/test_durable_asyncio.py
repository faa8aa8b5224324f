"""asyncio as everybody writes it is durable: the program may be restarted in the middle of each of these bodies."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from typing import Any

import pytest

import outlast
from outlast import RunCancelled, step, workflow
from tests.behaviour.flows import executed, note
from tests.behaviour.stage import OpenApp, Restart, failure, reaches


async def test_gather(restart: Restart) -> None:
    @workflow
    async def flow() -> list[Any]:
        first = await asyncio.gather(note("a"), note("b"), return_exceptions=True)
        return [first, await asyncio.gather(restart.point(), note("c"), note("d"))]

    assert await restart.result(flow()) == [["a", "b"], [None, "c", "d"]]
    assert sorted(executed) == ["a", "b", "c", "d"]


async def test_gather_of_nothing_and_of_plain_coroutines(restart: Restart) -> None:
    async def twice(what: str) -> list[str]:
        return [await note(what), await note(what + what)]

    @workflow
    async def flow() -> list[Any]:
        nothing = await asyncio.gather()
        some = await asyncio.gather(twice("a"), twice("b"))
        await restart.point()
        return [nothing, some, await twice("c")]

    assert await restart.result(flow()) == [[], [["a", "aa"], ["b", "bb"]], ["c", "cc"]]
    assert sorted(executed) == ["a", "aa", "b", "bb", "c", "cc"]


async def test_wait_for_in_time(restart: Restart) -> None:
    @workflow
    async def flow() -> list[Any]:
        first = await asyncio.wait_for(note("a"), 3600)
        await asyncio.wait_for(restart.point(), 3600)
        return [first, await asyncio.wait_for(note("b"), 3600)]

    assert await restart.result(flow()) == ["a", "b"]
    assert executed == ["a", "b"]


async def test_wait_for_too_late(restart: Restart) -> None:
    @step
    async def never() -> None:
        await asyncio.sleep(3600)

    @workflow
    async def flow() -> str:
        try:
            await asyncio.wait_for(never(), 0.02)
        except TimeoutError:
            await note("timed out")
        await restart.point()
        return "went on"

    assert await restart.result(flow()) == "went on"
    assert executed == ["timed out"]


async def test_timeout_blocks(restart: Restart) -> None:
    @workflow
    async def flow() -> list[Any]:
        outcomes: list[Any] = []
        async with asyncio.timeout(3600):
            outcomes.append(await note("in time"))
        try:
            async with asyncio.timeout(0.02):
                await asyncio.sleep(3600)
        except TimeoutError:
            outcomes.append("late")
        async with asyncio.timeout(3600) as limit:
            await restart.point()
            limit.reschedule(None)
        outcomes.append(limit.expired())
        return outcomes

    assert await restart.result(flow()) == ["in time", "late", False]
    assert executed == ["in time"]


async def test_sleep_returns_its_result_and_lets_others_run(restart: Restart) -> None:
    @workflow
    async def flow() -> list[Any]:
        order: list[str] = []

        async def other() -> None:
            order.append("other")

        task = asyncio.create_task(other())
        order.append(await asyncio.sleep(0.01, "slept"))
        await task
        order.append(await asyncio.sleep(0, "yielded"))
        await asyncio.sleep(-1)
        await restart.point()
        return order

    assert await restart.result(flow()) == ["other", "slept", "yielded"]


async def test_as_completed_over_tasks(restart: Restart) -> None:
    @workflow
    async def flow() -> list[Any]:
        tasks = [asyncio.create_task(note(n)) for n in range(5)]
        found = [await future for future in asyncio.as_completed(tasks)]
        await restart.point()
        return [sorted(found), found]

    in_order, _ = await restart.result(flow())
    assert in_order == [0, 1, 2, 3, 4]
    assert sorted(executed) == [0, 1, 2, 3, 4]


async def test_as_completed_over_calls(restart: Restart) -> None:
    orders: list[list[Any]] = []

    @workflow
    async def flow() -> int:
        orders.append([await future for future in asyncio.as_completed([note(n) for n in range(5)])])
        await restart.point()
        return len(orders[-1])

    assert await restart.result(flow()) == 5
    assert orders[0] == orders[1]


async def test_task_groups(restart: Restart) -> None:
    @workflow
    async def flow() -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(note(n)) for n in range(3)]
            group.create_task(restart.point())
        return [task.result() for task in tasks]

    assert await restart.result(flow()) == [0, 1, 2]
    assert sorted(executed) == [0, 1, 2]


async def test_a_task_group_cancels_the_others_when_one_fails(restart: Restart) -> None:
    @step
    async def fail() -> None:
        raise ValueError("one")

    @step
    async def never() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            executed.append("cancelled")
            raise

    @workflow
    async def flow() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(never())
                group.create_task(fail())
        except* ValueError:
            await note("failed")
        await restart.point()
        return "done"

    assert await restart.result(flow()) == "done"
    assert "failed" in executed


async def test_events_conditions_and_barriers(restart: Restart) -> None:
    @workflow
    async def flow() -> list[Any]:
        event, barrier, condition, order = asyncio.Event(), asyncio.Barrier(3), asyncio.Condition(), []

        async def waiter(n: int) -> None:
            await event.wait()
            order.append(await note(f"event {n}"))
            await barrier.wait()
            async with condition:
                order.append(f"condition {n}")
                condition.notify_all()

        tasks = [asyncio.create_task(waiter(n)) for n in range(2)]
        await restart.point()
        event.set()
        await barrier.wait()
        async with condition:
            await condition.wait_for(lambda: len(order) == 4)
        await asyncio.gather(*tasks)
        return sorted(order)

    assert await restart.result(flow()) == ["condition 0", "condition 1", "event 0", "event 1"]


async def test_locks_and_semaphores_admit_in_order(restart: Restart) -> None:
    inside: list[int] = []
    most: list[int] = []

    @step
    async def work(n: int) -> int:
        inside.append(n)
        most.append(len(inside))
        await asyncio.sleep(0)
        inside.remove(n)
        return n

    @workflow
    async def flow() -> list[Any]:
        lock, semaphore, order = asyncio.Lock(), asyncio.Semaphore(2), []

        async def locked(n: int) -> None:
            async with lock:
                order.append(await work(n))

        async def limited(n: int) -> int:
            async with semaphore:
                return int(await work(n))

        await asyncio.gather(*(locked(n) for n in range(4)))
        await restart.point()
        return [order, await asyncio.gather(*(limited(n) for n in range(4)))]

    assert await restart.result(flow()) == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert max(most) <= 2


async def test_queues(restart: Restart) -> None:
    @workflow
    async def flow() -> list[Any]:
        queue: asyncio.Queue[Any] = asyncio.Queue(maxsize=2)
        results: list[Any] = []

        async def worker() -> None:
            while True:
                item = await queue.get()
                results.append(await note(item))
                queue.task_done()

        workers = [asyncio.create_task(worker()) for _ in range(3)]
        for n in range(10):
            await queue.put(n)
            if n == 5:
                await restart.point()
        await queue.join()
        for task in workers:
            task.cancel()
        return sorted(results)

    assert await restart.result(flow()) == list(range(10))
    assert sorted(executed) == list(range(10))


async def test_async_generators_and_context_managers(restart: Restart) -> None:
    @contextlib.asynccontextmanager
    async def transaction(name: str) -> Any:
        await note(f"begin {name}")
        try:
            yield name
        finally:
            await note(f"end {name}")

    async def numbers() -> Any:
        try:
            for n in range(10):
                yield await note(n)
        finally:
            executed.append("closed")

    @workflow
    async def flow() -> list[Any]:
        found = []
        async with transaction("x"):
            async for n in numbers():
                found.append(n)
                if n == 2:
                    await restart.point()
                    break
        return found

    assert await restart.result(flow()) == [0, 1, 2]
    assert [x for x in executed if x != "closed"] == ["begin x", 0, 1, 2, "end x"]


async def test_context_variables_are_those_of_each_task(restart: Restart) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    async def branch(name: str) -> str:
        variable.set(name)
        await note(name)
        return variable.get()

    @workflow
    async def flow() -> list[str]:
        variable.set("main")
        found = await asyncio.gather(branch("a"), branch("b"))
        await restart.point()
        return [*found, variable.get()]

    assert await restart.result(flow()) == ["a", "b", "main"]


async def test_a_body_that_spins_fails_by_name_and_holds_nobody_up(open_app: OpenApp) -> None:
    @workflow
    async def spinning() -> None:
        while True:  # noqa: ASYNC110 - what this test is about
            await asyncio.sleep(0)

    async with open_app() as app:
        run, other = await app.start(spinning(), id="spin"), await app.start(flow_of_one())
        assert await other.result() == 1
        with pytest.raises(outlast.Spinning, match="run spin: the body of workflow spinning yields to itself"):
            await run.result()


@workflow
async def flow_of_one() -> int:
    return int(await note(1))


async def test_a_body_that_polls_for_a_step_gets_there(restart: Restart) -> None:
    @workflow
    async def polling() -> Any:
        task = asyncio.create_task(note("polled"))
        while not task.done():  # noqa: ASYNC110 - what this test is about
            await asyncio.sleep(0)
        await restart.point()
        return task.result()

    assert await restart.result(polling()) == "polled"
    assert executed == ["polled"]


async def test_shielded_work_is_left_to_finish(open_app: OpenApp) -> None:
    @workflow
    async def flow() -> None:
        inner = asyncio.create_task(note("shielded"))
        try:
            await asyncio.shield(inner)
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            executed.append(await inner)
            raise

    async with open_app() as app:
        run = await app.start(flow())
        await reaches(run, "waiting")
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
    assert executed[:2] == ["shielded", "shielded"]
