"""A run that ended with, or by, a child is resumed after that child; until then `resume` says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast
from outlast import NotResumable, RunCancelled, step, workflow
from tests.behaviour.stage import Door, OpenApp, eventually, failure, reaches

healthy: list[bool] = []
cleaning = Door()


async def _waits(app: outlast.App, id: str) -> bool:
    return any((run.id, run.status) == (id, "waiting") for run in await app.runs())


async def _has_heard(run: outlast.Run[Any]) -> bool:
    return any((s.name, s.state) == ("resting", "failed") for s in await run.steps())


@pytest.fixture(autouse=True)
def sick() -> None:
    healthy.clear()
    cleaning.arrived = 0
    cleaning.shut()


@step
async def clean() -> None:
    await cleaning.passed()


@workflow
async def resting() -> str:
    if not healthy:
        await asyncio.sleep(3600)
    return "rested"


@workflow
async def tidy() -> str:
    try:
        await asyncio.sleep(3600)
    finally:
        await clean()
    return "tidied"


@workflow
async def parent() -> str:
    return await resting()


def failing_at(door: Door) -> Any:
    """Return a step that waits at the door, and fails there as long as not all is well."""

    @step
    async def fails() -> str:
        await door.passed()
        if not healthy:
            raise ConnectionError
        return "up"

    return fails


async def test_a_cancelled_parent_is_not_resumed_before_the_child_that_was_cancelled_with_it(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(parent(), id="p")
        await reaches(run, "waiting")
        (info,) = await app.runs(workflow="resting")
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        assert isinstance(await failure(await app.get(info.id)), RunCancelled)
        with pytest.raises(NotResumable, match=rf"waits for its child {info.id}, which is cancelled; resume that one"):
            await app.resume("p")
        healthy.append(True)
        await app.resume(info.id)
        assert await (await app.resume("p")).result() == "rested"


async def test_a_cancelled_parent_is_not_resumed_while_its_child_still_cleans_up(open_app: OpenApp) -> None:
    @workflow
    async def parent_of_tidy() -> str:
        return await tidy()

    async with open_app() as app:
        run = await app.start(parent_of_tidy(), id="p")
        await reaches(run, "waiting")
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        await cleaning.reached()
        with pytest.raises(NotResumable, match=r"cancelled together with its child p.tidy.*, which is ending"):
            await app.resume("p")
        cleaning.open()


async def test_a_child_that_outlives_its_parent_does_not_hold_up_resuming_it(open_app: OpenApp) -> None:
    @workflow
    async def starter() -> str:
        await outlast.start(resting(), id="child")
        if not healthy:
            await asyncio.sleep(3600)
        return "done"

    async with open_app() as app:
        run = await app.start(starter(), id="p")
        await reaches(run, "waiting")
        await reaches(await app.get("child"), "waiting")
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        healthy.append(True)
        assert await (await app.resume("p")).result() == "done"
        await app.cancel("child")


async def test_a_child_given_up_for_a_failed_step_is_resumed_and_then_its_parent(open_app: OpenApp) -> None:
    door = Door()
    fails = failing_at(door)

    @workflow
    async def grouped() -> list[str]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(fails()), group.create_task(resting.options(id="child")())]
        except* ConnectionError:
            await asyncio.sleep(0.2)  # meanwhile it hears of its child's end
            raise
        return [task.result() for task in tasks]

    async with open_app() as app:
        run = await app.start(grouped(), id="p")
        await eventually(lambda: _waits(app, "child"))
        door.open()
        assert isinstance(await failure(run), ExceptionGroup)
        with pytest.raises(NotResumable, match="child child, which is cancelled; resume that one first"):
            await app.resume("p")
        healthy.append(True)
        assert await (await app.resume("child")).result() == "rested"
        assert await (await app.resume("p")).result() == ["up", "rested"]


async def test_a_child_that_was_given_up_and_heard_of_before_does_not_hold_up_its_parent(open_app: OpenApp) -> None:
    @workflow
    async def impatient() -> str:
        try:
            async with asyncio.timeout(0.1):
                await resting.options(id="child")()
        except TimeoutError:
            await asyncio.sleep(0.2)
        if not healthy:
            await asyncio.sleep(3600)
        return "done"

    async with open_app() as app:
        run = await app.start(impatient(), id="p")
        await eventually(lambda: _has_heard(run))
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        healthy.append(True)
        assert await (await app.resume("p")).result() == "done"


# -- a child that was given up, and resumed by a person ----------------------------------------------


@step
async def pause() -> None:
    await cleaning.passed()


@workflow
async def job() -> str:
    if not healthy:
        await asyncio.sleep(3600)
    await pause()
    await asyncio.sleep(0.3)
    return "done"


async def test_a_parent_that_replays_does_not_end_the_child_again_that_it_once_gave_up(open_app: OpenApp) -> None:
    @workflow
    async def impatient() -> str:
        try:
            async with asyncio.timeout(0.05):
                await job.options(id="job")()
        except TimeoutError:
            await asyncio.sleep(0.05)
        await follow()
        for _ in range(5):
            await asyncio.sleep(0.05)  # each wake is a replay
        return "parent done"

    door = Door()

    @step
    async def follow() -> None:
        await door.passed()

    async with open_app() as app:
        run = await app.start(impatient(), id="p")
        await door.reached()
        child = await app.get("job")
        assert isinstance(await failure(child), RunCancelled)
        healthy.append(True)
        await app.resume("job")
        await cleaning.reached()
        door.open()
        assert await run.result() == "parent done"
        cleaning.open()
        assert await child.result() == "done"


async def test_a_parent_that_is_resumed_does_not_end_the_child_again_that_it_once_gave_up(open_app: OpenApp) -> None:
    door = Door()
    fails = failing_at(door)

    @workflow
    async def impatient() -> str:
        try:
            async with asyncio.timeout(0.05):
                await job.options(id="job")()
        except TimeoutError:
            pass
        return await fails()

    async with open_app() as app:
        run = await app.start(impatient(), id="p")
        await door.reached()
        door.open()
        assert isinstance(await failure(run), ConnectionError)
        child = await app.get("job")
        assert isinstance(await failure(child), RunCancelled)
        healthy.append(True)
        await app.resume("job")
        await cleaning.reached()
        assert await (await app.resume("p")).result() == "up"
        cleaning.open()
        assert await child.result() == "done"


async def test_a_parent_that_gives_a_resumed_child_up_anew_ends_it_anew(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(parent(), id="p")
        await reaches(run, "waiting")
        (info,) = await app.runs(workflow="resting")
        child = await app.get(info.id)
        for _ in range(3):
            await run.cancel()
            assert isinstance(await failure(run), RunCancelled)
            assert isinstance(await failure(child), RunCancelled)
            await app.resume(info.id)
            await app.resume("p")
            await reaches(run, "waiting")


async def test_giving_one_call_up_does_not_end_the_child_of_a_later_one(open_app: OpenApp) -> None:
    @workflow
    async def twice() -> str:
        first = asyncio.create_task(job.options(id="job")())
        await asyncio.sleep(0)
        first.cancel()  # it was never started
        await asyncio.wait([first])
        second = asyncio.create_task(job.options(id="job")())
        for _ in range(3):
            await asyncio.sleep(0.05)  # each wake is a replay
        return await second

    healthy.append(True)
    cleaning.open()
    async with open_app() as app:
        assert await (await app.start(twice(), id="p")).result() == "done"
