"""An attempt that takes too long is over: what it still does or returns is not taken."""

from __future__ import annotations

import asyncio
import threading

import outlast
from outlast import Retry, StepTimeout, step, workflow
from tests.behaviour.stage import Door, Ears, OpenApp, failure


async def test_an_async_step_that_takes_too_long_is_cancelled(open_app: OpenApp) -> None:
    cancelled: list[str] = []

    @step(timeout=0.02)
    async def slow() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append("cancelled")
            raise

    @workflow
    async def flow() -> None:
        await slow()

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        back = await failure(run)
        assert isinstance(back, StepTimeout)
        assert isinstance(back, TimeoutError)
        assert "step main/slow#1 of run one: attempt 1 ran longer than its timeout of 0.02 s" in str(back)
        assert (await run.steps())[0].state == "failed"
    assert cancelled == ["cancelled"]


async def test_an_error_of_its_own_timeouts_is_not_the_timeout_of_the_step(open_app: OpenApp) -> None:
    @step(timeout=30)
    async def slow() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(3600)

    @workflow
    async def flow() -> None:
        await slow()

    async with open_app() as app:
        assert type(await failure(await app.start(flow()))) is TimeoutError


async def test_the_late_result_of_a_thread_is_refused(open_app: OpenApp, ears: Ears) -> None:
    door = Door()
    finished = threading.Event()

    @step(timeout=0.02, retry=Retry(attempts=2, initial=0))
    def slow() -> str:
        attempt = outlast.attempt()
        if attempt == 1:
            door.pass_in_thread()
            finished.set()
        return f"attempt {attempt}"

    @step
    async def after() -> bool:
        door.open()
        await asyncio.to_thread(finished.wait)
        return finished.is_set()

    @workflow
    async def flow() -> str:
        value = await slow.call()
        assert await after()
        return value

    async with open_app(on_event=ears) as app:
        run = await app.start(flow())
        assert await run.result() == "attempt 2"
        assert [(s.name, s.attempts, s.value) for s in await run.steps()] == [
            ("slow", 2, "attempt 2"),
            ("after", 1, True),
        ]
    assert len(ears.heard("step.ended", step="main/slow#1")) == 1


async def test_the_run_does_not_wait_for_a_thread_that_was_given_up(open_app: OpenApp) -> None:
    door = Door()

    @step(timeout=0.02)
    def slow() -> None:
        door.pass_in_thread()

    @workflow
    async def flow() -> str:
        try:
            await slow.call()
        except StepTimeout:
            return "over"
        return ""

    async with open_app() as app:
        assert await (await app.start(flow())).result() == "over"
        door.open()


async def test_a_thread_learns_by_its_heartbeat_that_it_was_given_up(open_app: OpenApp) -> None:
    ended: list[str] = []
    finished = threading.Event()

    @step(timeout=0.02)
    def polling() -> None:
        try:
            while True:
                outlast.heartbeat()
        except asyncio.CancelledError as given_up:
            ended.append(str(given_up))
            finished.set()
            raise

    @workflow
    async def flow() -> None:
        await polling.call()

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        assert isinstance(await failure(run), StepTimeout)
        await asyncio.to_thread(finished.wait)
    assert ended == ["step main/polling#1 of run one was given up; its result will not be used"]


async def test_a_step_in_time_is_not_touched_by_its_timeout(open_app: OpenApp) -> None:
    @step(timeout=30)
    async def quick() -> str:
        return "async"

    @step(timeout=30)
    def quick_blocking() -> str:
        return "thread"

    @workflow
    async def flow() -> list[str]:
        return [await quick(), await quick_blocking.call()]

    async with open_app() as app:
        assert await (await app.start(flow())).result() == ["async", "thread"]


async def test_a_timeout_in_the_body_gives_the_step_up(open_app: OpenApp) -> None:
    door, cancelled = Door(), []

    @step
    async def slow() -> None:
        try:
            await door.passed()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    @workflow
    async def flow() -> str:
        try:
            async with asyncio.timeout(0.05):
                await slow()
        except TimeoutError:
            return "given up"
        return "done"

    async with open_app() as app:
        run = await app.start(flow())
        assert await run.result() == "given up"
        assert [(s.kind, s.id) for s in await run.steps()] == [("timer", "main/!timer#1")]
    assert cancelled == [1]


async def test_the_late_outcome_of_a_step_that_was_given_up_is_kept_as_a_note(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def stubborn() -> str:
        try:
            await door.passed()
        except asyncio.CancelledError:
            return "I did it all the same"
        return ""

    @workflow
    async def flow() -> str:
        try:
            async with asyncio.timeout(0.05):
                return await stubborn()
        except TimeoutError:
            return "given up"

    async with open_app() as app:
        run = await app.start(flow())
        assert await run.result() == "given up"
        late = [s for s in await run.steps() if s.name == "stubborn"]
        assert [(s.state, s.value) for s in late] == [("late", "I did it all the same")]
