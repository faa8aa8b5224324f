"""A schedule from end to end: a seed in, and out what it has broken."""

from __future__ import annotations

import gc
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest import mock

from outlast.runtime import ends
from tests.simulation.faults import Faults, draw_weather
from tests.simulation.fleet import Fleet
from tests.simulation.oracle import Oracle
from tests.simulation.people import Customer, Operator
from tests.simulation.plans import draw_plan
from tests.simulation.seasons import Season, any_season
from tests.simulation.simulator import Simulator
from tests.simulation.storage import Shared
from tests.simulation.verdict import verdict
from tests.simulation.world import World

PATIENCE_S = 90.0
"""Virtual seconds within which every run must have ended once faults have stopped and all who froze are awake."""

LINES = 80
"""How much of its trace a broken schedule shows."""


@dataclass
class Result:
    """What came of a schedule."""

    seed: int
    season: str
    broken: list[str]
    events: int
    history: str  # a digest of all that happened, and when
    trace: str

    def __str__(self) -> str:
        again = f"again: OUTLAST_SEED={self.seed} OUTLAST_SEASON={self.season} pytest tests/simulation"
        return "\n".join((f"seed {self.seed} in {self.season}:", *self.broken, self.trace, again))


class Schedule:
    """Everything of one seed."""

    def __init__(self, seed: int, folder: Path, season: Season = any_season) -> None:
        self.sim = sim = Simulator(seed)
        self.weather = draw_weather(sim.random)
        season(self.weather)
        self.shared = Shared(sim)
        self.oracle = self.shared.oracle = Oracle(sim, self.shared.memory)
        self.world = World(sim, self.weather.rough, oracle=self.oracle)
        self.fleet = Fleet(sim, self.shared, self.world, self.weather, folder)
        self.faults = Faults(sim, self.fleet, self.weather)
        self.customers: list[Customer] = []

    def play(self) -> None:
        """Let it happen, first under faults, then in calm weather until all is over."""
        sim, oracle = self.sim, self.oracle
        for _ in range(self.weather.processes):
            self.fleet.open()
        for _ in range(self.weather.clients):
            self.fleet.open(worker=False)
        self._invite()
        Operator(sim, self.fleet, oracle).look()
        self.faults.begin()
        calm_at = sim.now + self.weather.length_s
        sim.run(lambda: bool(oracle.broken), calm_at)
        if not oracle.broken:
            self.faults.calm()
            awake_at = max(calm_at, *(process.frozen_until for process in self.fleet.processes))
            sim.run(self._over, awake_at + PATIENCE_S)
            sim.run(lambda: bool(oracle.broken), max(sim.now, awake_at) + 2.0)  # who wakes late does no harm
        if not oracle.broken:
            oracle.refuse(*verdict(oracle, self.fleet, self.customers))
        for process in self.fleet.processes:
            oracle.refuse(*process.unhandled, *process.loop.unheard())

    def _invite(self) -> None:
        sim = self.sim
        for n in range(sim.random.randint(1, 7)):
            plan = draw_plan(sim.random, sim.random.randint(2, 20))
            if sim.chance(0.1):
                plan = ["seq", plan, ["fail", n]]
            elif sim.chance(0.1):
                plan = sim.random.choice([["think", n, 1], ["put", n], ["letter", n]])  # a run of a single step
            for _ in range(2 if sim.chance(0.1) else 1):  # two may want the same run
                customer = Customer(sim, self.fleet, self.oracle, f"run{n}", plan)
                self.customers.append(customer)
                sim.after(sim.random.random() * self.weather.length_s * 0.7, customer.go)
            if sim.chance(self.weather.cancels):
                sim.after(sim.random.random() * self.weather.length_s, customer.cancel)

    def _over(self) -> bool:
        if self.oracle.broken:
            return True
        return all(customer.served for customer in self.customers) and not self.oracle.unfinished()

    def dispose(self) -> None:
        """Clear up."""
        for process in self.fleet.processes:
            process.dispose()


def play(seed: int, folder: Path | None = None, season: Season = any_season) -> Result:
    """Play the schedule of a seed; a season makes some of its weather sure."""
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            return play(seed, Path(made), season)
    with _alone(seed):
        schedule = Schedule(seed, folder, season)
        try:
            schedule.play()
            trace = schedule.sim.told(LINES) if schedule.oracle.broken else ""
            broken, sim = schedule.oracle.broken, schedule.sim
            return Result(seed, season.__name__, broken, sim.events, sim.history(), trace)
        finally:
            schedule.dispose()


@contextmanager
def _alone(seed: int) -> Iterator[None]:
    """Keep out what would make two plays of a seed differ."""
    random = Random(seed)
    log = logging.getLogger("outlast")
    level, collecting = log.level, gc.isenabled()
    log.setLevel(logging.CRITICAL)
    gc.disable()
    try:
        with (
            mock.patch.object(os, "urandom", random.randbytes),
            mock.patch.object(ends, "POLL_S", 0.25),
        ):
            yield
    finally:
        log.setLevel(level)
        if collecting:
            gc.enable()
