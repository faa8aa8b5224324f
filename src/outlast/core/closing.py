"""How code that waits is ended from outside."""

from __future__ import annotations

import contextvars
from typing import Any

from outlast.core.errors import Suspended

MOST_WAITS = 100


def suspended(run_id: str) -> Suspended:
    """Return what an operation of a stopped run raises."""
    return Suspended(f"run {run_id} was stopped here; whatever it starts now has no effect")


async def aclose(generator: Any) -> None:
    """Close an async generator, as a coroutine that can be a task."""
    await generator.aclose()


def end(coro: Any, context: contextvars.Context) -> None:
    """Raise Suspended where a coroutine waits, and again as long as its clean-up waits: here nothing ever comes.

    `close()` would not do. It reaches the innermost coroutine first, and where that waits in its clean-up, it is left
    there, and the next one is told of a RuntimeError, which user code may well catch.
    """
    for _ in range(MOST_WAITS):
        try:
            context.run(coro.throw, Suspended("the run was stopped here; whatever it starts now has no effect"))
        except BaseException:  # noqa: BLE001 - it has ended; what it raised can have no effect either
            return
    _keep(coro)


def _keep(coro: object) -> None:
    """Never let go of a coroutine that catches even that.

    The garbage collector would run it in the midst of another run, or at the process's exit, without end.
    """
    import ctypes  # noqa: PLC0415 - seldom needed, and slow to import

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(coro))
