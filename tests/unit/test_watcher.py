"""How often a worker looks about."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from outlast.core.records import RunRow
from outlast.runtime.clock import SystemClock
from outlast.runtime.watcher import IDLE_AFTER_S, IDLE_TICK_S, SWEEP_AFTER_CHANGE_S, SWEEP_S, TICK_S, Watcher
from outlast.stores.memory import MemoryStore
from outlast.stores.open import open_store
from outlast.stores.protocol import Survey
from outlast.stores.verbs import Beat
from tests.conformance.world import LEASE_S, SetClock, World, park


class Deaf:
    """Hears what a watcher tells, and remembers who was dead."""

    def __init__(self) -> None:
        self.heard_dead: list[str] = []

    listening = True

    def listens(self) -> bool:
        return self.listening

    def changed(self) -> None: ...

    def due(self) -> None: ...

    def slots(self) -> None: ...

    def overdue(self, runs: Sequence[RunRow]) -> None: ...

    def dead(self, worker: str, gone: bool, evidence: str, *, dropped: bool = False) -> None:
        self.heard_dead.append(worker)

    def silent_loop(self, seconds: float) -> None: ...


class Stepped(Watcher):
    """A watcher without a thread, on a clock that it moves itself."""

    def __init__(self, world: World) -> None:
        clock: Any = world.clock
        super().__init__(world.store, clock, Deaf(), world.worker("me"), lambda: ("flow",), LEASE_S)
        self._moved = world.clock

    def watch(self, seconds: float) -> list[float]:
        """Look for so long; return the rests between the looks."""
        until, rests = self._moved.boot() + seconds, []
        while self._moved.boot() < until:
            self._look()
            rests.append(self.tick_s)
            self._moved.advance(self.rest_s)
        return rests


def idle_watcher() -> tuple[World, Stepped]:
    clock = SetClock()
    world = World(MemoryStore(clock), clock)
    watcher = Stepped(world)
    watcher.watch(2 * IDLE_AFTER_S)
    assert watcher.tick_s == IDLE_TICK_S
    return world, watcher


def test_the_beats_of_workers_make_nobody_look_more_often() -> None:
    world, watcher = idle_watcher()
    others = [world.worker(f"w{number}") for number in range(3)]
    watcher.watch(2 * IDLE_AFTER_S)
    for worker in (*others, "me"):
        world.clock.advance(IDLE_TICK_S)
        world.do(Beat(worker=worker, lease_s=LEASE_S))
        rests = watcher.watch(IDLE_AFTER_S)
        assert rests.count(TICK_S) <= SWEEP_AFTER_CHANGE_S / TICK_S + 1, "until it has seen that it was a beat"


def test_a_commit_that_is_no_beat_makes_a_worker_look_more_often_for_a_while() -> None:
    world, watcher = idle_watcher()
    world.do(Beat(worker="me", lease_s=LEASE_S))
    watcher.watch(TICK_S)
    world.start("run")
    rests = watcher.watch(IDLE_AFTER_S)
    assert set(rests) == {TICK_S}
    assert IDLE_TICK_S in watcher.watch(IDLE_AFTER_S)


def test_a_watcher_with_nobody_left_to_tell_ends_though_its_store_is_closed(tmp_path: Path) -> None:
    clock = SystemClock()
    store = open_store(f"sqlite:///{tmp_path}/runs.db", clock)
    deaf = Deaf()
    watcher = Watcher(store, clock, deaf, "me", lambda: ("flow",), LEASE_S)
    before = set(threading.enumerate())
    watcher.start()
    (thread,) = [each for each in set(threading.enumerate()) - before if each.name == "outlast-watcher"]
    store.close()  # as the writer does when the loop is gone, mostly before there was anything to tell
    deaf.listening = False
    thread.join(10)
    assert not thread.is_alive()


def test_an_idle_worker_sees_at_its_time_what_comes_due() -> None:
    world, watcher = idle_watcher()
    due = world.store.now() + 5.037
    world.do(park(world.running("asleep"), due))
    watcher.watch(5)
    assert watcher.tick_s == IDLE_TICK_S
    told: list[float] = []
    watcher._told.due = lambda: told.append(world.store.now())  # type: ignore[method-assign]
    watcher.watch(1)
    assert 0 <= told[0] - due < 0.005


class Silent:
    """A store that tells nothing by itself, as one does whose commits are beats alone; it counts the sweeps."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.sweeps = 0

    def survey(self, *wanted: Any) -> Survey:
        self.sweeps += 1
        return self._store.survey(*wanted)

    def change(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Fleet:
    """Workers with a watcher each, in one thread on a clock that it moves itself."""

    def __init__(self, size: int) -> None:
        self.clock = SetClock()
        self.store = Silent(MemoryStore(self.clock))
        self.world = World(self.store, self.clock)  # type: ignore[arg-type]
        self.alive = [self.world.worker(f"w{number}") for number in range(size)]
        self.told = {worker: Deaf() for worker in self.alive}
        clock: Any = self.clock
        self._watchers = {
            worker: Watcher(self.store, clock, told, worker, lambda: ("flow",), LEASE_S)  # type: ignore[arg-type]
            for worker, told in self.told.items()
        }
        self._beats = {worker: self.clock.boot() + number * 0.1 for number, worker in enumerate(self.alive)}

    def turn(self) -> None:
        """Let each that lives look, and beat at a third of its lease."""
        for worker in self.alive:
            if self.clock.boot() >= self._beats[worker]:
                self._beats[worker] = self.clock.boot() + LEASE_S / 3
                self.world.do(Beat(worker=worker, lease_s=LEASE_S))
            self._watchers[worker]._look()
        self.clock.advance(IDLE_TICK_S)

    def go_on(self, seconds: float) -> None:
        until = self.clock.boot() + seconds
        while self.clock.boot() < until:
            self.turn()

    def seconds_until_noticed(self, dead: str) -> float:
        """Let a worker die; return how long after the end of its lease the first of the others says so."""
        (row,) = [row for row in self.store.workers() if row.id == dead]
        self.alive.remove(dead)
        while not any(told.heard_dead for told in self.told.values()):
            self.turn()
        return self.clock.boot() - row.lease_until


@pytest.mark.parametrize("size", [1, 3, 10, 30])
def test_idle_workers_sweep_together_about_as_often_as_one_alone(size: int) -> None:
    fleet = Fleet(size)
    fleet.go_on(2 * LEASE_S)  # one that has just come knows nothing of the others
    before = fleet.store.sweeps
    fleet.go_on(10 * LEASE_S)
    assert (fleet.store.sweeps - before) / (10 * LEASE_S) < 2 / SWEEP_S


@pytest.mark.parametrize("size", [2, 3, 10, 30])
def test_the_end_of_a_lease_is_noticed_as_soon_by_a_fleet_that_shares_its_sweeps(size: int) -> None:
    fleet = Fleet(size)
    fleet.go_on(2 * LEASE_S)
    assert 0 <= fleet.seconds_until_noticed("w0") <= 2 * SWEEP_S
