"""What a run in memory waits for, when it is about to rest, and when something of its own is due."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from outlast.core.identity import shown
from outlast.core.waits import Wait
from outlast.runtime.awaited import Awaited
from outlast.runtime.deadlines import deadline_ahead
from outlast.stores.rules import keepable

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution

MOST_TOLD = 10
MOST_CHARACTERS = 200


def awaited_by(run: Execution) -> list[Awaited]:
    """Return what a run in memory waits for, what tells most first; the last one counts those that are left out."""
    found = [*_doubts(run), *_calls(run), *_clocks(run)]
    rest = len(found) - MOST_TOLD
    told = found if rest <= 0 else [*found[:MOST_TOLD], Awaited("more", f"{rest} more")]
    return [msgspec.structs.replace(each, says=_short(each.says)) for each in told]


def next_due(run: Execution) -> float | None:
    """Return when something of its own is due for a run in memory."""
    dues = [*run.steps.retries.values(), *(doubt.due for doubt in run.steps.doubts.values()), *run.approvals.dues()]
    timer = None if run.steps.hold_back_timers() else run.engine.next_timer()
    if timer is not None and timer.when() < float("inf"):
        dues.append(timer.when())
    return min((due for due in (*dues, deadline_ahead(run)) if due is not None), default=None)


def _doubts(run: Execution) -> Iterator[Awaited]:
    for doubt in run.steps.doubts.values():
        if doubt.due is not None:
            yield Awaited("doubt", doubt.says, doubt.pending.key, doubt.due)


def _calls(run: Execution) -> Iterator[Awaited]:
    """Yield what has to come from outside: from people, from who sends messages, from children."""
    calls = run.engine.waits_for()
    for pending in sorted(calls, key=lambda p: p.is_child):
        if isinstance(wait := pending.call.definition, Wait):
            due = pending.timer.when() if pending.timer is not None else run.approvals.due(pending)
            yield Awaited(wait.kind, wait.says(), pending.key, due)
        elif pending.is_child:
            yield Awaited("child", f"child {shown(pending.key)}", pending.key)


def _clocks(run: Execution) -> Iterator[Awaited]:
    """Yield what comes with time."""
    for key, due in run.steps.retries.items():
        yield Awaited("retry", f"the next attempt of {shown(key)}", key, due)
    of_waits = {id(pending.timer) for pending in run.engine.waits_for()}
    if not run.steps.hold_back_timers():
        for timer in sorted(run.engine.loop.timers.values(), key=lambda timer: timer.when()):
            if timer.when() < float("inf") and id(timer) not in of_waits:
                yield Awaited("timer", f"timer {shown(timer.key)}", timer.key, timer.when())
    if (deadline := deadline_ahead(run)) is not None:
        yield Awaited("deadline", "its deadline", due=deadline)


def _short(text: str) -> str:
    line = keepable(text)
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"
