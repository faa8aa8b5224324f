"""One text for blocking and for async drivers.

What is done with a database is written as coroutines. A blocking driver has done its work when its call returns, so
over such a driver they never wait, and any thread can run one to its end without an event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def settled(answer: Any) -> Any:
    """Return what a driver's call came to: it is there already, or is waited for."""
    return await answer if inspect.isawaitable(answer) else answer


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine over a blocking driver to its end."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise AssertionError("a blocking driver has nothing to wait for")


async def pause(seconds: float, *, is_async: bool) -> None:
    """Let some time go by."""
    if is_async:
        await asyncio.sleep(seconds)
    else:
        threading.Event().wait(seconds)
