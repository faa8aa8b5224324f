"""Time and races in a body: a deadline is fixed once, and who won is what was recorded first."""

from __future__ import annotations

import asyncio

import pytest

import outlast
from outlast import step, workflow
from tests.behaviour.flows import executed, note, step_at
from tests.behaviour.gated_store import Gate
from tests.behaviour.stage import Door, OpenApp, Restart, eventually, reaches


async def test_a_deadline_does_not_start_over_after_a_restart(open_app: OpenApp) -> None:
    """The moment is fixed by the event before, and no restart moves it."""

    @workflow
    async def flow() -> None:
        await asyncio.sleep(3600)

    dues = set()
    async with open_app() as app:
        await reaches(await app.start(flow(), id="one"), "waiting")
    for _ in range(2):
        async with open_app() as app:
            info = await (await app.get("one")).info()
            assert (info.due or 0) - (info.started or 0) == pytest.approx(3600, abs=1e-3)
            dues.add(info.due)
            await app.cancel("one")
            await reaches(await app.get("one"), "cancelled")
            await reaches(await app.resume("one"), "waiting")  # wakes it, and has it wait again
    assert len(dues) == 1


async def test_a_timeout_goes_on_counting_through_a_restart(open_app: OpenApp) -> None:
    door = Door()
    wait = step_at(door)

    @workflow
    async def flow() -> str:
        try:
            async with asyncio.timeout(0.3):
                await wait()
        except TimeoutError:
            return "late"
        return "in time"

    for _ in range(2):
        async with open_app() as app:
            run = await app.start(flow(), id="one")
            await door.reached()
    async with open_app() as app:
        run = await app.get("one")
        assert await run.result() == "late"
        info = await run.info()
        assert (info.ended or 0) - (info.started or 0) < 5


async def test_wait_first_completed_keeps_its_winner(restart: Restart) -> None:
    fast, slow = Door(), Door()
    fast.open()

    @step
    async def racer(name: str) -> str:
        await (fast if name == "fast" else slow).passed()
        executed.append(name)
        return name

    @workflow
    async def flow() -> list[str]:
        racers = [asyncio.create_task(racer(name)) for name in ("slow", "fast")]
        done, pending = await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
        winner = next(iter(done)).result()
        await restart.point()
        slow.open()
        rest = [await task for task in pending]
        return [winner, *rest]

    assert await restart.result(flow()) == ["fast", "slow"]


@pytest.mark.parametrize("order", [["timer", "event"], ["event", "timer"]])
@pytest.mark.parametrize("winner", ["timer", "event"])
async def test_the_winner_of_a_race_is_the_one_recorded_first_for_ever(
    restart: Restart, order: list[str], winner: str
) -> None:
    """Also once the loser has finished too."""
    door = Door()

    @step
    async def event() -> str:
        await door.passed()
        return "event"

    async def timer() -> str:
        await asyncio.sleep(0.05)
        return "timer"

    @workflow
    async def flow() -> list[str]:
        tasks = [asyncio.create_task(event() if name == "event" else timer()) for name in order]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        first = [task.result() for task in tasks if task in done]
        await opened()
        both = sorted([*first, *[await task for task in pending]])
        await restart.point()
        return [*first, *both]

    @step
    async def opened() -> None:
        door.open()

    if winner == "event":
        door.open()
    assert await restart.result(flow()) == [winner, "event", "timer"]


async def test_a_long_sleep_survives_any_number_of_restarts(open_app: OpenApp) -> None:
    @workflow
    async def flow() -> str:
        await note("before")
        await asyncio.sleep(0.4)
        return await note("after")

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await reaches(run, "waiting")
    for _ in range(3):
        async with open_app() as app:
            assert await (await app.get("one")).status() in ("waiting", "pending")  # it may be due by now
    async with open_app() as app:
        assert await (await app.get("one")).result() == "after"
    assert executed == ["before", "after"]


@pytest.mark.parametrize("days", [1, 25, 400, 3_000_000])
async def test_a_sleep_of_any_length_can_be_waited_for(open_app: OpenApp, days: int) -> None:
    @workflow
    async def flow() -> str:
        try:
            await asyncio.wait_for(asyncio.sleep(days * 86_400), 0.02)
        except TimeoutError:
            return "given up"
        return "slept"

    @workflow
    async def sleeping() -> None:
        await asyncio.sleep(days * 86_400)

    async with open_app() as app:
        assert await (await app.start(flow())).result() == "given up"
        run = await app.start(sleeping())
        await reaches(run, "waiting")
        info = await run.info()
        assert (info.due or 0) - (info.started or 0) == pytest.approx(days * 86_400, rel=1e-6)


@pytest.mark.parametrize("days", [25, 400, 3_000_000, 1e12, float("inf")])
async def test_a_limit_of_any_length_ends_nothing_before_its_time(open_app: OpenApp, days: float) -> None:
    seconds = days * 86_400

    async def slept() -> str:
        await asyncio.sleep(seconds)
        return "slept"

    @workflow
    async def flow() -> list[str]:
        said = [await asyncio.wait_for(note("wait_for"), seconds)]
        async with asyncio.timeout(seconds):
            said.append(await note("timeout"))
        for tasks in ([slept(), note("second")], [note("first"), slept()]):
            racing = [asyncio.create_task(task) for task in tasks]
            done, _ = await asyncio.wait(racing, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            said += [task.result() for task in done]
        return said

    async with open_app() as app:
        run = await app.start(flow())
        assert await run.result(timeout=seconds) == ["wait_for", "timeout", "second", "first"]


async def test_waiting_for_ever_is_waiting(open_app: OpenApp) -> None:
    @workflow
    async def flow() -> None:
        await asyncio.Event().wait()

    async with open_app() as app:
        run = await app.start(flow())
        await reaches(run, "waiting")
        assert "something that nothing of this run can bring about" in (await run.info()).detail
        await run.cancel()
        await reaches(run, "cancelled")


@pytest.mark.parametrize("days", [10, 30, 400, 3_000_000])
async def test_a_message_wins_a_race_against_a_timer_of_any_length(open_app: OpenApp, days: int) -> None:
    @workflow
    async def flow() -> str:
        message = asyncio.create_task(outlast.receive("now"))
        timer = asyncio.create_task(asyncio.sleep(days * 86_400))
        done, _ = await asyncio.wait([timer, message], return_when=asyncio.FIRST_COMPLETED)
        return "message" if message in done else "timer"

    async with open_app() as app:
        run = await app.start(flow())
        await reaches(run, "waiting")
        await run.send("now")
        assert await run.result() == "message"  # and the timer keeps nothing open


async def test_a_sleep_that_ends_while_the_store_is_away_does_not_start_over(open_app: OpenApp, gate: Gate) -> None:
    @workflow
    async def flow() -> str:
        await asyncio.sleep(0.2)
        return await note("awake")

    away = [True]
    async with open_app() as app:
        run = await app.start(flow())
        started = (await run.info()).created
        gate.fail(lambda _: "before" if away else "")
        await eventually(lambda: app.store.now() > started + 0.3)
        away.clear()
        assert await run.result() == "awake"
        (timer,) = [step for step in await run.steps() if step.kind == "timer"]
        assert timer.due == pytest.approx(started + 0.2, abs=0.1)
