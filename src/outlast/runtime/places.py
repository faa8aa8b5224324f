"""Places for steps in flight, and the local look at the lease before each effect.

A step starts only with a place taken and while the worker's lease holds by this process's own clock: a process
that was frozen, or that has lost its database, starts nothing until it has renewed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution

Waiting = tuple["Execution", Callable[..., None], tuple[Any, ...]]


class Places:
    """`limit` places, given in the order in which they were asked for."""

    def __init__(self, limit: int, lease_holds: Callable[[], bool], made_room: Callable[[], None]) -> None:
        self._free = limit
        self._made_room = made_room
        self._lease_holds = lease_holds
        self._waiting: deque[Waiting] = deque()
        self._held: list[Waiting] = []  # with a place, waiting for the lease

    @property
    def spare(self) -> int:
        """How many steps would begin at once; below 0, how many wait."""
        return self._free - len(self._waiting)

    def take(self, execution: Execution, act: Callable[..., None], *args: Any) -> None:
        """Call `act` with a place taken for this run: now, or when there is one."""
        if self._free > 0 and not self._waiting and self._lease_holds():
            self._free -= 1
            execution.places += 1
            act(*args)
        else:
            execution.queued += 1
            self._waiting.append((execution, act, args))

    def give_back(self, execution: Execution) -> None:
        """Give a place of this run back."""
        execution.places -= 1
        self._free += 1
        if self._waiting:
            self._fill()
        if self.spare >= 0:
            self._made_room()

    def when_lease_holds(self, execution: Execution, act: Callable[..., None], *args: Any) -> None:
        """Call `act` when the lease holds: now, or when it has been renewed."""
        if self._lease_holds():
            act(*args)
        else:
            execution.queued += 1
            self._held.append((execution, act, args))

    def lease_renewed(self) -> None:
        """The lease holds again: what was held back may start."""
        held, self._held = self._held, []
        for execution, act, args in held:
            execution.queued -= 1
            if not execution.closed:
                self.when_lease_holds(execution, act, *args)
        self._fill()
        self._made_room()

    def clear(self) -> None:
        """Forget all who wait: their runs are stopped."""
        self._waiting.clear()
        self._held.clear()

    def _fill(self) -> None:
        while self._waiting and self._free > 0 and self._lease_holds():
            execution, act, args = self._waiting.popleft()
            execution.queued -= 1
            if not execution.closed:
                self._free -= 1
                execution.places += 1
                act(*args)
