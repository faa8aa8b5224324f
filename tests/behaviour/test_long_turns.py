"""Turns of many callbacks: a body has as much to do between two steps as it likes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast import workflow
from outlast.core.engine import Engine
from tests.behaviour.flows import note
from tests.behaviour.stage import OpenApp, Restart, stuck


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


@pytest.mark.parametrize("blocking", [False, True], ids=["long", "in_thread"])
async def test_a_fault_of_the_library_after_a_turn_sticks_the_run(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, blocking: bool
) -> None:
    @workflow
    async def long() -> None:
        await pass_through_a_queue(20_000)

    @workflow
    def in_thread() -> None: ...

    def fault(engine: Engine) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(Engine, "_check_end", fault)
    async with open_app() as app:
        info = await stuck(await app.start(in_thread() if blocking else long()))
    assert "an unexpected error: ZeroDivisionError: a fault" in info.detail
