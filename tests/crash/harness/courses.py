"""Workflows that end by undoing what they did, or go on as another call."""

from __future__ import annotations

import asyncio

import outlast
from outlast import step, workflow
from tests.crash.harness.agent import _do


@step
async def book(what: str) -> str:
    """Book something."""
    _do("book", "idempotent", what)
    return what


@step
async def give_back(what: str) -> str:
    """Undo it."""
    _do("give_back", "idempotent", what)
    return what


@workflow
async def trip(what: str) -> None:
    """Book, fail and give back."""
    for part in ("flight", "hotel", "car"):
        outlast.compensate(give_back(await book(part)))
    await asyncio.sleep(0.01)
    raise LookupError(what)


@workflow
async def rolling(what: str, turns: int, seen: list[int]) -> list[int]:
    """Take two messages in each turn."""
    seen = [*seen, await outlast.receive("n", type=int), await outlast.receive("n", type=int)]
    await book(f"turn {turns}")
    if turns > 1:
        return outlast.continue_as(rolling(what, turns - 1, seen))
    return seen
