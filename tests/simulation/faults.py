"""What goes wrong, how often, and until when: drawn anew for each seed, so that some schedules know one fault only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.process import LEASE_S, Habits, Limits
from tests.simulation.world import Roughness

if TYPE_CHECKING:
    from tests.simulation.fleet import Fleet
    from tests.simulation.simulator import Simulator

HOUR_S = 3_600.0


@dataclass
class Weather:
    """What a schedule is in for. Rates are faults per second of virtual time."""

    length_s: float = 0.0
    processes: int = 1
    crash: float = 0.0
    freeze: float = 0.0
    drain: float = 0.0
    outage: float = 0.0
    cut: float = 0.0
    jump: float = 0.0
    locks: float = 0.0  # how many of the processes have a lock file
    cancels: float = 0.0  # how many of the runs are cancelled
    impatient: float = 0.0  # how many starts are given up before they are answered
    blackout: float = 0.0
    reboot: float = 0.0  # how many of the blackouts are those of the machine
    clients: int = 0  # processes that execute nothing
    limits: Limits = field(default_factory=Limits)
    habits: Habits = field(default_factory=Habits)
    rough: Roughness = field(default_factory=Roughness)


def draw_weather(random: Random) -> Weather:
    """Draw which faults there are, and how often."""

    def some(most: float, share: float = 0.4) -> float:
        return most * random.random() ** 2 if random.random() < share else 0.0

    return Weather(
        length_s=random.uniform(2, 25),
        processes=random.randint(1, 3),
        crash=some(0.7, 0.6),
        freeze=some(0.5),
        drain=some(0.3),
        outage=some(0.3),
        cut=some(0.3),
        jump=some(0.5, 0.2),
        locks=random.choice([0.0, 0.5, 1.0]),
        cancels=some(1.0),
        impatient=some(0.5, 0.3),
        blackout=some(0.2, 0.2),
        reboot=0.5,
        clients=random.choice([0, 0, 0, 1]),
        limits=Limits(
            worker_concurrency=random.choice([1, 3, 10_000, 10_000]),
            max_steps=random.choice([1, 2, 1_000, 1_000]),
            max_crashes=random.choice([2, 10]),
        ),
        habits=Habits(
            turn_s=random.choice([0.0001, 0.0005, 0.005]),
            commit_s=random.choice([0.0005, 0.003, 0.03, 0.3]),
            read_s=random.choice([0.001, 0.02, 0.3]),
            answer_s=random.choice([0.0, 0.0, 0.01, 0.1]),
            look_s=random.choice([0.05, 0.3]),
            one_by_one=random.random() < 0.25,
            stall=some(0.1),
            stall_s=random.choice([0.05, 0.5, 1.5 * LEASE_S]),
            lost_answers=some(0.3),
            crash_at_commit=some(0.03),
            jolt=some(0.1, 0.5),
        ),
        rough=Roughness(
            refused=some(0.3),
            lost=some(0.3),
            unanswered=some(0.3),
            broken=some(0.3),
            unknown=some(0.5, 0.2),
            mean_s=random.choice([0.002, 0.02, 0.2, 0.6]),
            slow=some(1.0),
        ),
    )


class Faults:
    """Brings the weather about, then calms it."""

    def __init__(self, sim: Simulator, fleet: Fleet, weather: Weather) -> None:
        self._sim = sim
        self._fleet = fleet
        self._weather = weather
        self._over = False
        self._latest = 0.0  # the furthest that any clock was ahead

    def begin(self) -> None:
        """Let the first of each kind come."""
        weather = self._weather
        self._every(weather.crash, self._crash)
        self._every(weather.freeze, self._freeze)
        self._every(weather.drain, self._drain)
        self._every(weather.outage, self._outage)
        self._every(weather.cut, self._cut)
        self._every(weather.jump, self._jump)
        self._every(weather.blackout, self._blackout)

    def _every(self, rate: float, strike: Callable[[], None]) -> None:
        if rate:
            self._sim.after(self._sim.delay(1 / rate), self._strike, rate, strike)

    def _strike(self, rate: float, strike: Callable[[], None]) -> None:
        if not self._over:
            strike()
            self._every(rate, strike)

    def calm(self) -> None:
        """Stop it all, and mend what can be mended. Who is frozen still wakes in his own time."""
        self._over = True
        sim, fleet = self._sim, self._fleet
        sim.tell("weather", "IS CALM")
        fleet.habits = Habits()
        fleet.world.rough = Roughness()
        fleet.shared.unavailable_until = 0.0
        fleet.shared.clock.wrong_by = self._latest  # the truth is what nobody need wait for
        for process in fleet.processes:
            process.wire.cut_until = 0.0
            process.habits = fleet.habits
            process.clock.wrong_by = self._latest
        if not any(
            p.limits.worker and not p.gone and not p.leaving and p.frozen_until <= sim.now for p in fleet.processes
        ):
            fleet.open()

    # -- the kinds ----------------------------------------------------------------------

    def _crash(self) -> None:
        process = self._fleet.any()
        if process is not None:
            process.crash()
            self._replace()

    def _blackout(self) -> None:
        """All die at once; perhaps since their machine did."""
        for process in self._fleet.processes:
            process.crash()
        if self._sim.chance(self._weather.reboot):
            self._sim.tell("weather", "machine restarts")
            self._sim.restart_machine()
            self._fleet.world.machine_restarted()
        for _ in range(self._weather.processes):
            self._replace()

    def _freeze(self) -> None:
        process = self._fleet.any()
        if process is not None:
            process.freeze(LEASE_S * self._sim.random.choice([0.2, 0.8, 1.2, 2.0, 4.0, 8.0]))

    def _drain(self) -> None:
        process = self._fleet.any()
        if process is not None and process.open:
            process.drain(self._sim.random.choice([0.0, 0.5, 10.0]))
            self._replace()

    def _replace(self) -> None:
        self._sim.after(self._sim.delay(self._sim.random.choice([0.01, 1.0, 4.0])), self._fleet.open)

    def _outage(self) -> None:
        self._fleet.shared.unavailable_until = self._sim.now + self._away()
        self._sim.tell("weather", "store away until", self._fleet.shared.unavailable_until)

    def _cut(self) -> None:
        process = self._fleet.any()
        if process is not None:
            process.wire.cut_until = self._sim.now + self._away()
            self._sim.tell(process.name, "cut off until", process.wire.cut_until)

    def _away(self) -> float:
        return LEASE_S * self._sim.random.choice([0.05, 0.3, 0.8, 1.5, 3.0])

    def _jump(self) -> None:
        process = self._fleet.any()
        if process is not None:
            process.clock.wrong_by = self._sim.random.choice([HOUR_S, -HOUR_S, 30.0, -30.0, 0.0])
            self._latest = max(self._latest, process.clock.wrong_by)
            self._sim.tell(process.name, "has a clock wrong by", process.clock.wrong_by)
