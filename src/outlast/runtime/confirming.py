"""One question to a step's `confirm`: whatever becomes of it, there is an answer, or the reason why there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from outlast.core.effects import InStep
from outlast.core.frames import was_interrupted
from outlast.core.functions import is_async
from outlast.core.identity import here
from outlast.core.telling import error_line

Answer = tuple[Any, str]
"""What a confirm said, and '', or None and why it said nothing."""


async def ask(
    confirm: Callable[..., Any], place: InStep, args: Sequence[Any], kwargs: dict[str, Any], limit_s: float
) -> Answer:
    """Ask once. Only a cancellation of the caller is raised; a confirm that does not heed its own is left behind."""
    task = asyncio.create_task(_caught(confirm, place, args, kwargs))
    try:
        await asyncio.wait({task}, timeout=limit_s)
    finally:
        task.cancel()
    if not task.done():
        return None, f"TimeoutError: no answer within {limit_s:g} s"
    return (None, "CancelledError") if task.cancelled() else task.result()


async def _caught(confirm: Callable[..., Any], place: InStep, args: Sequence[Any], kwargs: dict[str, Any]) -> Answer:
    """Keep what a confirm raises from its task: there it would pass for the task's end, or end the process."""
    try:
        return await _call(confirm, place, args, kwargs), ""
    except (KeyboardInterrupt, SystemExit) as asked:
        if was_interrupted(asked):
            raise
        return None, f"a wish to exit the process ({error_line(asked)})"  # which is not for a confirm to decide
    except asyncio.CancelledError as cancelled:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return None, error_line(cancelled)  # its own: the task of a client that it shares with others, say
    except BaseException as error:  # noqa: BLE001 - a confirm may fail in any way
        return None, error_line(error)


async def _call(confirm: Callable[..., Any], place: InStep, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    here.set(place)
    key = place.idempotency_key
    if is_async(confirm):
        return await confirm(key, *args, **kwargs)
    answer, error = await asyncio.to_thread(_call_blocking, confirm, key, args, kwargs)
    if error is not None:
        raise error
    return await answer if asyncio.iscoroutine(answer) else answer


def _call_blocking(
    confirm: Callable[..., Any], key: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, BaseException | None]:
    """Called in a thread, out of which not every error comes by itself (a StopIteration does not)."""
    try:
        return confirm(key, *args, **kwargs), None
    except BaseException as error:  # noqa: BLE001 - see above
        return None, error
