"""The loop of a run: turns, time, timers and tasks are those of asyncio, and the same in every replay."""

# ruff: noqa: ASYNC110 - bodies that poll are what is tested

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast.core import body as body_module
from outlast.core import loop as loop_module
from outlast.core.errors import Spinning, StepError
from tests.support.plain_codec import Boom
from tests.support.rig import Rig, a_step

fetch = a_step("fetch", effect="pure")
save = a_step("save")


# -- turns that do not end --------------------------------------------------------------------


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "CALLBACKS_PER_DRAIN", 50)
    monkeypatch.setattr(body_module, "MOST_DRAINS", 3)


@pytest.mark.usefixtures("short_turns")
def test_a_body_that_spins_while_nothing_is_pending_fails_by_name() -> None:
    async def body() -> None:
        while True:
            await asyncio.sleep(0)

    rig = Rig(body).begin()
    with pytest.raises(Spinning, match="workflow flow yields to itself without end"):
        _ = rig.result
    with pytest.raises(Spinning):
        _ = rig.replay().result


@pytest.mark.usefixtures("short_turns")
def test_a_body_that_polls_for_a_step_goes_on_with_its_outcome() -> None:
    async def body() -> Any:
        task = asyncio.create_task(fetch())
        polls = 0
        while not task.done():
            await asyncio.sleep(0)
            polls += 1
        return [task.result(), polls]

    rig = Rig(body).begin()
    assert rig.outcome is None
    rig.finish("main/fetch#1", "fetched")
    assert rig.result[0] == "fetched"
    assert rig.must_replay().result == rig.result  # it polled as often


@pytest.mark.usefixtures("short_turns")
def test_a_body_that_polls_is_ended_by_its_timeout() -> None:
    async def body() -> str:
        try:
            async with asyncio.timeout(5):
                while True:
                    await asyncio.sleep(0)
        except TimeoutError:
            return "out of time"

    rig = Rig(body).begin()
    rig.fire()
    assert rig.result == "out of time"
    rig.must_replay()


@pytest.mark.usefixtures("short_turns")
def test_a_task_left_behind_that_spins_fails_the_run() -> None:
    async def spin() -> None:
        while True:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                continue

    async def body() -> str:
        task = asyncio.create_task(spin())
        await asyncio.sleep(0)
        return task.get_name()

    with pytest.raises(Spinning):
        _ = Rig(body).begin().result


def test_a_turn_that_is_long_but_ends_is_no_spin() -> None:
    async def work(i: int) -> int:
        return i

    async def body() -> int:
        return sum(await asyncio.gather(*(work(i) for i in range(3 * loop_module.CALLBACKS_PER_DRAIN))))

    assert Rig(body).begin().result == sum(range(3 * loop_module.CALLBACKS_PER_DRAIN))


@pytest.mark.usefixtures("short_turns")
def test_a_turn_cut_short_is_cut_short_at_the_same_place_in_replay() -> None:
    async def work(i: int) -> int:
        return int(await fetch(i))

    async def body() -> int:
        return sum(await asyncio.gather(*(work(i) for i in range(300))))

    rig = Rig(body).begin()
    assert len(rig.waiting) == 199  # the rest of them has not been reached
    while rig.waiting:
        rig.finish(rig.waiting[-1], 1)
    assert rig.result == 300
    rig.must_replay()


# -- an ordinary loop in all other respects -------------------------------------------------------


def test_time_stands_still_within_a_turn_and_moves_with_events() -> None:
    async def body() -> list[float]:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        await fetch()
        times.append(loop.time())
        await asyncio.sleep(10)
        return [*times, loop.time()]

    rig = Rig(body).begin()
    rig.now += 2.5
    rig.finish("main/fetch#1")
    rig.now += 60  # the worker was late
    rig.fire()
    first, second, third = rig.result
    assert (second - first, third - first) == (2.5, 62.5)
    rig.must_replay()


def test_a_timeout_does_not_start_over_in_replay() -> None:
    async def body() -> None:
        async with asyncio.timeout(60):
            await fetch()
            await save()

    rig = Rig(body).begin()
    rig.now += 45
    rig.finish("main/fetch#1")
    assert rig.replay().timers == {"main/!timer#1": 60}


def test_call_later_and_its_cancellation_work() -> None:
    async def body() -> list[str]:
        seen: list[str] = []
        loop = asyncio.get_running_loop()
        loop.call_later(2, seen.append, "second")
        loop.call_later(1, seen.append, "first")
        loop.call_later(1, seen.append, "never").cancel()
        await asyncio.sleep(3)
        return seen

    rig = Rig(body).begin()
    for _ in range(3):
        rig.fire()
    assert rig.result == ["first", "second"]
    rig.must_replay()


def test_timers_that_were_cancelled_are_not_kept() -> None:
    async def body() -> None:
        for _ in range(2_000):
            async with asyncio.timeout(3_600):
                await asyncio.sleep(0)
        await fetch()

    rig = Rig(body).begin()
    assert rig.timers == {}
    assert len(rig.engine.loop._heap) < 500


def test_tasks_that_are_done_are_not_kept() -> None:
    async def body() -> None:
        for _ in range(2_000):
            await asyncio.create_task(asyncio.sleep(0))
        await fetch()

    assert len(Rig(body).begin().engine.loop.tasks) < 200


def test_a_timer_that_is_not_a_number_is_refused() -> None:
    async def body() -> None:
        await asyncio.sleep(float("nan"))

    with pytest.raises(ValueError, match="not a number"):
        _ = Rig(body).begin().result


def test_an_error_in_a_callback_is_kept_for_the_worker_to_report() -> None:
    async def body() -> str:
        asyncio.get_running_loop().call_soon(int, "x")
        await asyncio.sleep(0)
        return "done"

    rig = Rig(body).begin()
    assert rig.result == "done"
    assert isinstance(rig.engine.loop.unhandled[0]["exception"], ValueError)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_body_that_asks_the_process_to_exit_fails_alone(error: BaseException) -> None:
    async def body() -> None:
        await fetch()
        raise error

    rig = Rig(body).begin()
    rig.finish("main/fetch#1")
    with pytest.raises(StepError, match=f"asked the process to exit .{type(error).__name__}."):
        _ = rig.result
    rig.must_replay()


def test_a_future_made_by_hand_passes_a_result_between_tasks() -> None:
    async def body() -> Any:
        future = asyncio.get_running_loop().create_future()

        async def give() -> None:
            try:
                future.set_result(await fetch())
            except Boom as error:
                future.set_exception(error)

        task = asyncio.create_task(give())
        try:
            return await future
        finally:
            await task

    rig = Rig(body).begin()
    rig.finish("main.give#1/fetch#1", error=Boom("given"))
    with pytest.raises(Boom, match="given"):
        _ = rig.result
    rig.must_replay()
