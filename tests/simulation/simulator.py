"""Virtual time: a heap of events, taken in order, with random delays drawn from one seed."""

from __future__ import annotations

import hashlib
import heapq
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from tests.simulation.process import Process

BOOT_S = 1_000.0
"""The boot clock when a schedule begins."""

EVENT_LIMIT = 400_000
"""A schedule with more events than this goes round in circles."""


class Event:
    """Something that will happen, unless it is cancelled, or its process is gone by then."""

    __slots__ = ("act", "args", "cancelled", "process", "when")

    def __init__(self, when: float, act: Callable[..., None], args: tuple[Any, ...], process: Process | None) -> None:
        self.when = when
        self.act = act
        self.args = args
        self.process = process
        self.cancelled = False


class Simulator:
    """The clock that all share, and what happens next."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now = BOOT_S
        self.boots = 1  # how often the machine was started
        self._booted_at = 0.0
        self.trace: deque[tuple[float, str, str, tuple[Any, ...]]] = deque(maxlen=5_000)
        self.events = 0
        self._heap: list[tuple[float, int, Event]] = []
        self._count = 0

    def at(self, when: float, act: Callable[..., None], *args: Any, process: Process | None = None) -> Event:
        """Call `act` at this time. An event of a process waits while it is frozen, and dies with it."""
        event = Event(max(when, self.now), act, args, process)
        self._count += 1
        heapq.heappush(self._heap, (event.when, self._count, event))
        return event

    def after(self, delay: float, act: Callable[..., None], *args: Any, process: Process | None = None) -> Event:
        """Call `act` after so many seconds."""
        return self.at(self.now + delay, act, *args, process=process)

    def run(self, done: Callable[[], bool], until: float) -> bool:
        """Let things happen until `done`, or until this time; tell whether it is done."""
        heap = self._heap
        while not done():
            if not heap or heap[0][0] > until:
                self.now = until
                return False
            when, _, event = heapq.heappop(heap)
            if event.cancelled:
                continue
            self.now = when
            process = event.process
            if process is not None:
                if process.gone:
                    continue
                if process.frozen_until > when:
                    self.at(process.frozen_until + self.random.random() * 0.01, event.act, *event.args, process=process)
                    event.cancelled = True
                    continue
            self.events += 1
            if self.events > EVENT_LIMIT:
                raise RuntimeError(f"seed {self.seed} goes round in circles")
            event.act(*event.args)
        return True

    @property
    def boot(self) -> float:
        """The machine's boot clock."""
        return self.now - self._booted_at

    def restart_machine(self) -> None:
        """The boot clock begins again."""
        self.boots += 1
        self._booted_at = self.now - 1.0

    def tell(self, who: str, what: str, *more: Any) -> None:
        """Add a line to the trace."""
        self.trace.append((self.now, who, what, more))

    def history(self) -> str:
        """Return a digest of the trace that is the same wherever the same happened at the same times."""
        lines = "\n".join(f"{now!r} {who} {what}" for now, who, what, _ in self.trace)
        return hashlib.blake2b(lines.encode(), digest_size=16).hexdigest()

    def told(self, lines: int) -> str:
        """Return the last lines of the trace."""
        return "\n".join(
            f"{now - BOOT_S:10.4f} {who:8} {what:24} {' '.join(_text(part) for part in more)}"
            for now, who, what, more in list(self.trace)[-lines:]
        )

    def chance(self, probability: float) -> bool:
        """Throw a dice."""
        return probability > 0 and self.random.random() < probability

    def delay(self, mean: float) -> float:
        """Draw a delay: mostly about the mean, now and then much longer."""
        return self.random.expovariate(1 / mean) if mean > 0 else 0.0


def _text(part: Any) -> str:
    """Spell a part of a line: verbs and answers without what is as usual."""
    if isinstance(part, msgspec.Struct):
        fields = [
            f"{name}={_text(value)}" for name in part.__struct_fields__ if (value := getattr(part, name)) or value == 0
        ]
        return f"{type(part).__name__}({', '.join(fields)})" if fields else type(part).__name__
    if isinstance(part, dict):
        return " ".join(f"{name}={_text(value)}" for name, value in part.items())
    if isinstance(part, tuple):
        return f"[{', '.join(_text(item) for item in part)}]"
    return f"{part:.4f}" if isinstance(part, float) else str(part)
