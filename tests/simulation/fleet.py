"""The processes of a schedule, dead and alive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.faults import Weather
    from tests.simulation.simulator import Simulator
    from tests.simulation.storage import Shared
    from tests.simulation.world import World


class Fleet:
    """Opens processes, and finds one to ask or to harm."""

    def __init__(self, sim: Simulator, shared: Shared, world: World, weather: Weather, folder: Path) -> None:
        self._sim = sim
        self.shared = shared
        self.world = world
        self.weather = weather
        self.habits = weather.habits
        self.processes: list[Process] = []
        self._folder = folder

    def open(self, *, worker: bool = True) -> None:
        """Start a process: a worker that is a client, too, or a mere client."""
        weather = self.weather
        locks = self._folder if self._sim.chance(weather.locks) else None
        limits = replace(weather.limits, worker=worker)
        name = f"p{len(self.processes) + 1}"
        process = Process(self._sim, self.shared, self.world, name, self.habits, limits, locks)
        process.clock.wrong_by = self.shared.clock.wrong_by
        self.processes.append(process)

    def any(self) -> Process | None:
        """Choose among those that live."""
        alive = [p for p in self.processes if not p.gone]
        return self._sim.random.choice(alive) if alive else None

    def pick(self) -> Process | None:
        """Choose among those that can be asked."""
        ready = [p for p in self.processes if p.open and not p.gone]
        return self._sim.random.choice(ready) if ready else None
