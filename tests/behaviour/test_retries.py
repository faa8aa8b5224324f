"""When a failed attempt is tried again, and that the count and the next due time survive a restart."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import pytest

import outlast
from outlast import DidNotHappen, Retry, StepTimeout, step, workflow
from tests.behaviour.stage import Door, Ears, OpenApp, eventually, failure, reaches


class Down(Exception):
    pass


class Forbidden(Exception):
    pass


def flaky(fails: int, retry: Retry | None, error: Exception | None = None, **settings: Any) -> tuple[Any, list[int]]:
    """Return a workflow of one step that fails so often, and the list of its attempts."""
    attempts: list[int] = []

    @step(retry=retry, **settings)
    async def work() -> int:
        attempts.append(outlast.attempt())
        if len(attempts) <= fails:
            raise error or Down(len(attempts))
        return len(attempts)

    @workflow
    async def flow() -> int:
        return await work()

    return flow, attempts


async def test_without_a_retry_a_step_is_tried_once(open_app: OpenApp) -> None:
    flow, attempts = flaky(1, None)
    async with open_app() as app:
        assert isinstance(await failure(await app.start(flow())), Down)
    assert attempts == [1]


async def test_a_failed_attempt_is_tried_again_up_to_the_limit(open_app: OpenApp) -> None:
    flow, attempts = flaky(2, Retry(attempts=3, initial=0))
    async with open_app() as app:
        assert await (await app.start(flow())).result() == 3
        assert attempts == [1, 2, 3]
        flow, attempts = flaky(9, Retry(attempts=3, initial=0))
        assert (await failure(await app.start(flow()))).args == (3,)  # the last one's error
        assert attempts == [1, 2, 3]


async def test_failed_attempts_stand_in_the_journal(open_app: OpenApp, ears: Ears) -> None:
    flow, _ = flaky(2, Retry(attempts=3, initial=0))
    async with open_app(on_event=ears) as app:
        run = await app.start(flow())
        await run.result()
        (work,) = await run.steps()
        assert (work.state, work.attempts, work.value) == ("done", 3, 3)
    assert [n.data["attempt"] for n in ears.heard("step.failed")] == [1, 2]
    assert ears.heard("step.failed")[0].data["error"] == "Down: 1"


async def test_a_step_that_waits_for_its_next_attempt_says_so(open_app: OpenApp) -> None:
    flow, _ = flaky(1, Retry(attempts=2, initial=3600, max_delay=3600, jitter=0))
    async with open_app() as app:
        run = await app.start(flow())
        await reaches(run, "waiting")
        (work,) = await run.steps()
        assert (work.state, work.attempts, work.error) == ("retrying", 1, "Down: 1")
        assert (work.due or 0) - work.ended == pytest.approx(3600, abs=1)
        assert "the next attempt of main/work#1" in (await run.info()).detail


async def test_only_errors_that_are_wanted_are_tried_again(open_app: OpenApp) -> None:
    only = Retry(attempts=3, initial=0, on=Down)
    anything_but = Retry(attempts=3, initial=0, never=(Forbidden,))
    cases = [
        (only, Down("x"), 3),
        (only, Forbidden("x"), 1),
        (anything_but, Down("x"), 3),
        (anything_but, Forbidden("x"), 1),
        (Retry(attempts=3, initial=0, on=LookupError, never=KeyError), KeyError("x"), 1),
        (Retry(attempts=3, initial=0, on=LookupError, never=KeyError), IndexError("x"), 3),
    ]
    async with open_app() as app:
        for retry, error, expected in cases:
            flow, attempts = flaky(9, retry, error)
            assert type(await failure(await app.start(flow()))) is type(error)
            assert len(attempts) == expected, (retry, error)


async def test_wrong_use_inside_a_step_is_not_tried_again(open_app: OpenApp) -> None:
    flow, attempts = flaky(9, Retry(attempts=3, initial=0), outlast.WrongUse("no"))
    async with open_app() as app:
        assert isinstance(await failure(await app.start(flow())), outlast.WrongUse)
    assert attempts == [1]


async def test_a_store_that_a_step_uses_itself_may_be_away_for_a_moment(open_app: OpenApp) -> None:
    flow, attempts = flaky(2, Retry(attempts=3, initial=0), outlast.StoreUnavailable("another store is locked"))
    async with open_app() as app:
        assert await (await app.start(flow())).result() == 3
    assert attempts == [1, 2, 3]


async def test_waits_grow_from_one_attempt_to_the_next(open_app: OpenApp, ears: Ears) -> None:
    flow, _ = flaky(4, Retry(attempts=5, initial=0.01, factor=2, max_delay=0.03, jitter=0))
    async with open_app(on_event=ears) as app:
        await (await app.start(flow())).result()
    assert [n.data["retry_in"] for n in ears.heard("step.failed")] == [0.01, 0.02, 0.03, 0.03]


async def test_runs_that_failed_together_do_not_come_back_together(open_app: OpenApp, ears: Ears) -> None:
    @step(retry=Retry(attempts=2, initial=3600, max_delay=3600, jitter=1))
    async def call() -> None:
        raise Down

    @step(effect="once", confirm=lambda key: DidNotHappen(), settle=0, retry=Retry(2, 3600, max_delay=3600, jitter=1))
    async def pay() -> None:
        raise TimeoutError

    @workflow
    async def flow(which: str) -> None:
        await (pay() if which == "pay" else call())

    async with open_app(on_event=ears) as app:
        for which in ("call", "pay"):
            for _ in range(10):
                await app.start(flow(which))
            last = await ears.hear("step.failed", 10, step=f"main/{which}#1")
            waits = {notice.data["retry_in"] for notice in ears.heard("step.failed", step=last.data["step"])}
            assert len(waits) == 10


async def test_no_attempt_begins_after_the_time_that_is_allowed_for_all(open_app: OpenApp) -> None:
    flow, attempts = flaky(9, Retry(attempts=9, initial=10, within=5))
    async with open_app() as app:
        assert isinstance(await failure(await app.start(flow())), Down)
    assert attempts == [1]


LATE = Retry(attempts=9, initial=0.3, max_delay=0.3, jitter=0, within=0.4)


@pytest.mark.parametrize("settings", [{}, {"effect": "once", "retry": replace(LATE, on=Down)}], ids=["plain", "once"])
async def test_no_attempt_begins_after_that_time_where_no_worker_was_there_before(
    open_app: OpenApp, ears: Ears, settings: dict[str, Any]
) -> None:
    flow, attempts = flaky(9, **{"retry": LATE, **settings})
    async with open_app(on_event=ears) as app:
        await app.start(flow(), id="one")
        await ears.hear("step.failed")
    async with open_app(worker=False) as client:
        (shown,) = await (await client.get("one")).steps()
        await eventually(lambda: client.store.now() > shown.started + 0.4)
    async with open_app() as app:
        run = await app.get("one")
        assert (await failure(run)).args == (1,)  # the last one's error
        assert [(s.state, s.attempts) for s in await run.steps()] == [("failed", 1)]
    assert attempts == [1]


async def test_no_attempt_begins_after_that_time_where_it_had_to_wait_for_a_place(
    open_app: OpenApp, ears: Ears
) -> None:
    flow, attempts = flaky(9, LATE)
    door = Door()

    @step
    async def take_the_place() -> None:
        await door.passed()

    @workflow
    async def crowd() -> None:
        await take_the_place()

    async with open_app(on_event=ears, max_steps=1) as app:
        run = await app.start(flow())
        await ears.hear("step.failed")
        other = await app.start(crowd())
        await door.reached()
        (shown,) = await run.steps()
        await eventually(lambda: app.store.now() > shown.started + 0.4)
        door.open()
        assert (await failure(run)).args == (1,)
        await other.result()
    assert attempts == [1]


async def test_a_timeout_of_an_attempt_is_tried_again(open_app: OpenApp) -> None:
    attempts: list[int] = []

    @step(timeout=0.02, retry=Retry(attempts=2, initial=0))
    async def slow() -> str:
        attempts.append(outlast.attempt())
        if len(attempts) == 1:
            await asyncio.sleep(3600)
        return "second"

    @workflow
    async def flow() -> str:
        return await slow()

    async with open_app() as app:
        assert await (await app.start(flow())).result() == "second"
    assert attempts == [1, 2]


async def test_timeouts_can_be_left_out_of_the_retry(open_app: OpenApp) -> None:
    attempts: list[int] = []

    @step(timeout=0.02, retry=Retry(attempts=5, initial=0, never=StepTimeout))
    async def slow() -> None:
        attempts.append(1)
        await asyncio.sleep(3600)

    @workflow
    async def flow() -> None:
        await slow()

    async with open_app() as app:
        assert isinstance(await failure(await app.start(flow())), StepTimeout)
    assert len(attempts) == 1


async def test_the_count_of_attempts_survives_a_restart(open_app: OpenApp) -> None:
    attempts: list[int] = []
    door = Door()

    @step(retry=Retry(attempts=4, initial=0))
    async def work() -> int:
        attempts.append(outlast.attempt())
        if outlast.attempt() == 3:
            await door.passed()
        raise Down(outlast.attempt())

    @workflow
    async def flow() -> int:
        return await work()

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await door.reached()
    door.open()
    async with open_app() as app:
        assert (await failure(await app.get("one"))).args == (4,)
    assert attempts == [1, 2, 3, 3, 4]  # the attempt that the restart cut off has no outcome, so it is made again
    assert run.id == "one"


async def test_the_time_of_the_next_attempt_survives_a_restart(open_app: OpenApp) -> None:
    flow, attempts = flaky(1, Retry(attempts=2, initial=3600, max_delay=3600, jitter=0))
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await reaches(run, "waiting")
        due = (await run.info()).due
    async with open_app() as app:
        run = await app.get("one")
        assert await run.status() == "waiting"
        assert (await run.info()).due == due
    assert attempts == [1]


async def test_a_wait_for_a_retry_leaves_memory_and_comes_back(open_app: OpenApp, ears: Ears) -> None:
    flow, attempts = flaky(1, Retry(attempts=2, initial=0.1, jitter=0))
    async with open_app(on_event=ears, park_after=0) as app:
        run = await app.start(flow())
        await ears.hear("run.parked", run=run.id)
        assert await run.result() == 2
    assert attempts == [1, 2]


async def test_an_attempt_gets_the_same_idempotency_key_each_time_and_after_a_restart(open_app: OpenApp) -> None:
    keys: list[str] = []
    door = Door()

    @step(retry=Retry(attempts=3, initial=0))
    async def work() -> int:
        keys.append(outlast.idempotency_key())
        if len(keys) == 2:
            await door.passed()
        if len(keys) < 4:
            raise Down
        return 1

    @workflow
    async def flow() -> int:
        return await work()

    async with open_app() as app:
        await app.start(flow(), id="one")
        await door.reached()
    door.open()
    async with open_app() as app:
        assert await (await app.get("one")).result() == 1
    assert len(keys) == 4
    assert len(set(keys)) == 1


async def test_a_step_given_up_while_it_waits_for_a_retry_is_not_tried_again(open_app: OpenApp) -> None:
    attempts: list[int] = []

    @step(retry=Retry(attempts=9, initial=0.02, factor=1, jitter=0))
    async def failing() -> None:
        attempts.append(1)
        raise Down

    @workflow
    async def giving_up() -> int:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(failing(), 0.05)
        seen = len(attempts)
        await asyncio.sleep(0.1)
        return seen

    async with open_app() as app:
        seen = await (await app.start(giving_up())).result()
        assert len(attempts) == seen
