"""A call in a step sees what its caller's context holds: the current trace, the id of a request that logs bear.

A step has a context of its own, as a rule, which holds nothing of its run's body. A framework's calls are made where
they are made also without Outlast, in the middle of the body's code.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from outlast.core.frames import was_interrupted
from outlast.core.identity import here

T = TypeVar("T")


def carrying(make: Callable[[], Coroutine[Any, Any, T]]) -> Callable[[], Coroutine[Any, Any, T]]:
    """Return a function that makes the call in the context of this code, wherever it is called."""
    context = contextvars.copy_context()

    async def made() -> T:
        inner = context.copy()
        inner.run(here.set, here.get())
        value, asked = await asyncio.get_running_loop().create_task(_held(make), context=inner)
        if asked is not None:
            raise asked
        return cast("T", value)

    return made


async def _held(make: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T | None, BaseException | None]:
    """Return a wish to exit the process (`sys.exit`) beside the value: raised in a task, it would end the worker.

    The step raises it, and a step's wish to exit is no more than its failure.
    """
    try:
        return await make(), None
    except (KeyboardInterrupt, SystemExit) as asked:
        if was_interrupted(asked):
            raise
        return None, asked
