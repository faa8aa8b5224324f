"""A run that only waits leaves memory and keeps only its row; whatever it waits for brings it back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast import App, step, workflow
from tests.behaviour.flows import executed, note, step_at, waiting_at
from tests.behaviour.stage import Door, Ears, Jumping, OpenApp, eventually, reaches, unless_it_ends


@workflow
async def napping(seconds: float) -> str:
    await note("before")
    await asyncio.sleep(seconds)
    return str(await note("after"))


async def test_a_waiting_run_leaves_memory_and_its_row_says_what_wakes_it(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears) as app:
        run = await app.start(napping(3600), id="one")
        notice = await ears.hear("run.parked", run="one")
        info = await run.info()
    assert (info.status, info.owner) == ("waiting", "")
    assert info.detail == "timer main/timer#1"
    assert info.due == notice.data["due"]
    assert notice.data["detail"] == info.detail


async def test_it_comes_back_in_time_and_replays_its_journal(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears, park_after=0) as app:
        run = await app.start(napping(0.2), id="one")
        await ears.hear("run.parked", run="one")
        assert await run.result() == "after"
        info = await run.info()
    assert (info.ended or 0) - (info.started or 0) >= 0.2
    claims = ears.heard("run.claimed", run="one")
    assert [claim.data["records"] for claim in claims] == [0, 1]
    assert executed == ["before", "after"]


async def test_it_is_not_brought_back_before_its_time(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears, park_after=0) as app:
        run = await app.start(napping(0.3))
        await ears.hear("run.parked", run=run.id)
        for _ in range(5):  # other work comes and goes
            await (await app.start(napping(0))).result()
        await run.result()
    assert len(ears.heard("run.claimed", run=run.id)) == 2


async def test_many_sleepers_all_wake_and_none_before_its_time(open_app: OpenApp) -> None:
    @workflow
    async def sleeper(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async with open_app(park_after=0) as app:
        runs = [await app.start(sleeper(0.1 + n * 0.02)) for n in reversed(range(10))]
        for run in runs:
            seconds, info = await run.result(), await run.info()
            assert (info.ended or 0) - (info.started or 0) >= seconds


async def test_a_run_with_a_step_in_flight_stays(open_app: OpenApp, ears: Ears) -> None:
    door = Door()
    wait = step_at(door)

    @workflow
    async def both() -> None:
        await asyncio.gather(wait(), asyncio.sleep(3600))

    async with open_app(on_event=ears, park_after=0) as app:
        run = await app.start(both())
        await unless_it_ends(run, door.reached())
        assert await run.status() == "running"
        door.open()
        await ears.hear("run.parked", run=run.id)


async def test_a_parked_run_wakes_in_another_worker(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears, park_after=0) as app:
        run = await app.start(napping(0.2), id="one")
        await ears.hear("run.parked", run="one")
        async with open_app(worker=False) as client:
            waiter = asyncio.create_task((await client.get(run.id)).result())
            await app.drain()
            async with open_app():
                assert await waiter == "after"
    assert executed == ["before", "after"]


async def test_a_sleep_that_ends_while_nobody_works_goes_on_when_somebody_does(open_app: OpenApp) -> None:
    async with open_app(park_after=0) as app:
        run = await app.start(napping(0.1), id="one")
        await reaches(run, "waiting")
        due = (await run.info()).due or 0.0
    async with open_app(worker=False) as client:
        await eventually(lambda: client.store.now() > due)
    async with open_app() as app:
        assert await (await app.get("one")).result() == "after"
    assert executed == ["before", "after"]


async def test_a_run_without_a_moment_to_wait_for_rests_until_something_comes(open_app: OpenApp, ears: Ears) -> None:
    @workflow
    async def child() -> str:
        await asyncio.sleep(0.15)
        return "done"

    @workflow
    async def parent() -> str:
        return await child()

    async with open_app(on_event=ears, park_after=0) as app:
        run = await app.start(parent(), id="p")
        notice = await ears.hear("run.parked", run="p")
        assert notice.data["due"] is None
        assert notice.data["detail"] == "child main/child#1"
        assert await run.result() == "done"


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.005, 0.02])
async def test_rests_and_timers_race_without_losing_a_wake_up(open_app: OpenApp, seconds: float) -> None:
    @workflow
    async def blinking(rounds: int) -> int:
        for _ in range(rounds):
            await asyncio.sleep(seconds)
        return rounds

    async with open_app(park_after=0) as app:
        runs = [await app.start(blinking(5)) for _ in range(20)]
        assert await asyncio.gather(*(run.result() for run in runs)) == [5] * 20


async def test_rests_and_cancellations_race_without_losing_one(open_app: OpenApp) -> None:
    async with open_app(park_after=0) as app:
        runs = [await app.start(napping(3600)) for _ in range(30)]
        for n, run in enumerate(runs):
            for _ in range(n % 7):
                await asyncio.sleep(0.001)
            await run.cancel()
        for run in runs:
            with pytest.raises(outlast.RunCancelled):
                await run.result()


async def test_no_attempt_begins_while_its_run_is_being_parked(open_app: OpenApp) -> None:
    """A retry that becomes due in that moment waits for the next load; it is not begun and cut off."""
    begun: list[int] = []

    @step(retry=outlast.Retry(attempts=30, initial=0.004, factor=1, jitter=0))
    async def flaky() -> int:
        begun.append(outlast.attempt())
        await asyncio.sleep(0)
        if outlast.attempt() < 30:
            raise ConnectionError
        return outlast.attempt()

    @workflow
    async def trying() -> int:
        return await flaky()

    async with open_app(park_after=0) as app:
        assert await (await app.start(trying())).result() == 30
    assert begun == list(range(1, 31))


async def test_leaving_hands_runs_back_and_another_takes_them_at_once(open_app: OpenApp, ears: Ears) -> None:
    door = Door()

    async with open_app(on_event=ears) as app:
        await app.start(waiting_at(door)(), id="one")
        await door.reached()
    assert ears.heard("worker.stopped")
    async with open_app(worker=False) as client:
        assert (await (await client.get("one")).info()).owner == ""
    door.open()
    async with open_app() as app:
        assert await (await app.get("one")).result() == "passed"


async def test_a_drain_lets_steps_in_flight_finish_and_hands_their_runs_back_there(
    open_app: OpenApp, ears: Ears
) -> None:
    door = Door()

    @step
    async def wait() -> str:
        await door.passed()
        executed.append("finished")
        return "passed"

    @workflow
    async def flow() -> list[Any]:
        return [await wait(), await note("next")]

    async with open_app(on_event=ears) as app:
        run = await app.start(flow(), id="one")
        await door.reached()
        drained = asyncio.create_task(app.drain(grace=20))
        await ears.hear("worker.draining")
        started = await app.start(napping(0), id="two")  # a draining worker claims nothing
        door.open()
        await drained
        assert await run.status() == "pending"
        assert await started.status() == "pending"
        assert executed == ["finished"]
        async with open_app():
            assert await run.result() == ["passed", "next"]
            assert await started.result() == "after"
    assert executed.count("finished") == 1


@workflow
async def short_sleep() -> str:
    await note("before")
    await asyncio.sleep(0.5)
    return "on time"


@workflow
async def short_receive() -> str:
    await note("before")
    try:
        return str(await outlast.receive("word", timeout=0.5))
    except TimeoutError:
        return "on time"


@workflow
async def short_question() -> str:
    await note("before")
    try:
        return str(await outlast.approve("Yes?", timeout=0.5))
    except TimeoutError:
        return "on time"


@pytest.mark.parametrize("flow", [short_sleep, short_receive, short_question], ids=lambda flow: flow.name)
async def test_a_wait_that_a_clock_set_back_has_made_long_is_a_rest(tmp_path: Path, ears: Ears, flow: Any) -> None:
    """Its place on a queue is free, and once the clock is right again it goes on at once."""
    app = App(f"sqlite:///{tmp_path / 'runs.db'}", park_after=0.6, on_event=ears)
    app.clock = clock = Jumping()
    async with app:
        run = await app.start(flow(), id="one")
        await ears.hear("step.ended", run="one")
        for _ in range(5):  # by the time these are committed, it has settled down to its wait
            await app.start(napping(3600))
        clock.ahead = -3600.0
        notice = await ears.hear("run.parked", run="one")
        assert notice.data["due"] - clock.wall() > 3590
        clock.ahead = 0.0
        assert await run.result(10) == "on time"
