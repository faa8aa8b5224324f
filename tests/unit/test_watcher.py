"""How often a worker looks about."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outlast.core.records import RunRow
from outlast.runtime.clock import SystemClock
from outlast.runtime.watcher import IDLE_AFTER_S, IDLE_TICK_S, SWEEP_AFTER_CHANGE_S, TICK_S, Watcher
from outlast.stores.memory import MemoryStore
from outlast.stores.open import open_store
from outlast.stores.verbs import Beat
from tests.conformance.world import LEASE_S, SetClock, World


class Deaf:
    """Hears what a watcher tells and does nothing."""

    listening = True

    def listens(self) -> bool:
        return self.listening

    def changed(self) -> None: ...

    def due(self) -> None: ...

    def slots(self) -> None: ...

    def overdue(self, runs: Sequence[RunRow]) -> None: ...

    def dead(self, worker: str, gone: bool, evidence: str, *, dropped: bool = False) -> None: ...

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
            self._moved.advance(self.tick_s)
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
