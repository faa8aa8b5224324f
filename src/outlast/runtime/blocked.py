"""Which step holds the event loop: read from the stack of its thread."""

from __future__ import annotations

import sys
import traceback
from types import FrameType

from outlast.runtime.attempts import Attempt


def where_is(thread: int) -> str:
    """Describe what a thread is doing: the step, if it is in one, and the innermost line of code."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return "unknown"
    stack = traceback.extract_stack(frame)
    line = f"{stack[-1].filename}:{stack[-1].lineno} in {stack[-1].name}" if stack else "unknown"
    at: FrameType | None = frame
    while at is not None:
        owner = at.f_locals.get("self")
        if isinstance(owner, Attempt):
            return f"step {owner.place.step_id} of run {owner.place.run_id}, at {line}"
        at = at.f_back
    return f"{line}; if this is a workflow body, move slow work into a step"
