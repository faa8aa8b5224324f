"""Which function of asyncio it is that creates a task for a coroutine it was given."""

from __future__ import annotations

import asyncio
from types import CodeType, FrameType
from typing import Any


def _codes(function: Any) -> set[CodeType]:
    """Return a function's code and that of the functions and comprehensions written in it."""
    found: set[CodeType] = set()
    todo = [function.__code__]
    while todo:
        code = todo.pop()
        found.add(code)
        todo += [c for c in code.co_consts if isinstance(c, CodeType)]
    return found


_WAIT_FOR = _codes(asyncio.wait_for)
_AS_COMPLETED = _codes(asyncio.as_completed)
if hasattr(asyncio.tasks, "_AsCompletedIterator"):  # 3.13
    _AS_COMPLETED |= _codes(asyncio.tasks._AsCompletedIterator.__init__)


def spawner_of(frame: FrameType | None) -> str:
    """Name the asyncio function that creates this task for a coroutine of its own choosing, or ''."""
    for _ in range(4):  # create_task <- [ensure_future <- _ensure_future <-] caller
        if frame is None:
            return ""
        code = frame.f_code
        if code in _WAIT_FOR:
            return "wait_for"
        if code in _AS_COMPLETED:
            return "as_completed"
        if code.co_filename != asyncio.tasks.__file__:
            return ""
        frame = frame.f_back
    return ""
