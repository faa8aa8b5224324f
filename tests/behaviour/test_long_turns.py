"""Turns of many callbacks: a body has as much to do between two steps as it likes."""

from __future__ import annotations

import asyncio
from typing import Any

from outlast import workflow
from tests.behaviour.flows import note
from tests.behaviour.stage import OpenApp, Restart


async def pass_through_a_queue(items: int) -> None:
    """Have a task put so many items in a queue of one place: each takes several callbacks of the loop."""
    queue: asyncio.Queue[int] = asyncio.Queue(1)

    async def produce() -> None:
        for i in range(items):
            await queue.put(i)

    task = asyncio.create_task(produce())
    for _ in range(items):
        await queue.get()
    await task


async def test_a_long_turn_comes_to_its_end_whatever_else_is_pending(restart: Restart) -> None:
    @workflow
    async def flow() -> list[Any]:
        async with asyncio.timeout(600):
            aside = asyncio.create_task(asyncio.sleep(500))
            await pass_through_a_queue(20_000)
            found = await note("after the long turn")
            await restart.point()
            await pass_through_a_queue(20_000)
            aside.cancel()
            return [found, await note("after another")]

    assert await restart.result(flow()) == ["after the long turn", "after another"]


async def test_a_long_turn_lets_other_runs_have_theirs(open_app: OpenApp) -> None:
    others: list[str] = []

    @workflow
    async def long() -> list[str]:
        await pass_through_a_queue(50_000)
        return list(others)

    @workflow
    async def short() -> None:
        others.append("short")

    async with open_app() as app:
        run, other = await app.start(long()), await app.start(short())
        await other.result()
        assert await run.result() == ["short"]
