"""Branches that the code itself names: what `outlast.scope` enters and leaves.

A generator runs in the context of whoever asks it for its next value, so a scope that it enters, and has not left
when it yields, would reach that code. Such a scope holds for the generator's own code only. One in a function under
`contextlib.contextmanager` or `asynccontextmanager` is meant for the `with` block around which it stands.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from types import FrameType

from outlast.core.effects import InBody
from outlast.core.identity import Branch, here


class GeneratorScope(Branch):
    """The branch of a scope in a generator: it is `inner` for what the generator runs, and `outer` for all else."""

    __slots__ = ("_frame", "_inner", "outer")

    def __init__(self, inner: Branch, outer: Branch, frame: FrameType) -> None:
        self._inner = inner
        self._frame: FrameType | None = frame  # the generator's; None once the scope was left
        self.outer = outer

    def current(self) -> Branch:
        running = set()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            running.add(frame)
            frame = frame.f_back
        branch: Branch = self
        while isinstance(branch, GeneratorScope):
            if branch._frame in running:
                return branch._inner
            branch = branch.outer
        return branch

    def end(self) -> None:
        """The scope was left; a context of another may still hold it."""
        self._frame = None

    @property
    def ended(self) -> bool:
        return self._frame is None

    @property
    def path(self) -> str:  # type: ignore[override]
        return self.current().path

    @property
    def counts(self) -> dict[str, int]:  # type: ignore[override]
        return self.current().counts


def enter(place: InBody, key: str, frame: FrameType | None) -> InBody:
    """Enter a scope in the code of `frame`; return where that code is now."""
    outer = place.branch
    while isinstance(outer, GeneratorScope) and outer.ended:
        outer = outer.outer
    inner = outer.scope(key)
    generator = _generator_of(frame)
    mine = InBody(place.ops, inner if generator is None else GeneratorScope(inner, outer, generator))
    here.set(mine)
    return mine


def leave(mine: InBody, before: InBody) -> bool:
    """Leave a scope that `enter` gave for the place `before`. Return False where this context had not entered it."""
    place, branch = here.get(), mine.branch
    found = place is mine or (isinstance(place, InBody) and _leads_to(place.branch, branch))
    if isinstance(branch, GeneratorScope):
        branch.end()
    if place is mine or (found and not isinstance(branch, GeneratorScope)):
        here.set(before)
    return found


def _leads_to(branch: Branch, wanted: Branch) -> bool:
    """Tell whether a branch is in effect under scopes that generators have entered since."""
    while branch is not wanted:
        if not isinstance(branch, GeneratorScope):
            return False
        branch = branch.outer
    return True


def _generator_of(frame: FrameType | None) -> FrameType | None:
    """Return the frame itself where it is a generator's that yields to others, of whatever kind; else None.

    Under `contextlib` it is the frame of the `with` block that counts.
    """
    while True:
        while frame is not None and frame.f_globals is vars(contextlib):
            frame = frame.f_back
        if frame is None or not frame.f_code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
            return None
        driver = frame.f_back
        if driver is None or driver.f_globals is not vars(contextlib):
            return frame
        frame = driver
