"""What a failure or a cancellation had other tasks do is no work beside it, whenever the news reaches them."""

from __future__ import annotations

import asyncio

import pytest

import outlast
from outlast import NotResumable, step, workflow
from tests.behaviour.flows import executed
from tests.behaviour.stage import Door, Ears, OpenApp, eventually, failure


@step
async def undo() -> None:
    executed.append("undo")


@step
async def ship() -> None:
    executed.append("ship")


@step
async def fails() -> None:
    raise ConnectionError("down")


async def test_a_task_that_cleaned_up_after_a_once_step_of_a_cancelled_run(open_app: OpenApp) -> None:
    door = Door()
    told: list[str] = []

    @step(effect="once")
    async def charge() -> None:
        await door.passed()

    async def beside() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            told.append("cancelled")

    async def pay() -> None:
        try:
            await charge()
            await ship()
        except asyncio.CancelledError:
            await undo()
            raise

    @workflow
    async def trip() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(pay())
            if not told:
                group.create_task(beside())

    async with open_app() as app:
        run = await app.start(trip(), id="one")
        await door.reached()
        await run.cancel()
        await eventually(lambda: told != [])
        door.open()
        assert isinstance(await failure(run), outlast.RunCancelled)
        with pytest.raises(NotResumable, match=r"main\.pay#1/undo#1"):
            await app.resume("one")
        assert await run.status() == "cancelled"
    assert executed == ["undo"]


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_sibling_in_a_group_that_cleaned_up_after_its_once_step(
    open_app: OpenApp, effect: outlast.EffectName
) -> None:
    door, ears = Door(), Ears()

    @step(effect="once")
    async def charge() -> None:
        await door.passed()

    @step
    async def reserve() -> None:
        await door.reached()
        raise ConnectionError("down")

    @step(effect=effect)
    async def clean_up() -> None:
        executed.append("clean_up")

    async def pay() -> None:
        try:
            await charge()
            await ship()
        finally:
            await clean_up()

    @workflow
    async def trip() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(pay())
            group.create_task(reserve())

    async with open_app(on_event=ears) as app:
        run = await app.start(trip(), id="one")
        await ears.hear("step.ended", step="main/reserve#1")
        door.open()
        assert isinstance(await failure(run), ExceptionGroup)
        with pytest.raises(NotResumable, match=r"main\.pay#1/clean_up#1"):
            await app.resume("one")
        assert await run.status() == "failed"


async def test_a_sibling_that_was_cancelled_when_a_failed_task_was_awaited_at_last(open_app: OpenApp) -> None:
    door, ears = Door(), Ears()

    @step
    async def wait(until: bool) -> None:
        if until:
            await door.passed()

    async def holds_it_back() -> None:
        task = asyncio.create_task(fails())
        await wait(True)
        await task

    async def works() -> None:
        await wait(False)
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await undo()
            raise

    @workflow
    async def trip() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(holds_it_back())
            group.create_task(works())

    async with open_app(on_event=ears) as app:
        run = await app.start(trip(), id="one")
        await ears.hear("step.ended", step="main.holds_it_back#1/fails#1")
        await ears.hear("step.ended", step="main.works#1/wait#1")
        door.open()
        assert isinstance(await failure(run), ExceptionGroup)
        with pytest.raises(NotResumable, match=r"main\.works#1/undo#1"):
            await app.resume("one")
        assert await run.status() == "failed"
