"""How code that waits is ended from outside."""

from __future__ import annotations

import contextvars
import ctypes
from typing import Any

MOST_CLOSINGS = 100


async def aclose(generator: Any) -> None:
    """Close an async generator, as a coroutine that can be a task."""
    await generator.aclose()


def end(coro: Any, context: contextvars.Context) -> None:
    """Close a coroutine, and again as long as its clean-up waits for something: here nothing ever comes."""
    for _ in range(MOST_CLOSINGS):
        try:
            context.run(coro.close)
        except BaseException:  # noqa: BLE001 - the clean-up of a stopped run can have no effect, nor its errors
            continue
        return
    _keep(coro)


def _keep(coro: object) -> None:
    """Never let go of a coroutine that catches even GeneratorExit.

    The garbage collector would run it in the midst of another run, or at the process's exit, without end.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(coro))
