"""Resuming takes an ended run up again: it drops the end and its cause, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast
from outlast import NotResumable, Retry, RunCancelled, step, workflow
from tests.behaviour.flows import executed, note, step_at, waiting_at
from tests.behaviour.stage import Door, OpenApp, eventually, failure, reaches, stuck

healthy: list[bool] = []


@pytest.fixture(autouse=True)
def sick() -> None:
    healthy.clear()


@step
async def flaky() -> str:
    executed.append("flaky")
    if not healthy:
        raise ConnectionError("down")
    return "up"


@workflow
async def flow() -> list[Any]:
    return [await note("before"), await flaky(), await note("after")]


async def test_a_failed_run_goes_on_from_the_step_that_failed(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        assert isinstance(await failure(run), ConnectionError)
        healthy.append(True)
        again = await app.resume("one")
        assert again.id == "one"
        assert await again.result() == ["before", "up", "after"]
        assert await run.result() == ["before", "up", "after"]
        assert (await run.info()).error == ""
    assert executed == ["before", "flaky", "flaky", "after"]


async def test_a_resumed_run_may_fail_again_and_be_resumed_again(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        for _ in range(3):
            assert isinstance(await failure(run), ConnectionError)
            await app.resume("one")
        assert isinstance(await failure(run), ConnectionError)
        healthy.append(True)
        assert await (await app.resume("one")).result() == ["before", "up", "after"]
    assert executed.count("before") == 1


async def test_resume_works_in_another_process_than_the_failure(open_app: OpenApp) -> None:
    async with open_app() as app:
        await failure(await app.start(flow(), id="one"))
    healthy.append(True)
    async with open_app(worker=False) as client:
        run = await client.resume("one")
        assert await run.status() == "pending"
        async with open_app():
            assert await run.result() == ["before", "up", "after"]


async def test_a_resumed_step_gets_all_its_attempts_anew(open_app: OpenApp) -> None:
    attempts: list[int] = []

    @step(retry=Retry(attempts=2, initial=0))
    async def fragile() -> int:
        attempts.append(outlast.attempt())
        if len(attempts) < 4:
            raise ConnectionError
        return len(attempts)

    @workflow
    async def fragile_flow() -> int:
        return await fragile()

    async with open_app() as app:
        await failure(await app.start(fragile_flow(), id="one"))
        assert await (await app.resume("one")).result() == 4
    assert attempts == [1, 2, 1, 2]


async def test_an_error_of_the_body_itself_is_retried_by_resume(open_app: OpenApp) -> None:
    @workflow
    async def buggy() -> str:
        await note("before")
        if not healthy:
            raise ZeroDivisionError
        return "fixed"

    async with open_app() as app:
        await failure(await app.start(buggy(), id="one"))
        healthy.append(True)
        assert await (await app.resume("one")).result() == "fixed"
    assert executed == ["before"]


async def test_an_error_that_was_caught_is_not_dropped(open_app: OpenApp) -> None:
    @workflow
    async def catching() -> str:
        try:
            await flaky()
        except ConnectionError:
            await note("caught")
        if len(executed) < 4 and not healthy:
            raise ZeroDivisionError
        return "done"

    async with open_app() as app:
        await failure(await app.start(catching(), id="one"))
        healthy.append(True)
        assert await (await app.resume("one")).result() == "done"
    assert executed == ["flaky", "caught"]


async def test_resume_is_refused_where_an_effect_was_recorded_after_the_failure(open_app: OpenApp) -> None:
    @workflow
    async def cleaning() -> str:
        try:
            return await flaky()
        finally:
            await note("cleaned up")

    async with open_app() as app:
        run = await app.start(cleaning(), id="one")
        await failure(run)
        before = (await run.info(), await run.steps())
        with pytest.raises(
            NotResumable,
            match=r"failed at step main/flaky#1, and step main/note#1 was recorded after.*outlast fork one",
        ):
            await app.resume("one")
        assert (await run.info(), await run.steps()) == before


async def test_what_ran_beside_the_failed_step_is_kept(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def beside() -> str:
        executed.append("beside")
        return "beside"

    @workflow
    async def parallel() -> list[str]:
        first = asyncio.create_task(beside())
        await first
        return [await flaky(), first.result()]

    async with open_app() as app:
        await failure(await app.start(parallel(), id="one"))
        healthy.append(True)
        assert await (await app.resume("one")).result() == ["up", "beside"]
    assert executed.count("beside") == 1
    assert not door.arrived


@pytest.mark.parametrize("state", ["running", "succeeded", "pending", "waiting"])
async def test_only_an_ended_or_stuck_run_that_did_not_succeed_can_be_resumed(open_app: OpenApp, state: str) -> None:
    door = Door()
    wait = step_at(door)

    @workflow
    async def waiting() -> None:
        if state == "waiting":
            await asyncio.sleep(3600)
        await wait()

    async with open_app(worker=state != "pending") as app:
        run = await app.start(waiting(), id="one")
        if state == "succeeded":
            door.open()
        await reaches(run, state)
        with pytest.raises(NotResumable, match=f"run one is {state}"):
            await app.resume("one")
        assert await run.status() == state
        door.open()


async def test_of_two_who_resume_at_once_one_is_told(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await failure(run)
        healthy.append(True)
        answers = await asyncio.gather(*(app.resume("one") for _ in range(2)), return_exceptions=True)
        assert await run.result() == ["before", "up", "after"]
        assert all(not isinstance(a, BaseException) or isinstance(a, NotResumable) for a in answers)
    assert executed == ["before", "flaky", "flaky", "after"]


# -- cancelled runs ------------------------------------------------------------------------


async def test_a_cancelled_run_does_its_wait_again_after_a_resume(open_app: OpenApp) -> None:
    door = Door()
    wait = step_at(door)

    @workflow
    async def waiting() -> list[Any]:
        return [await note("before"), await wait()]

    async with open_app() as app:
        run = await app.start(waiting(), id="one")
        await door.reached()
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        door.open()
        assert await (await app.resume("one")).result() == ["before", "passed"]
    assert executed == ["before"]


async def test_a_parent_cancelled_while_it_waited_for_its_child_waits_again_after_a_resume(open_app: OpenApp) -> None:
    """Cancellation is not an outcome of the step that was waiting."""
    door = Door()
    child = waiting_at(door)

    @workflow
    async def parent() -> str:
        return str(await child())

    async with open_app() as app:
        run = await app.start(parent(), id="p")
        await door.reached()
        (info,) = await app.runs(workflow=child.name)
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        assert isinstance(await failure(await app.get(info.id)), RunCancelled)
        door.open()
        await app.resume(info.id)
        await app.resume("p")
        assert await run.result() == "passed"


async def test_a_cancelled_run_that_cleaned_up_with_an_effect_is_refused(open_app: OpenApp) -> None:
    door = Door()
    wait = step_at(door)

    @workflow
    async def cleaning() -> None:
        try:
            await wait()
        finally:
            await note("released")

    async with open_app() as app:
        run = await app.start(cleaning(), id="one")
        await door.reached()
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        with pytest.raises(
            NotResumable, match=r"was cancelled, and cleanup step main/note#1 was recorded after.*fork one"
        ):
            await app.resume("one")
    assert executed == ["released"]


async def test_a_run_cancelled_before_it_began_can_be_resumed(open_app: OpenApp) -> None:
    healthy.append(True)
    async with open_app(worker=False) as client:
        run = await client.start(flow(), id="one")
        await run.cancel()
        assert await run.status() == "cancelled"
        await client.resume("one")
        async with open_app():
            assert await run.result() == ["before", "up", "after"]


async def test_a_resumed_run_can_be_cancelled_again(open_app: OpenApp) -> None:
    @workflow
    async def sleeping() -> None:
        await asyncio.sleep(3600)

    async with open_app() as app:
        run = await app.start(sleeping(), id="one")
        for _ in range(3):
            await reaches(run, "waiting")
            await run.cancel()
            assert isinstance(await failure(run), RunCancelled)
            await app.resume("one")
        await reaches(run, "waiting")


# -- children ----------------------------------------------------------------------------------


@workflow
async def failing_child() -> str:
    return await flaky()


@workflow
async def parent_of_failing() -> list[Any]:
    return [await note("before"), await failing_child()]


async def test_a_parent_that_failed_by_its_child_succeeds_once_both_are_resumed(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(parent_of_failing(), id="p")
        assert isinstance(await failure(run), ConnectionError)
        (child,) = await app.runs(workflow="failing_child")
        healthy.append(True)
        await app.resume(child.id)
        await app.resume("p")
        assert await run.result() == ["before", "up"]
    assert executed == ["before", "flaky", "flaky"]


async def test_a_parent_is_not_resumed_before_the_child_that_failed_it(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(parent_of_failing(), id="p")
        assert isinstance(await failure(run), ConnectionError)
        healthy.append(True)
        (child,) = await app.runs(workflow="failing_child")
        with pytest.raises(NotResumable, match=child.id):
            await app.resume("p")
        await (await app.resume(child.id)).result()
        assert await (await app.resume("p")).result()


async def test_a_child_resumed_after_its_parent_was_told_does_not_disturb_the_parent(open_app: OpenApp) -> None:
    @workflow
    async def careful() -> str:
        try:
            return await failing_child()
        except ConnectionError:
            await asyncio.sleep(3600)
            return "caught"

    async with open_app() as app:
        run = await app.start(careful(), id="p")
        await reaches(run, "waiting")
        (child,) = await app.runs(workflow="failing_child")
        assert child.status == "failed"
        healthy.append(True)
        assert await (await app.resume(child.id)).result() == "up"
        await eventually(lambda: _waits(app, "p"))


async def _waits(app: outlast.App, id: str) -> bool:
    return await (await app.get(id)).status() == "waiting"


# -- stuck runs --------------------------------------------------------------------------------


async def test_a_run_in_doubt_is_not_resumed_but_resolved(open_app: OpenApp) -> None:
    @step(effect="once")
    async def pay() -> None:
        raise ConnectionError

    @workflow
    async def paying() -> None:
        await pay()

    async with open_app() as app:
        run = await app.start(paying(), id="one")
        assert (await stuck(run)).reason == "in_doubt"
        with pytest.raises(NotResumable, match="use: outlast resolve"):
            await app.resume("one")
