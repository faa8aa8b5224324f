"""What a run that rests waits for: when something of its own is due, and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.core.identity import shown
from outlast.core.waits import Wait
from outlast.runtime.deadlines import deadline_ahead

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution


def next_due(execution: Execution) -> tuple[float | None, str]:
    """Return when something of its own is due for the run, and what it waits for, in words."""
    dues = [(due, f"the next attempt of {key}") for key, due in execution.steps.retries.items()]
    dues += [(d.due, d.says) for d in execution.steps.doubts.values() if d.due is not None]
    dues += execution.approvals.dues()
    timer = execution.engine.next_timer()
    if timer is not None and timer.when() < float("inf") and not execution.steps.hold_back_timers():
        dues.append((timer.when(), f"timer {shown(timer.key)}"))
    if (deadline := deadline_ahead(execution)) is not None:
        dues.append((deadline, "its deadline"))
    if dues:
        return min(dues)
    waits = [
        wait.says() if isinstance(wait := p.call.definition, Wait) else f"child {p.key}"
        for p in execution.engine.waits_for()
        if p.is_child or p.is_wait
    ]
    return None, waits[0] if waits else "something that nothing of this run can bring about"
