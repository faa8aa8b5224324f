"""A plain function as a workflow: one thread, one branch, the same calls, and the same durability."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import outlast
from outlast import Happened, Retry, StepTimeout, step, workflow
from outlast.sync import sleep, start
from tests.behaviour.flows import add, add_async, executed, summing
from tests.behaviour.stage import Door, Ears, OpenApp, eventually, failure, reaches, stuck, unless_it_ends


def stopping(door: Door) -> Any:
    """Return a step that stops at the door, in a thread."""

    @step
    def stop() -> str:
        door.pass_in_thread()
        return "passed"

    return stop


async def test_a_sync_step_called_directly_gives_its_value(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(summing(5))
        assert await run.result() == 10
        assert [s.id for s in await run.steps()] == [f"main/add#{n}" for n in range(1, 6)]


async def test_calls_start_at_once_and_results_are_waited_for(open_app: OpenApp) -> None:
    together = threading.Barrier(3, timeout=10)

    @step
    def meet(n: int) -> int:
        together.wait()
        return n

    @workflow
    def meeting() -> list[int]:
        calls = [meet.call(n) for n in range(3)]
        return [call.result() for call in reversed(calls)]

    async with open_app() as app:
        assert await (await app.start(meeting())).result() == [2, 1, 0]


async def test_an_async_step_is_called_the_same_way(open_app: OpenApp) -> None:
    @workflow
    def mixed() -> list[int]:
        first = add_async(1, 2)
        second = add_async.call(3, 4)
        return [first.result(), second.result(), second.result(), add.call(5, 6).result()]

    async with open_app() as app:
        assert await (await app.start(mixed())).result() == [3, 7, 7, 11]


async def test_errors_come_back_as_themselves(open_app: OpenApp) -> None:
    @step
    def failing(n: int) -> None:
        raise LookupError(n)

    @workflow
    def catching() -> str:
        try:
            failing(5)
        except LookupError as error:
            return f"caught {error}"
        return ""

    @workflow
    def careless() -> None:
        failing(6)

    async with open_app() as app:
        assert await (await app.start(catching())).result() == "caught 5"
        run = await app.start(careless())
        back = await failure(run)
        assert (type(back), back.args) == (LookupError, (6,))
        assert (await run.info()).culprit == "main/failing#1"


async def test_retries_timeouts_and_options_work_alike(open_app: OpenApp) -> None:
    attempts: list[int] = []

    @step(retry=Retry(attempts=3, initial=0))
    def flaky() -> int:
        attempts.append(outlast.attempt())
        if outlast.attempt() < 3:
            raise ConnectionError
        return outlast.attempt()

    @step
    async def slow() -> None:
        await asyncio.sleep(3600)

    @workflow
    def trying() -> list[Any]:
        found: list[Any] = [flaky(), add.options(key="x")(1, 2)]
        try:
            slow.options(timeout=0.02)().result()
        except StepTimeout:
            found.append("timed out")
        return found

    async with open_app() as app:
        run = await app.start(trying())
        assert await run.result() == [3, 3, "timed out"]
        assert [s.id for s in await run.steps()] == ["main/flaky#1", "main/add[x]", "main/slow#1"]
    assert attempts == [1, 2, 3]


async def test_a_restart_in_the_middle_runs_no_finished_step_again(open_app: OpenApp) -> None:
    door = Door()
    stop = stopping(door)

    @workflow
    def flow() -> list[Any]:
        first = add(1, 2)
        later = add.call(3, 4)
        stopped = stop()
        return [first, later.result(), stopped, add(5, 6), str(outlast.uuid4())]

    async with open_app(lease=0.3) as app:
        run = await app.start(flow(), id="one")
        await unless_it_ends(run, door.reached())

        async def both_are_recorded() -> bool:
            return len(await run.steps()) == 2

        await eventually(both_are_recorded)
    door.open()
    async with open_app() as app:
        found = await (await app.get("one")).result()
    assert found[:4] == [3, 7, "passed", 11]
    assert sorted(executed) == [(1, 2), (3, 4), (5, 6)]


async def test_a_sleep_is_durable_and_leaves_memory(open_app: OpenApp, ears: Ears) -> None:
    @workflow
    def napping(seconds: float) -> list[Any]:
        first = add(1, 1)
        before = outlast.now()
        sleep(seconds)
        return [first, (outlast.now() - before).total_seconds() >= seconds]

    async with open_app(on_event=ears, park_after=0) as app:
        run = await app.start(napping(0.2), id="one")
        await ears.hear("run.parked", run="one")
        assert await run.result() == [2, True]
        resting = await app.start(napping(3600), id="two")
        await reaches(resting, "waiting")
        await eventually(lambda: "outlast-two" not in {thread.name for thread in threading.enumerate()})
    assert executed == [(1, 1), (1, 1)]


async def test_many_at_once(open_app: OpenApp) -> None:
    async with open_app(park_after=0) as app:
        runs = [await app.start(summing(5)) for _ in range(60)]
        assert await asyncio.gather(*(run.result() for run in runs)) == [10] * 60


# -- once, children, changes ------------------------------------------------------------------------


async def test_a_doubt_is_decided_like_any_other(open_app: OpenApp) -> None:
    @step(effect="once")
    def pay() -> str:
        executed.append("sent")
        raise TimeoutError

    @workflow
    def flow() -> str:
        return pay()

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        assert (await stuck(run)).reason == "in_doubt"
        await app.resolve("one", "pay", Happened("receipt"))
        assert await run.result() == "receipt"
    assert executed == ["sent"]


async def test_children_are_started_by_a_call_and_awaited_by_result(open_app: OpenApp) -> None:
    @workflow
    def parent() -> list[int]:
        calls = [summing(n) for n in range(1, 4)]
        return [call.result() for call in calls]

    async with open_app() as app:
        run = await app.start(parent(), id="p")
        assert await run.result() == [0, 1, 3]
        assert len(await app.runs(workflow="summing")) == 3


async def test_sync_and_async_workflows_call_each_other(open_app: OpenApp) -> None:
    @workflow
    async def inner(n: int) -> int:
        return await add.call(n, n)

    @workflow
    def middle(n: int) -> int:
        return inner(n).result() + 1

    @workflow
    async def outer(n: int) -> int:
        return await middle(n) + 1

    async with open_app() as app:
        assert await (await app.start(outer(5))).result() == 12


async def test_a_started_child_outlives_the_body(open_app: OpenApp) -> None:
    @workflow
    def starting() -> str:
        add(1, 1)
        return start(summing(4), id="child").id

    @workflow
    def waiting() -> list[Any]:
        child = start(summing(5))
        return [child.result(), child.result()]

    async with open_app() as app:
        assert await (await app.start(starting())).result() == "child"
        assert await (await app.get("child")).result() == 6
        assert await (await app.start(waiting())).result() == [10, 10]


async def test_scopes_patches_and_draws_work_alike(open_app: OpenApp) -> None:
    @workflow
    def flow() -> list[Any]:
        with outlast.scope("x"):
            first = add(1, 1)
        return [first, outlast.patched("p"), outlast.uuid4() == outlast.uuid4(), 0 <= outlast.random() < 1]

    async with open_app() as app:
        run = await app.start(flow())
        assert await run.result() == [2, True, False, True]
        assert "main.[x]/add#1" in [s.id for s in await run.steps()]
