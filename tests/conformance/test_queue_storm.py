"""Whatever workers do to the runs of a queue, in any order, and however they die: no limit is ever exceeded, no place
is lost, and every run has its turn."""

from __future__ import annotations

import random
import threading
from collections import Counter, deque

import pytest

from outlast.core.queues import Limits
from outlast.core.records import RunRow
from outlast.core.transitions import CLAIMABLE, ENDED, Status
from outlast.stores.protocol import RunFilter
from outlast.stores.queue_verbs import DeclareQueue
from outlast.stores.verbs import Cancel, Claim, Claimed, Done, TakeOver, Verb
from tests.conformance.conftest import StoreFactory
from tests.conformance.world import SetClock, World, finish, park, release

SEEDS = range(6)
STEPS = 150
LIMITS = Limits(concurrency=4, per_worker=2, per_key=2, rate=3, per=5.0)


class Storm:
    """Random work on one queue, with its limits looked at after each move."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.dice = random.Random(seed)
        self.began: list[float] = []
        self.workers: list[str] = []
        self.born = 0
        self.started = 0
        self.world.do(DeclareQueue(name="q", limits=LIMITS))
        for _ in range(3):
            self.hire()

    def hire(self) -> None:
        self.born += 1
        self.workers.append(self.world.worker(f"w{self.born}"))

    def runs(self, *statuses: Status) -> list[RunRow]:
        return self.world.store.runs(RunFilter(statuses=statuses or None), limit=1000)

    def some(self, *statuses: Status) -> RunRow | None:
        found = self.runs(*statuses)
        return self.dice.choice(found) if found else None

    # -- moves ---------------------------------------------------------------------

    def move(self) -> None:
        moves = [self.start, self.start, self.claim, self.claim, self.claim, self.end, self.end, self.rest]
        self.dice.choice([*moves, self.hand_back, self.die, self.cancel, self.wait])()
        for worker in self.workers:
            self.world.worker(worker)  # which renews its lease
        self.check()

    def start(self) -> None:
        self.started += 1
        due = self.world.clock.wall() + 3 if self.dice.random() < 0.2 else None
        key = self.dice.choice(["a", "a", "a", "b", "c"])
        self.world.start(f"r{self.started}", queue="q", queue_key=key, priority=self.dice.choice([0, 0, 5]), due=due)

    def claim(self) -> None:
        verb = Claim(
            worker=self.dice.choice(self.workers), workflows=("flow",), limit=self.dice.randint(1, 9), queues=("q",)
        )
        answer = self.world.do(verb)
        assert isinstance(answer, Claimed)
        self.began += [self.world.clock.wall() for run in answer.runs if run.claim == 1]

    def on_running(self, verb: Verb) -> None:
        assert isinstance(self.world.do(verb), Done)

    def end(self) -> None:
        if run := self.some(Status.RUNNING):
            self.on_running(finish(run, self.dice.choice([Status.SUCCEEDED, Status.FAILED])))

    def rest(self) -> None:
        if run := self.some(Status.RUNNING):
            self.on_running(park(run, due=self.world.clock.wall() + self.dice.choice([0, 2]), frees=True))

    def hand_back(self) -> None:
        if run := self.some(Status.RUNNING):
            self.on_running(release(run))

    def die(self) -> None:
        dead = self.workers.pop(self.dice.randrange(len(self.workers)))
        self.hire()
        self.world.do(TakeOver(worker=self.workers[0], dead=dead, gone=True, max_crashes=1000))

    def cancel(self) -> None:
        if run := self.some(Status.PENDING, Status.WAITING):
            self.world.do(Cancel(id=run.id))

    def wait(self) -> None:
        self.world.clock.advance(self.dice.choice([0.2, 1.0, 4.0]))

    # -- what holds ------------------------------------------------------------------

    def check(self) -> None:
        running = self.runs(Status.RUNNING)
        assert len(running) <= 4
        assert max(Counter(run.owner for run in running).values(), default=0) <= 2
        assert max(Counter(run.queue_key for run in running).values(), default=0) <= 2
        self.check_rate()
        (state,) = self.world.store.queues()
        assert state.running == len(running)
        assert state.waiting == sum(run.due is not None for run in self.runs(*CLAIMABLE))

    def check_rate(self) -> None:
        for end in self.began[-6:]:
            assert sum(end - 5.0 < at <= end for at in self.began) <= 3

    def finish_all(self) -> None:
        """End what there is; each time that the store names, something can be claimed."""
        for _ in range(1000):
            for run in self.runs(Status.RUNNING):
                self.on_running(finish(run))
            if not self.runs(*CLAIMABLE):
                return
            dues = [self.world.store.next_due(("flow",), ("q",), worker) for worker in self.workers]
            due = min(due for due in dues if due is not None)
            self.world.clock.advance(max(0.0, due - self.world.clock.wall()))
            for worker in self.workers:
                self.world.worker(worker)
            before = len(self.runs(*CLAIMABLE))
            for _ in range(20):
                self.claim()
            assert len(self.runs(*CLAIMABLE)) < before, "the store named a time, and there was nothing to claim"
            self.check()
        raise AssertionError("some runs never had their turn")


@pytest.mark.parametrize("seed", SEEDS)
def test_no_limit_is_exceeded_and_no_place_is_lost(world: World, seed: int) -> None:
    storm = Storm(world, seed)
    for _ in range(STEPS):
        storm.move()
    storm.finish_all()
    assert {run.status for run in storm.runs()} <= ENDED


def test_many_workers_that_claim_at_one_moment_exceed_no_limit(store_factory: StoreFactory) -> None:
    clock = SetClock()
    worlds = [World(store_factory(clock), clock) for _ in range(4)]
    first = worlds[0]
    first.do(DeclareQueue(name="q", limits=Limits(concurrency=7, per_key=3, rate=10, per=10.0)))
    for n in range(200):
        first.start(f"r{n}", queue="q", queue_key=f"k{n % 5}")
    began: deque[float] = deque()
    gate = threading.Barrier(len(worlds))

    def claim_at_once(world: World, worker: str) -> None:
        gate.wait()
        began.extend(
            [clock.wall()] * len(world.do(Claim(worker=worker, workflows=("flow",), limit=50, queues=("q",))).runs)
        )  # type: ignore[attr-defined]

    for _ in range(25):
        for n, world in enumerate(worlds):
            world.worker(f"w{n}")
        threads = [threading.Thread(target=claim_at_once, args=(world, f"w{n}")) for n, world in enumerate(worlds)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        running = first.store.runs(RunFilter(statuses=(Status.RUNNING,)), limit=1000)
        assert 0 < len(running) <= 7
        assert max(Counter(run.queue_key for run in running).values()) <= 3
        for run in running:
            first.do(finish(run))
        assert max(sum(end - 10.0 < at <= end for at in began) for end in began) <= 10
        clock.advance(5.5)  # half of what the rate counts over, with its margin
