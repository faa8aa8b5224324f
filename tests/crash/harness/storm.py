"""A storm: many runs, a few workers, and one of them killed, frozen or asked to leave every moment."""

from __future__ import annotations

import random
import signal
import statistics
import threading
import time
from collections import Counter
from typing import Any

import msgspec

from outlast.core.transitions import Reason
from outlast.sync import App
from tests.crash.harness.ledger import REFUSED, Line
from tests.crash.harness.scene import Process, Scene
from tests.crash.harness.verdict import decide
from tests.crash.harness.worker import find

MIX = ("errand", "letter", "chore", "native", "vigil", "waiter")
PACE_S = 0.02


class Storm(msgspec.Struct):
    """What is done to whom, and what was seen of it."""

    scene: Scene
    seed: int
    workers: int = 3
    every_s: float = 0.3
    ways: tuple[str, ...] = ("kill",)
    lease_s: float = 2.0
    chaos: float = 0.0
    killed: dict[str, float] = {}  # worker id -> when
    done: Counter[str] = Counter()
    decided: int = 0
    wrong: list[str] = []
    wakers: list[threading.Timer] = []

    def blow(self, runs: int, seconds: float) -> None:
        """Start so many runs over three quarters of the time, and strike until it is over."""
        self.scene.accepted.clear()
        dice = random.Random(self.seed)
        began = time.monotonic()
        crew = [self._hire() for _ in range(self.workers)]
        next_strike = began + self.every_s
        with self.scene.client() as app:
            while (now := time.monotonic()) < began + seconds:
                due = min(runs, int(runs * (now - began) / (seconds * 0.75)) + 1)
                while len(self.scene.accepted) < due:
                    self._start(app, len(self.scene.accepted))
                if now >= next_strike:
                    next_strike = now + self.every_s * dice.uniform(0.5, 1.5)
                    self._strike(dice, crew)
                self._advise()
                time.sleep(0.02)
        for timer in self.wakers:
            timer.join()

    def _hire(self) -> Process:
        return self.scene.fork("worker", lease=self.lease_s, pace_s=PACE_S, chaos=self.chaos, reports=["step.started"])

    def _start(self, app: App, number: int) -> None:
        workflow = MIX[number % len(MIX)]
        args: list[Any] = [f"n{number}", *([0.05] if workflow in ("vigil", "waiter") else [])]
        run = app.start(find(workflow)(*args), id=f"{workflow}-{args[0]}")
        self.scene.accepted[run.id] = (workflow, args)

    def _strike(self, dice: random.Random, crew: list[Process]) -> None:
        """Do something to one worker, and hire another in its place."""
        place = dice.randrange(len(crew))
        victim, crew[place] = crew[place], self._hire()
        way = dice.choice(self.ways)
        self.done[way] += 1
        if victim.ended:
            self.wrong.append(f"{victim.name} had ended by itself")
            return
        if way == "stop":
            victim.signal(signal.SIGSTOP)
            # In a thread: it may have the write lock, and this one may be waiting for it.
            self.wakers.append(threading.Timer(2.5 * self.lease_s, victim.signal, [signal.SIGCONT]))
            self.wakers[-1].start()
            return
        at = victim.signal(signal.SIGKILL if way == "kill" else signal.SIGTERM)
        if way == "kill":
            self.killed.update(dict.fromkeys(victim.workers, at))

    def _advise(self) -> None:
        """Be the person who decides what no program can."""
        for row in self.scene.rows():
            if row.reason is Reason.IN_DOUBT:
                self.wrong += decide(self.scene, row)
                self.decided += 1

    def under_way(self) -> frozenset[Line]:
        """Return the effects of attempts that were under way when their worker's lease was taken.

        A worker that was frozen, or that learns of its loss a moment later, is in the middle of them.
        """
        started = {(e.who, e.run, e.step, e.attempt): e.at for e in self.scene.events("step.started")}
        names = {process.pid: process.name for process in self.scene.processes}
        taken = {e.dead: e.at for e in self.scene.events("worker.took_over")}
        losses = {p.name: [taken[w] for w in p.workers if w in taken] for p in self.scene.processes}
        wall = time.time() - time.monotonic()

        def is_under_way(line: Line) -> bool:
            began = started.get((names[line.pid], line.run, line.step, line.attempt))
            return began is not None and any(began - 0.1 <= at <= line.at - wall for at in losses[names[line.pid]])

        return frozenset(filter(is_under_way, self.scene.ledger))

    # -- what was seen ---------------------------------------------------------------

    def noticed(self) -> list[float]:
        """Return how long it took to notice each death, in seconds."""
        seen: dict[str, float] = {}
        for event in self.scene.events("worker.took_over"):
            seen.setdefault(event.dead, event.at)
        return sorted(seen[worker] - at for worker, at in self.killed.items() if seen.get(worker, 0.0) > at)

    def table(self, seconds: float) -> str:
        """Return the figures, for people."""
        lines = [line for line in self.scene.ledger if line.effect != REFUSED]
        steps = Counter(line.effect for line in {(x.run, x.step): x for x in lines}.values())
        attempts = Counter(effect for _, _, _, effect in {(x.run, x.step, x.attempt, x.effect) for x in lines})
        effects = Counter(line.effect for line in lines)
        took, noticed = self.scene.events("worker.took_over"), self.noticed()
        rows = [
            ("seed, seconds", f"{self.seed}, {seconds:.0f}"),
            ("runs accepted, runs with children", f"{len(self.scene.accepted)}, {len(self.scene.rows())}"),
            ("struck", ", ".join(f"{n} {way}" for way, n in sorted(self.done.items()))),
            ("takeovers, runs taken over", f"{len(took)}, {sum(event.runs for event in took)}"),
            ("leases lost by frozen workers", f"{len(self.scene.events('worker.lost_lease'))}"),
            ("doubts decided by a person", f"{self.decided}"),
            *(
                (
                    f"{kind}: effects, steps, repeated attempts",
                    f"{effects[kind]}, {steps[kind]}, {effects[kind] - attempts[kind]}",
                )
                for kind in ("pure", "idempotent", "once")
            ),
        ]
        if noticed:
            middle = statistics.median(noticed)
            rows.append(("death noticed after: median, worst", f"{middle * 1000:.0f} ms, {noticed[-1] * 1000:.0f} ms"))
        return "\n".join(f"  {what:<46} {figures}" for what, figures in rows)
