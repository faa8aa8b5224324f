"""A plain function as a workflow: one thread, one branch, the same calls, and the same durability."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from typing import Any

import pytest

import outlast
from outlast import Happened, Retry, RunCancelled, StepTimeout, WrongUse, step, workflow
from outlast.sync import sleep, start
from tests.behaviour.stage import Door, Ears, OpenApp, eventually, failure, has_recorded, reaches, stuck, unless_it_ends

executed: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_executed() -> None:
    executed.clear()


@step
def add(a: int, b: int) -> int:
    executed.append((a, b))
    return a + b


@step
async def add_async(a: int, b: int) -> int:
    executed.append((a, b))
    return a + b


@workflow
def summing(n: int) -> int:
    total = 0
    for i in range(n):
        total = add(total, i)
    return total


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


async def test_the_body_has_a_thread_of_its_own_and_its_steps_have_others(open_app: OpenApp) -> None:
    threads: list[str] = []

    @step
    def look() -> None:
        threads.append(threading.current_thread().name)

    @workflow
    def looking() -> None:
        threads.append(threading.current_thread().name)
        look()

    async with open_app() as app:
        await (await app.start(looking(), id="one")).result()
    assert threads[0] == "outlast-one"
    assert threads[1].startswith("outlast-step")


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


async def test_threads_of_stopped_bodies_end_and_their_clean_up_has_no_effect(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def wait() -> None:
        await door.passed()

    @workflow
    def flow() -> str:
        try:
            wait().result()
        finally:
            add(9, 9)  # while the App is closed this starts nothing
        return "done"

    async with open_app() as app:
        runs = [await app.start(flow(), id=f"run-{n}") for n in range(5)]
        await unless_it_ends(runs[0], door.reached(5))
    assert executed == []
    door.open()
    async with open_app() as app:
        assert [await (await app.get(f"run-{n}")).result() for n in range(5)] == ["done"] * 5
    assert executed == [(9, 9)] * 5


async def test_a_stopped_body_that_goes_on_whatever_is_raised_comes_to_rest(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def wait() -> None:
        await door.passed()

    @workflow
    def stubborn() -> None:
        while True:
            try:
                wait().result()
            except BaseException:  # noqa: BLE001 - that is the fault which is looked at here
                continue

    async with open_app() as app:
        await app.start(stubborn(), id="one")
        await door.reached()
    await eventually(lambda: "stopped outlast-one" in {thread.name for thread in threading.enumerate()})


def test_a_body_at_rest_does_not_keep_the_process_alive() -> None:
    program = """
import sys, threading
from outlast import step, workflow
from outlast.sync import App

waits, resting = threading.Event(), threading.Event()

class Log:  # the thread says that it rests
    def write(self, text): resting.set()
    def flush(self): pass

@step
def wait():
    waits.set()

@workflow
def stubborn():
    while True:
        try:
            wait()
        except BaseException:
            continue

with App("memory://", grace=0) as app:
    app.start(stubborn())
    waits.wait()
    sys.stderr = Log()
resting.wait()
print("closed")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "closed\n"


# -- cancellation --------------------------------------------------------------------------------


async def test_cancellation_comes_where_the_body_waits_and_it_cleans_up(open_app: OpenApp) -> None:
    @workflow
    def flow() -> str:
        try:
            sleep(3600)
        except asyncio.CancelledError:
            executed.append("cancelled")
            raise
        finally:
            add(0, 0)
        return ""

    async with open_app() as app:
        run = await app.start(flow())
        await reaches(run, "waiting")
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
    assert [x for x in executed if x != "cancelled"] == [(0, 0)]


