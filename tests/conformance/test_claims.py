"""A run that is due is claimed by one worker, the oldest first."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from outlast.core.transitions import Status
from outlast.stores.verbs import Claim, Claimed
from tests.conformance.conftest import StoreFactory
from tests.conformance.world import World, finish, park, record, release, write


def test_a_claim_makes_the_worker_the_owner(world: World) -> None:
    world.worker()
    run = world.start()
    world.clock.advance(5)
    (claimed,) = world.claim()
    assert claimed == world.get(run.pk)
    assert (claimed.status, claimed.owner, claimed.claim, claimed.due, claimed.started) == (
        Status.RUNNING,
        "w1",
        1,
        None,
        world.clock.wall(),
    )
    assert world.store.owned("w1") == [(run.pk, 1)]


def test_a_later_claim_keeps_the_start_and_counts(world: World) -> None:
    run = world.running()
    world.clock.advance(5)
    world.do(park(run, due=world.clock.wall(), detail="a nap"))
    assert world.get(run.pk).detail == "a nap"
    (again,) = world.claim()
    assert (again.claim, again.started, again.detail) == (2, run.started, "")


def test_version_and_python_are_those_of_who_claimed_last(world: World) -> None:
    world.worker()
    world.start(version="v1", python="3.11")
    (run,) = world.claim()
    assert (run.version, run.python) == ("v1", "3.11")
    world.do(release(run))
    world.do(Claim(worker="w1", workflows=("flow",), limit=1, version="v2", python="3.13"))
    now = world.get(run.pk)
    assert (now.version, now.python) == ("v2", "3.13")


def test_the_oldest_due_come_first_and_no_more_than_asked_for(world: World) -> None:
    world.worker()
    now = world.clock.wall()
    due = [world.start(f"r{n}", due=now - n) for n in range(6)]
    assert {run.pk for run in world.claim(limit=3)} == {run.pk for run in due[3:]}
    assert {run.pk for run in world.claim(limit=10)} == {run.pk for run in due[:3]}
    assert world.claim(limit=10) == ()


@pytest.mark.parametrize("limit", [0, -1])
def test_a_claim_of_none_takes_none(world: World, limit: int) -> None:
    world.worker()
    world.start()
    assert world.claim(limit=limit) == ()


def test_a_run_that_is_not_due_yet_is_not_claimed(world: World) -> None:
    world.worker()
    world.start(due=world.clock.wall() + 20)
    assert world.claim() == ()
    world.clock.advance(20)
    assert len(world.claim()) == 1


def test_a_parked_run_is_claimed_when_its_time_comes(world: World) -> None:
    run = world.running()
    world.do(park(run, due=world.clock.wall() + 20))
    assert world.claim() == ()
    world.clock.advance(20)
    assert [row.pk for row in world.claim()] == [run.pk]


def test_only_workflows_that_the_worker_knows_are_claimed(world: World) -> None:
    world.worker()
    world.start("a", workflow="known")
    world.start("b", workflow="unknown")
    claim = Claim(worker="w1", workflows=("other", "known"), limit=10)
    answer = world.do(claim)
    assert isinstance(answer, Claimed)
    assert [run.id for run in answer.runs] == ["a"]
    assert world.do(Claim(worker="w1", workflows=(), limit=10)) == Claimed(())


def test_workflows_are_claimed_together_by_age(world: World) -> None:
    world.worker()
    now = world.clock.wall()
    for n in range(6):
        world.start(f"r{n}", workflow=f"flow{n % 3}", due=now - n)
    answer = world.do(Claim(worker="w1", workflows=("flow0", "flow1", "flow2", "flow0"), limit=4))
    assert isinstance(answer, Claimed)
    assert [run.id for run in answer.runs] == ["r2", "r3", "r4", "r5"]


def test_a_claim_with_another_key_is_another_claim(world: World) -> None:
    world.worker()
    for n in range(4):
        world.start(f"r{n}")
    keyed = [Claim(worker="w1", workflows=("flow",), limit=1, key=key) for key in ("k1", "k2", "k1", "", "")]
    answers = world.store.transact(keyed)
    assert [[run.id for run in a.runs] for a in answers if isinstance(a, Claimed)] == [
        ["r0"],
        ["r1"],
        ["r0"],
        ["r2"],
        ["r3"],
    ]


def test_a_claim_sent_again_no_longer_gives_what_was_let_go_of(world: World) -> None:
    world.worker()
    for n in range(3):
        world.start(f"r{n}")
    claim = Claim(worker="w1", workflows=("flow",), limit=2, key="k1")
    answer = world.do(claim)
    assert isinstance(answer, Claimed)
    world.do(finish(answer.runs[0]))
    assert world.do(claim) == Claimed((answer.runs[1],))


def test_next_due_tells_when_there_will_be_something_to_claim(world: World) -> None:
    store, now = world.store, world.clock.wall()
    assert store.next_due(("flow",)) is None
    world.worker()
    run = world.running()
    assert store.next_due(("flow",)) is None
    world.do(park(run))
    assert store.next_due(("flow",)) is None
    world.start("later", due=now + 60)
    world.start("sooner", workflow="other", due=now + 30)
    assert store.next_due(("flow",)) == now + 60
    assert store.next_due(("flow", "other", "none")) == now + 30
    assert store.next_due(()) is None
    world.start("now")
    assert store.next_due(("flow", "other")) == now


def test_eight_threads_never_claim_a_run_twice(store_factory: StoreFactory, world: World) -> None:
    ids = [world.start(f"r{n}").pk for n in range(200)]
    names = [world.worker(f"w{n}") for n in range(8)]
    taken: dict[str, list[int]] = {name: [] for name in names}
    barrier = threading.Barrier(len(names))

    def work(name: str) -> None:
        face = World(store_factory(world.clock), world.clock)
        barrier.wait()
        while runs := face.claim(name, limit=7):
            taken[name] += [run.pk for run in runs]
            for run in runs:
                answers = face.store.transact([write(run, record(1)), finish(run, last_seq=1)])
                assert len(answers) == 2

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(pk for pks in taken.values() for pk in pks) == Counter(ids)
    assert all(world.get(pk).status is Status.SUCCEEDED for pk in ids)


def test_a_clock_that_was_set_back_keeps_no_queued_run_waiting(world: World) -> None:
    world.worker()
    world.start("handed back")
    (run,) = world.claim()
    world.clock.advance(10)
    world.do(release(run))
    world.start("new")
    world.start("put off", due=world.clock.wall() + 20)
    world.clock.wall_s -= 3600
    assert world.store.next_due(("flow",)) == world.clock.wall()
    assert [run.id for run in world.claim(limit=5)] == ["handed back", "new"]
    assert world.store.next_due(("flow",)) == world.clock.wall() + 3620
    assert world.claim() == ()
