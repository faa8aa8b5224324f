"""Tasks that the code of a run makes on the worker's loop: an exit in one of them is its error, not the worker's end.

A task of asyncio that raises SystemExit or KeyboardInterrupt raises it through its loop, and so ends the process: every
worker that took the run over would end as well. A step or a body that does so itself is caught where it is executed
(`attempts.py`, `native.py`); what they, or a framework in them, hand to a task of its own is caught here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from outlast.core.effects import InBody, InStep
from outlast.core.errors import StepError
from outlast.core.frames import keep_where, was_interrupted, where_of
from outlast.core.identity import here
from outlast.core.telling import text_of_error

TaskFactory = Callable[..., Any]


def contain_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Have a loop contain what the code of runs makes tasks of, from now on."""
    before = loop.get_task_factory()
    if not isinstance(before, _Factory):
        loop.set_task_factory(_Factory(before))


class _Factory:
    """Makes tasks, by the factory that the loop had before where it had one."""

    def __init__(self, before: TaskFactory | None) -> None:
        self._before = before

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **how: Any) -> Any:
        context: Context | None = how.get("context")
        place = here.get() if context is None else context.get(here)
        if isinstance(place, (InBody, InStep)) and asyncio.iscoroutine(coro):
            coro = _Contained(coro)
        if self._before is not None:
            return self._before(loop, coro, **how)
        return asyncio.Task(coro, loop=loop, **how)


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine that raises StepError where the one in it asks the process to exit."""

    __slots__ = ("_coro",)

    def __init__(self, coro: Coroutine[Any, Any, Any]) -> None:
        self._coro = coro

    def send(self, value: Any) -> Any:
        try:
            return self._coro.send(value)
        except (SystemExit, KeyboardInterrupt) as asked:
            raise _contained(asked) from asked

    def throw(self, *error: Any) -> Any:
        try:
            return self._coro.throw(*error)
        except (SystemExit, KeyboardInterrupt) as asked:
            raise _contained(asked) from asked

    def close(self) -> None:
        self._coro.close()

    def __await__(self) -> Any:
        return self._coro.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coro, name)


def _contained(asked: BaseException) -> BaseException:
    if was_interrupted(asked):
        raise asked
    name, code = type(asked).__name__, text_of_error(asked)
    text = f"a task of the run's code asked the process to exit ({name}{f': {code}' if code else ''})"
    error = StepError(text, type_name=f"builtins:{name}", text=code)
    keep_where(error, where_of(asked))
    return error
