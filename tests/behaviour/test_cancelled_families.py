"""Cancelling a parent or a child: the other is told, and nothing is left behind."""

from __future__ import annotations

import asyncio

import outlast
from outlast import RunCancelled, workflow
from tests.behaviour.flows import executed, sleeping
from tests.behaviour.stage import OpenApp, eventually, failure, reaches


@workflow
async def parent_of_sleeping() -> str:
    return await sleeping()


async def test_a_cancelled_parent_cancels_the_child_it_waits_for(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(parent_of_sleeping(), id="p")
        await reaches(run, "waiting")
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        (child,) = await app.runs(workflow="sleeping")
        assert isinstance(await failure(await app.get(child.id)), RunCancelled)
    assert executed == ["cleaned up"]


async def test_a_cancelled_parent_leaves_a_started_child_alone(open_app: OpenApp) -> None:
    @workflow
    async def starting() -> None:
        await outlast.start(sleeping(), id="child")
        await asyncio.sleep(3600)

    async with open_app() as app:
        run = await app.start(starting(), id="p")
        await reaches(run, "waiting")
        child = await app.get("child")
        await reaches(child, "waiting")
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        assert await child.status() == "waiting"
        assert await child.steps() == []


async def test_a_parent_cancelled_at_any_moment_of_its_childs_start_is_cancelled(open_app: OpenApp) -> None:
    """The request is not lost, and a child exists properly or not at all."""
    async with open_app(park_after=0) as app:
        runs = [await app.start(parent_of_sleeping(), id=f"p{n}") for n in range(20)]
        for n, run in enumerate(runs):
            for _ in range(n % 5):
                await asyncio.sleep(0)
            await run.cancel()
        for run in runs:
            assert isinstance(await failure(run), RunCancelled)
        for child in await app.runs(workflow="sleeping"):
            assert child.id.split(".sleeping.")[0] in {run.id for run in runs}
            assert isinstance(await failure(await app.get(child.id)), RunCancelled)


async def test_a_wait_for_a_child_that_is_given_up_cancels_the_child(open_app: OpenApp) -> None:
    @workflow
    async def impatient() -> str:
        try:
            return await asyncio.wait_for(sleeping(), 0.05)
        except TimeoutError:
            return "gave up"

    async with open_app() as app:
        assert await (await app.start(impatient())).result() == "gave up"
        (child,) = await app.runs(workflow="sleeping")
        assert isinstance(await failure(await app.get(child.id)), RunCancelled)


async def test_cancelling_reaches_children_of_children(open_app: OpenApp) -> None:
    @workflow
    async def grandparent() -> str:
        return await parent_of_sleeping()

    async with open_app() as app:
        run = await app.start(grandparent())
        await reaches(run, "waiting")
        await eventually(lambda: _sleeps(app))
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        for info in await app.runs():
            assert isinstance(await failure(await app.get(info.id)), RunCancelled)
    assert executed == ["cleaned up"]


async def _sleeps(app: outlast.App) -> bool:
    return bool(await app.runs(workflow="sleeping", status="waiting"))
