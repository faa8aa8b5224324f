"""A body that is cancelled sees CancelledError where it waits: it may clean up, answer otherwise, or go on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from outlast import RunCancelled, step, workflow
from tests.behaviour.flows import executed, note
from tests.behaviour.stage import Door, OpenApp, failure, has_recorded, reaches, stuck, unless_it_ends


async def test_a_body_that_swallows_the_cancellation_goes_on(open_app: OpenApp) -> None:
    @workflow
    async def stubborn() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        await note("after")
        return "ended on its own terms"

    async with open_app() as app:
        run = await app.start(stubborn())
        await reaches(run, "waiting")
        await run.cancel()
        assert await run.result() == "ended on its own terms"
        assert await run.status() == "succeeded"


async def test_a_body_may_answer_the_cancellation_with_an_error(open_app: OpenApp) -> None:
    @workflow
    async def failing() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise LookupError("while cleaning up") from None

    async with open_app() as app:
        run = await app.start(failing())
        await reaches(run, "waiting")
        await run.cancel()
        assert isinstance(await failure(run), LookupError)
        assert await run.status() == "failed"


async def test_all_branches_are_cancelled_and_clean_up(open_app: OpenApp) -> None:
    async def branch(name: str) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await note(name)

    @workflow
    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(branch(name))

    async with open_app() as app:
        run = await app.start(grouped())
        await reaches(run, "waiting")
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
    assert executed == ["a", "b", "c"]


async def test_a_task_that_nobody_awaits_is_cancelled_at_the_end_of_the_body(open_app: OpenApp) -> None:
    async def beside() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await note("beside")

    @workflow
    async def flow() -> str:
        task = asyncio.create_task(beside())
        await note("main")
        return f"{task.done()}"

    async with open_app() as app:
        run = await app.start(flow())
        assert await run.result() == "False"
        assert await run.status() == "succeeded"
    assert executed == ["main", "beside"]


async def test_a_cleaning_that_is_interrupted_goes_on_after_a_restart(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def slow_cleaning() -> str:
        await door.passed()
        executed.append("cleaned")
        return "cleaned"

    @workflow
    async def flow() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await slow_cleaning()

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await run.cancel()
        await unless_it_ends(run, door.reached())
    door.open()
    async with open_app() as app:
        assert isinstance(await failure(await app.get("one")), RunCancelled)
    assert executed == ["cleaned"]


def stubborn(door: Door, *, corrected: bool = False) -> Any:
    """Return a workflow that catches each cancellation and goes on; `corrected` is the next version of its code."""

    @step
    async def work() -> None:
        await door.passed()

    @workflow
    async def stubborn() -> None:
        while True:
            try:
                await work()
            except asyncio.CancelledError:
                executed.append("caught")
                if corrected:
                    raise

    return stubborn


@pytest.mark.parametrize("goes_on", [False, True], ids=["at_once", "after_more_steps"])
async def test_a_body_that_catches_its_cancellation_runs_on_until_its_code_is_corrected(
    open_app: OpenApp, goes_on: bool
) -> None:
    door = Door()
    async with open_app() as app:
        run = await app.start(stubborn(door)(), id="one")
        await door.reached(1)
        await run.cancel()
        await door.reached(2)
        await run.cancel()  # it was told already
        assert await run.status() == "running"
        if goes_on:
            door.open()
            await has_recorded(run, "step")
            door.shut()
            await door.reached(4)
        assert (executed, [s.kind for s in await run.steps()].count("cancel")) == (["caught"], 1)
    stubborn(door, corrected=True)
    async with open_app() as app:
        run = await app.get("one")
        if goes_on:
            assert (await stuck(run)).reason == "diverged"
            await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        assert await run.status() == "cancelled"