async def test_cancellation_reaches_a_step_in_flight(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def wait() -> None:
        try:
            await door.passed()
        except asyncio.CancelledError:
            executed.append("step cancelled")
            raise

    @workflow
    def flow() -> None:
        wait().result()

    async with open_app() as app:
        run = await app.start(flow())
        await door.reached()
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
    assert executed == ["step cancelled"]


async def test_cancellation_waits_for_a_once_attempt(open_app: OpenApp) -> None:
    door = Door()

    @step(effect="once")
    async def pay() -> str:
        await door.passed()
        executed.append("paid")
        return "receipt"

    @workflow
    def flow() -> None:
        pay().result()

    async with open_app() as app:
        run = await app.start(flow())
        await door.reached()
        await run.cancel()
        await has_recorded(run, "cancel")
        door.open()
        assert isinstance(await failure(run), RunCancelled)
        assert [s.value for s in await run.steps() if s.name == "pay"] == ["receipt"]


async def test_a_body_may_swallow_the_cancellation(open_app: OpenApp) -> None:
    @workflow
    def stubborn() -> str:
        try:
            sleep(3600)
        except asyncio.CancelledError:
            return f"went on: {add(1, 2)}"
        return ""

    async with open_app() as app:
        run = await app.start(stubborn())
        await reaches(run, "waiting")
        await run.cancel()
        assert await run.result() == "went on: 3"


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


async def test_a_call_that_is_not_waited_for_is_given_up_at_the_end(open_app: OpenApp) -> None:
    """As a task that an async body leaves behind."""
    door, finished = Door(), Door()

    @workflow
    def resting() -> None:
        sleep(3600)

    @step
    async def left_behind() -> None:
        try:
            await door.passed()
        except asyncio.CancelledError:
            executed.append("given up")
            raise

    @step(effect="once")
    async def pay() -> str:
        await finished.passed()
        executed.append("paid")
        return "receipt"

    @step
    async def begun() -> None:
        await door.reached()
        await finished.reached()

    @workflow
    def flow() -> str:
        left_behind()
        pay()
        resting()
        begun().result()
        return "ended"

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await eventually(lambda: "given up" in executed)
        assert await run.status() == "running"  # the `once` attempt comes to its outcome
        finished.open()
        assert await run.result() == "ended"
        assert [s.value for s in await run.steps() if s.name == "pay"] == ["receipt"]
        for child in await app.runs(workflow="resting"):
            assert isinstance(await failure(await app.get(child.id)), RunCancelled)
    assert executed[-2:] == ["given up", "paid"]


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


# -- what does not belong there ------------------------------------------------------------------------


async def test_a_call_in_another_thread_of_the_body_is_refused(open_app: OpenApp) -> None:
    found: list[BaseException] = []

    @workflow
    def flow() -> None:
        def elsewhere() -> None:
            try:
                add(1, 2)
            except BaseException as error:  # noqa: BLE001 - looked at below
                found.append(error)

        thread = threading.Thread(target=contextvars.copy_context().run, args=(elsewhere,))
        thread.start()
        thread.join()

    async with open_app() as app:
        run = await app.start(flow())
        await run.result()
        assert await run.steps() == []
    assert isinstance(found[0], WrongUse)
    assert executed == []


async def test_a_call_that_is_awaited_says_what_to_write_instead(open_app: OpenApp) -> None:
    async def helper() -> int:
        return await add_async(3, 4)

    async def gathered() -> list[int]:
        return await asyncio.gather(add_async(5, 6), add.call(7, 8))

    @workflow
    def flow() -> list[str]:
        texts = []
        for wrong in (lambda: add_async(1, 2), helper, gathered, lambda: summing(3)):
            try:
                asyncio.run(wrong())
            except WrongUse as refused:
                texts.append(str(refused))
        return texts

    async with open_app() as app:
        texts = await (await app.start(flow(), id="one")).result()
    assert len(texts) == 4
    assert all("was awaited in sync workflow flow (run one)" in text for text in texts)
    assert "write: add_async(...).result()" in texts[0]
    assert "write: summing(...).result()" in texts[3]


async def test_an_event_loop_in_the_body_may_do_what_needs_nothing_of_the_run(open_app: OpenApp) -> None:
    async def helper() -> int:
        await asyncio.sleep(0)
        return add(1, 2) + add_async(3, 4).result()

    @workflow
    def flow() -> int:
        return asyncio.run(helper())

    async with open_app() as app:
        assert await (await app.start(flow())).result() == 10


async def test_what_belongs_in_the_other_kind_of_workflow_is_refused_and_names_its_own(open_app: OpenApp) -> None:
    @workflow
    def blocking() -> str:
        try:
            outlast.start(summing(1))
        except WrongUse as refused:
            return str(refused)
        return ""

    @workflow
    async def flow() -> list[str]:
        texts = []
        for wrong in (lambda: sleep(1), lambda: start(summing(1))):
            try:
                wrong()
            except WrongUse as refused:
                texts.append(str(refused))
        return texts

    async with open_app() as app:
        assert "outlast.sync.start" in await (await app.start(blocking())).result()
        slept, started = await (await app.start(flow())).result()
    assert "await asyncio.sleep" in slept
    assert "await outlast.start" in started
