"""The wire between a process and the store: it can be cut, and it can lose an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from outlast.core.errors import StoreUnavailable
from outlast.stores.memory import MemoryStore
from outlast.stores.verbs import Answer, Verb

if TYPE_CHECKING:
    from tests.simulation.oracle import Oracle
    from tests.simulation.process import Process
    from tests.simulation.simulator import Simulator


class Crashed(BaseException):
    """The process that called is no more."""


class Clock:
    """The clocks of one process. All share the boot clock; the wall clock may be wrong."""

    def __init__(self, sim: Simulator) -> None:
        self._sim = sim
        self.wrong_by = 0.0

    def wall(self) -> float:
        return 1_700_000_000.0 + self._sim.now + self.wrong_by

    def boot(self) -> float:
        return self._sim.boot

    def boot_id(self) -> str:
        return f"boot {self._sim.boots}"


class Shared:
    """The one store of a schedule: a memory store that reads the clock of whoever calls, as a file would be used."""

    def __init__(self, sim: Simulator) -> None:
        self.sim = sim
        self.clock = Clock(sim)
        self.caller: Clock = self.clock
        self.memory = MemoryStore(self)
        self.oracle: Oracle | None = None
        self.unavailable_until = 0.0

    def wall(self) -> float:
        return self.caller.wall()

    def boot(self) -> float:
        return self.sim.boot

    def boot_id(self) -> str:
        return self.clock.boot_id()

    def apply(self, process: Process, verbs: Sequence[Verb]) -> list[Answer]:
        """Commit a batch for a process, under the eyes of the oracle."""
        self.caller = process.clock
        try:
            if self.oracle is None:
                return self.memory.transact(verbs)
            return [self.oracle.watch(process, verb, self.memory) for verb in verbs]
        finally:
            self.caller = self.clock


class Wire:
    """The store as one process sees it."""

    def __init__(self, process: Process, shared: Shared) -> None:
        self._process = process
        self._shared = shared
        self.cut_until = 0.0

    def transact(self, verbs: Sequence[Verb]) -> list[Answer]:
        self._check()
        sim, process = self._process.sim, self._process
        what = ", ".join(type(verb).__name__ for verb in verbs)
        lost = sim.chance(process.habits.lost_answers)
        if lost and sim.chance(0.4):
            sim.tell(process.name, "commit lost", what)
            raise StoreUnavailable("the connection was lost before the commit")
        answers = self._shared.apply(process, verbs)
        process.jolt()
        if sim.chance(process.habits.crash_at_commit):
            sim.tell(process.name, "commit, and its crash", what)
            process.crash()
            raise Crashed
        if lost:
            sim.tell(process.name, "commit, its answer lost", what)
            raise StoreUnavailable("the connection was lost after the commit")
        return answers

    def now(self) -> float:
        return self._process.clock.wall()

    def lease_now(self) -> float:
        return self._process.sim.boot

    def session(self) -> None:
        return None

    def dropped(self) -> list[str]:
        return []

    def cut_off(self) -> list[str]:
        return []

    def hear(self, listener: Callable[[], None] | None) -> None: ...

    def lease_epoch(self) -> str:
        return self._process.clock.boot_id()

    def lock_folder(self) -> None:
        return None

    def change(self) -> int:
        self._check()
        return self._shared.memory.change()

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., Any]:
        read = getattr(self._shared.memory, name)

        def checked(*args: Any, **kwargs: Any) -> Any:
            self._check()
            self._shared.caller = self._process.clock
            try:
                return read(*args, **kwargs)
            finally:
                self._shared.caller = self._shared.clock

        setattr(self, name, checked)
        return checked

    def _check(self) -> None:
        now = self._process.sim.now
        if now < self.cut_until or now < self._shared.unavailable_until:
            raise StoreUnavailable("the store is away")
