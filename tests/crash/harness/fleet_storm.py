"""A storm over a fleet: workers die and freeze, the server is restarted, the wire is cut, at random."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress

import msgspec

from outlast.core.errors import StoreError
from outlast.core.records import Effect, RunRow
from outlast.core.transitions import Reason, Status
from outlast.stores.protocol import RunFilter
from tests.crash.harness.scene import Process
from tests.crash.harness.storm import Storm
from tests.crash.harness.verdict import decide
from tests.support.server import Server
from tests.support.wire import Cut, Wire

WAYS = ("kill", "kill", "stop", "restart", "cut", "cut", "break", "forget")
SHUTDOWNS = (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL)
ADVISE_S = 0.2
STEP_S = 2.0  # longer than a step takes to come to its effect


class FleetStorm(Storm, kw_only=True):
    """What is done to whom: to one of the workers, to the server they share, or to the wire in between."""

    server: Server
    wire: Wire
    pace_s: float = 0.1  # that a step takes before its effect, and again after it
    frozen: list[Process] = msgspec.field(default_factory=list)
    shot: list[Process] = msgspec.field(default_factory=list)
    advised: float = 0.0
    woken: float = 0.0

    def _hire(self) -> Process:
        return self.scene.fork("worker", lease=self.lease_s, pace_s=self.pace_s, reports=["step.started"])

    def _strike(self, dice: random.Random, crew: list[Process]) -> None:
        way = dice.choice(self.ways)
        self.done[way] += 1
        match way:
            case "restart":
                self.server.restart(dice.choice(SHUTDOWNS))
            case "cut":
                self.wire.cut_at(dice.choice(tuple(Cut)), dice.randint(1, 4), new=dice.random() < 0.5)
            case "break":
                self.wire.break_all()
            case "forget":
                self.wire.forget_all()
            case _:
                self._strike_one(dice, crew, way)

    def _strike_one(self, dice: random.Random, crew: list[Process], way: str) -> None:
        awake = [place for place, process in enumerate(crew) if process not in self.frozen]
        if not awake:
            return
        place = dice.choice(awake)
        victim = crew[place]
        if victim.ended:
            log = self.scene.file(f"{victim.name}.log").read_text(errors="replace")
            self.wrong.append(f"{victim.name} had ended by itself: {log[-1000:]}")
            crew[place] = self._hire()
        elif way == "kill":
            self.shot.append(victim)
            self.killed.update(dict.fromkeys(victim.workers[-1:], victim.signal(signal.SIGKILL)))
            crew[place] = self._hire()
        else:
            victim.signal(signal.SIGSTOP)
            self.frozen.append(victim)
            self.wakers.append(threading.Timer(2.0 * self.lease_s, self._wake, [victim]))
            self.wakers[-1].start()

    def _wake(self, victim: Process) -> None:
        victim.signal(signal.SIGCONT)
        self.woken = time.monotonic()
        self.frozen.remove(victim)

    def _is_known(self) -> bool:
        """Tell whether what was begun by a worker that froze has come to its end: nobody decides before."""
        return not self.frozen and time.monotonic() > self.woken + STEP_S

    def twice(self) -> list[str]:
        """Return the `once` steps that were done more than once, by whatever attempts."""
        counts = Counter((line.run, line.step) for line in self.scene.ledger if line.effect == Effect.ONCE)
        return [f"{step} of {run} was done {n} times" for (run, step), n in counts.items() if n > 1]

    def calm(self) -> None:
        """Let the wire be whole, and wait until a person can know what became of everything."""
        self.wire.heal()
        self.scene.until("what was begun has ended", self._is_known)

    def _advise(self) -> None:
        """Be the person who decides what no program can, now and then."""
        if time.monotonic() < self.advised + ADVISE_S or not self._is_known():
            return
        self.advised = time.monotonic()
        with suppress(StoreError):
            for row in self.scene.store.runs(RunFilter(statuses=(Status.STUCK,), reason=Reason.IN_DOUBT)):
                self._decide(row)

    def _decide(self, row: RunRow) -> None:
        self.wrong += decide(self.scene, row)
        self.decided += 1
