"""Compensations: what undoes the steps of a run, when its body fails or is cancelled.

A body registers them as it goes. They are calls like any other, whose identities and arguments are fixed when they are
made. When the body raises, its other tasks are ended first, so that nothing goes on while its work is undone; then the
calls are made, the last first, each once the one before it has its outcome. All of this is part of the body, as far as
the engine can tell, so it is replayed like the rest of it. A cancellation that comes meanwhile is recorded, and changes
nothing: the run is ending already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.core.body import failed
from outlast.core.definitions import Call
from outlast.core.errors import RunCancelled, Suspended
from outlast.core.frames import add_note
from outlast.core.records import Record
from outlast.core.turns import check_not_swallowed, is_turn_over

if TYPE_CHECKING:
    from outlast.core.engine import Engine

COMPENSATION = "compensation"
"""The fact by which the record of a compensation can be told from other steps."""

NOT_ENDS = (Suspended, GeneratorExit)
"""What a body raises that is stopped from outside: it goes on elsewhere, so nothing is undone.

Nor is it when its turn is over: what it did stays done, like that of a body that returns.
"""


@dataclass(frozen=True, slots=True)
class Compensation:
    """A call that undoes something, with its arguments as they were when it was registered."""

    call: Call[Any]
    encoded: bytes
    args: bytes


async def compensated(engine: Engine, body: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Return what an async body returns; when it raises, undo what it registered, and raise its error."""
    try:
        value = await body()
        _check_result(engine, value)
        return value
    except NOT_ENDS:
        raise
    except BaseException as raised:
        if not engine.compensations or is_turn_over(raised):
            raise
        error = raised
    engine.compensating = True
    await _end_others(engine)
    failures: list[tuple[str, Exception]] = []
    last = ""
    while engine.compensations:
        undo = engine.compensations.pop()
        last = undo.call.key
        try:
            await engine.issue_registered(undo)
        except Exception as failure:  # noqa: BLE001 - the others are to be undone all the same
            failures.append((last, failure))
    raise _told(engine, error, failures, last)


def compensated_in_thread(engine: Engine, body: Callable[[], Any]) -> Any:
    """Return what the body of a sync workflow returns; when it raises, undo what it registered, and raise its error."""
    try:
        value = body()
        _check_result(engine, value)
        return value
    except NOT_ENDS:
        raise
    except BaseException as raised:
        if not engine.compensations or is_turn_over(raised):
            raise
        error = raised
    engine.compensating = True
    _end_other_calls(engine)
    failures: list[tuple[str, Exception]] = []
    last = ""
    while engine.compensations:
        undo = engine.compensations.pop()
        last = undo.call.key
        try:
            engine.block(engine.issue_registered(undo))
        except Exception as failure:  # noqa: BLE001 - the others are to be undone all the same
            failures.append((last, failure))
    raise _told(engine, error, failures, last)


def is_compensation(record: Record) -> bool:
    """Tell whether this is the outcome of a compensation."""
    if not record.note.startswith("{"):
        return False
    try:
        return msgspec.json.decode(record.note).get(COMPENSATION) is True
    except (msgspec.DecodeError, AttributeError):
        return False


def note_undone(engine: Engine, error: BaseException) -> None:
    """Name the compensations that a run registered and that its end, which was not its body's, does not make."""
    if engine.compensations:
        keys = ", ".join(undo.call.key for undo in reversed(engine.compensations))
        add_note(error, f"compensations that were not made: {keys}")


def _check_result(engine: Engine, value: Any) -> None:
    """Raise what a run fails by though its body has returned, so that what it did is undone."""
    check_not_swallowed(engine)
    if engine.compensations:
        engine.codec.encode(value)


async def _end_others(engine: Engine) -> None:
    """Cancel the other tasks of the body, in order of creation, and wait for their ends."""
    me, cancelled = asyncio.current_task(), set[asyncio.Task[Any]]()
    while others := [task for task in engine.loop.unfinished() if task is not me]:
        for task in others:
            if task not in cancelled:
                cancelled.add(task)
                task.cancel()
        await asyncio.wait(others)
    left = [p for p in engine.calls.values() if not p.done and not p.call.detached]  # a native body's tasks are unknown
    for pending in left:
        pending.future.cancel()
    if left := [pending for pending in left if not pending.done]:  # a `once` attempt comes to its outcome first
        await asyncio.wait([pending.future for pending in left])


def _end_other_calls(engine: Engine) -> None:
    """Give up the calls that were started and not waited for; a `once` attempt comes to its outcome first."""
    left = [pending for pending in engine.calls.values() if not pending.done and not pending.call.detached]
    for pending in left:
        pending.future.cancel()
    for pending in left:
        if not pending.done:
            try:
                engine.block(pending.future)
            except (Exception, asyncio.CancelledError):  # noqa: BLE001 - an outcome that nobody asks for any more
                continue


def _told(engine: Engine, error: BaseException, failures: list[tuple[str, Exception]], last: str) -> BaseException:
    """Return the error that the run ends with: the body's own, or a group that also has what could not be undone.

    The run's culprit is then the compensation that was made last, if that has failed: it alone can be tried again by
    `resume`, since nothing came after it. Else it is whatever the body failed by.
    """
    if not failures:
        return error
    ended, what = failed(engine, error), "failed"
    original = ended.error
    if original is None:
        original, what = RunCancelled(f"run {engine.run_id} was cancelled"), "was cancelled"
    keys = ", ".join(key for key, _ in failures)
    left = [failure for _, failure in failures]
    group = ExceptionGroup(
        f"run {engine.run_id} {what}, and not all that it did could be undone: {keys} failed, too",
        [original if isinstance(original, Exception) else RunCancelled(str(original)), *left],
    )
    engine.blame(group, last if failures[-1][0] == last else ended.culprit)
    return group
