"""What has to be brought to its end, once begun, whoever is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait for `work`, which a cancellation of the caller does not reach; the caller sees it when `work` is done.

    When everything on the loop is cancelled, as at the end of `asyncio.run`, `work` is too.
    """
    task = asyncio.ensure_future(work)
    asked: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as cancelled:
            asked = cancelled
    if asked is not None and not task.cancelled():
        task.result()
        raise asked
    task.result()


async def or_undone(made: asyncio.Future[T], undo: Callable[[T], object]) -> T:
    """Wait for what a thread makes; when the caller is cancelled meanwhile, undo it as soon as it is made."""
    try:
        return await asyncio.shield(made)
    except asyncio.CancelledError:
        made.add_done_callback(lambda done: done.exception() or undo(done.result()))
        raise
