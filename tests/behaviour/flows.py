"""Steps and workflows that many tests need. `executed` holds what they have done; it is empty when a test begins."""

from __future__ import annotations

import asyncio
from typing import Any

from outlast import step, workflow
from tests.behaviour.stage import Door

executed: list[Any] = []


@step
async def note(what: Any) -> Any:
    """Note it and return it."""
    executed.append(what)
    return what


@step
def add(a: int, b: int) -> int:
    """Add, in a thread."""
    executed.append((a, b))
    return a + b


@step
async def add_async(a: int, b: int) -> int:
    """Add, in the event loop."""
    executed.append((a, b))
    return a + b


@workflow
def summing(n: int) -> int:
    """Add the first numbers up, in a sync body."""
    total = 0
    for i in range(n):
        total = add(total, i)
    return total


@step
async def double(n: int) -> int:
    """Return twice the number, and leave no note."""
    return 2 * n


@workflow
async def doubled(n: int) -> int:
    """Have a number doubled."""
    return await double(n)


@workflow
async def sleeping(seconds: float = 3600) -> str:
    """Sleep, and clean up with a step."""
    try:
        await asyncio.sleep(seconds)
    finally:
        await note("cleaned up")
    return "woke"


def step_at(door: Door, cancelled: list[str] | None = None) -> Any:
    """Return a step that waits at the door; `cancelled` keeps a word of each time that it is cancelled there."""

    @step
    async def wait() -> str:
        try:
            await door.passed()
        except asyncio.CancelledError:
            if cancelled is not None:
                cancelled.append("step cancelled")
            raise
        return "passed"

    return wait


def waiting_at(door: Door, cancelled: list[str] | None = None) -> Any:
    """Return a workflow of one step, made by `step_at`."""
    wait = step_at(door, cancelled)

    @workflow
    async def waiting() -> str:
        return str(await wait())

    return waiting
