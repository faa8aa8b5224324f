"""A published value is the last one, seen by anybody, and no attempt that was given up can change it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast
from outlast import Retry, WrongUse, step, workflow
from tests.behaviour.stage import Door, OpenApp, Restart, eventually, unless_it_ends


async def test_steps_and_bodies_publish_and_anybody_reads(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def work() -> None:
        for n in range(100):
            outlast.publish("progress", n / 100)
        await door.passed()

    @step
    def in_thread() -> None:
        outlast.publish("thread", True)

    @workflow
    async def flow() -> None:
        outlast.publish("phase", "working")
        await work()
        await in_thread.call()
        outlast.publish("phase", {"done": 1})

    async with open_app() as app:
        run = await app.start(flow())
        await unless_it_ends(run, door.reached())

        async def has_come() -> bool:
            return bool(await run.value("progress") == 0.99)

        await eventually(has_come)
        assert await run.value("phase") == "working"
        door.open()
        await run.result()
        assert await run.values() == {"phase": {"done": 1}, "progress": 0.99, "thread": True}
        assert (await run.value("none"), await run.value("none", 5)) == (None, 5)
        assert await run.value("phase", type=dict[str, int]) == {"done": 1}


async def test_a_replayed_body_publishes_nothing_again(restart: Restart, open_app: OpenApp) -> None:
    @step(effect="pure")
    async def newer() -> None:
        outlast.publish("v", "newer")

    @workflow
    async def flow() -> Any:
        outlast.publish("v", "first")
        await newer()
        await restart.point()
        await asyncio.sleep(3600)

    run_id = await restart.run(flow())
    async with open_app() as app:
        run = await app.get(run_id)

        async def waits() -> bool:
            return await run.status() == "waiting"

        await eventually(waits)
        assert await run.value("v") == "newer"
        await run.cancel()


async def test_a_thread_that_was_given_up_publishes_and_writes_no_more(open_app: OpenApp) -> None:
    door, ended = Door(), Door()
    seen: list[str] = []

    @step(timeout=0.3, retry=Retry(attempts=5, initial=0.001))
    def slow() -> str:
        if outlast.attempt() == 1:
            outlast.publish("v", "first")
            door.pass_in_thread()
            for act in (lambda: outlast.publish("v", "late"), lambda: outlast.stream("s").write("late")):
                try:
                    act()
                except asyncio.CancelledError as error:
                    seen.append(str(error))
            ended.open()
            return "late"
        outlast.publish("v", "second")
        outlast.stream("s").write("second")
        door.open()
        ended.pass_in_thread()
        return "second"

    @workflow
    async def flow() -> str:
        return await slow.call()

    async with open_app() as app:
        run = await app.start(flow())
        assert await run.result() in ("second", "late")
        assert await run.value("v") == "second"
        assert [getattr(thing, "value", None) async for thing in run.stream("s")] == ["second"]
        assert len(seen) == 2
        assert "given up" in seen[0]


async def test_what_cannot_be_stored_fails_where_it_is_published(open_app: OpenApp) -> None:
    @workflow
    async def flow() -> str:
        with pytest.raises(outlast.EncodingError, match="published as 'v'"):
            outlast.publish("v", object())
        with pytest.raises(WrongUse, match="printable"):
            outlast.publish("", 1)
        return "told"

    async with open_app() as app:
        run = await app.start(flow())
        assert await run.result() == "told"
        assert await run.values() == {}
