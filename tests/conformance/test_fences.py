"""A worker writes only while its lease and its claim hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outlast.core.records import RunRow
from outlast.core.transitions import Status
from outlast.stores.verbs import Beat, Beaten, Claim, Done, Fenced, Leave, StartRun, TakenOver, Verb
from tests.conformance.conftest import StoreFactory
from tests.conformance.world import (
    LEASE_S,
    World,
    finish,
    park,
    record,
    release,
    run_row,
    stick,
    take_over,
    write,
)

BY_OWNER: dict[str, Callable[[RunRow], Verb]] = {
    "write": lambda run: write(run, record(1)),
    "park": park,
    "release": release,
    "stick": stick,
    "finish": finish,
    "start_child": lambda run: StartRun(
        run=run_row("child", parent=run.pk, parent_key="main/child#1"),
        parent_worker=run.owner,
        parent_claim=run.claim,
    ),
}
by_owner = pytest.mark.parametrize("verb", BY_OWNER.values(), ids=BY_OWNER)


def fenced(world: World, verb: Verb) -> Fenced:
    """Apply a verb that must be fenced and change nothing; return the answer."""
    before = world.state()
    answer = world.do(verb)
    assert isinstance(answer, Fenced), answer
    assert answer.why
    assert world.state() == before
    return answer


@by_owner
def test_an_owner_may_do_it(world: World, verb: Callable[[RunRow], Verb]) -> None:
    assert not isinstance(world.do(verb(world.running())), Fenced)


@by_owner
def test_a_worker_whose_lease_ran_out_is_fenced(world: World, verb: Callable[[RunRow], Verb]) -> None:
    run = world.running()
    world.clock.advance(LEASE_S)
    assert fenced(world, verb(run)).worker_lost


@by_owner
def test_a_lease_holds_until_its_last_moment(world: World, verb: Callable[[RunRow], Verb]) -> None:
    run = world.running()
    world.clock.advance(LEASE_S - 0.001)
    assert not isinstance(world.do(verb(run)), Fenced)


@by_owner
def test_a_jump_of_wall_time_ends_no_lease(world: World, verb: Callable[[RunRow], Verb]) -> None:
    run = world.running()
    world.clock.wall_s += 1e6
    assert not isinstance(world.do(verb(run)), Fenced)


@by_owner
def test_a_worker_of_another_start_of_the_machine_is_fenced(world: World, verb: Callable[[RunRow], Verb]) -> None:
    run = world.running()
    world.clock.boot_name = "boot-2"
    assert fenced(world, verb(run)).worker_lost


@by_owner
def test_a_worker_that_was_taken_over_is_fenced(world: World, verb: Callable[[RunRow], Verb]) -> None:
    run = world.running()
    world.worker("w2")
    world.do(take_over("w1"))
    assert fenced(world, verb(run)).worker_lost


@by_owner
def test_a_claim_of_another_worker_is_fenced(world: World, verb: Callable[[RunRow], Verb]) -> None:
    run = world.running()
    world.worker("w2")
    run.owner = "w2"
    assert not fenced(world, verb(run)).worker_lost


@by_owner
@pytest.mark.parametrize("claim", [0, 2, 3])
def test_another_claim_than_the_current_one_is_fenced(world: World, verb: Callable[[RunRow], Verb], claim: int) -> None:
    run = world.running()
    run.claim = claim
    assert not fenced(world, verb(run)).worker_lost


@by_owner
def test_an_old_claim_is_fenced_when_the_same_worker_has_the_run_again(
    world: World, verb: Callable[[RunRow], Verb]
) -> None:
    old = world.running()
    world.do(release(old))
    (again,) = world.claim("w1")
    assert again.claim == old.claim + 1
    old.owner = "w1"
    assert not fenced(world, verb(old)).worker_lost


@by_owner
def test_a_run_that_does_not_exist_is_fenced(world: World, verb: Callable[[RunRow], Verb]) -> None:
    run = world.running()
    run.pk += 1000
    fenced(world, verb(run))


@by_owner
def test_an_unknown_worker_is_fenced(world: World, verb: Callable[[RunRow], Verb]) -> None:
    run = world.running()
    run.owner = "nobody"
    assert fenced(world, verb(run)).worker_lost


@pytest.mark.parametrize("status", [Status.PENDING, Status.WAITING, Status.STUCK, Status.SUCCEEDED])
def test_a_new_record_for_a_run_that_its_worker_let_go_of_is_fenced(world: World, status: Status) -> None:
    run = world.running()
    match status:
        case Status.PENDING:
            world.do(release(run))
        case Status.WAITING:
            world.do(park(run))
        case Status.STUCK:
            world.do(stick(run))
        case _:
            world.do(finish(run))
    fenced(world, write(run, record(1)))


@pytest.mark.parametrize(
    "verb",
    [
        Claim(worker="w1", workflows=("flow",), limit=1),
        StartRun(run=run_row("new"), claim_by="w1"),
        take_over("w3", worker="w1"),
    ],
    ids=["claim", "start_claimed", "take_over"],
)
def test_a_worker_without_a_lease_takes_no_runs(world: World, verb: Verb) -> None:
    world.worker("w1")
    world.running("other", worker="w3")
    world.start("pending")
    world.clock.advance(LEASE_S)
    assert fenced(world, verb).worker_lost


def test_a_lease_that_ran_out_and_that_nobody_took_may_be_renewed(world: World) -> None:
    run = world.running()
    world.clock.advance(LEASE_S * 10)
    answers = world.store.transact([Beat(worker="w1", lease_s=LEASE_S), write(run, record(1))])
    assert answers == [Beaten(world.clock.boot() + LEASE_S), Done()]


def test_a_lease_that_was_taken_is_not_renewed(world: World) -> None:
    world.running()
    world.clock.advance(LEASE_S)
    world.worker("w2")
    world.do(take_over("w1", gone=False))
    assert fenced(world, Beat(worker="w1", lease_s=LEASE_S)).worker_lost


def test_a_worker_that_left_is_fenced(world: World) -> None:
    run = world.running()
    assert world.do(Leave(worker="w1")) == TakenOver((run.pk,))
    assert fenced(world, write(run, record(1))).worker_lost
    assert fenced(world, Beat(worker="w1", lease_s=LEASE_S)).worker_lost


def test_one_that_is_fenced_does_not_disturb_its_neighbours(world: World) -> None:
    first, second, third = (world.running(name) for name in ("a", "b", "c"))
    second.claim += 1
    answers = world.store.transact([write(run, record(1)) for run in (first, second, third)])
    assert [type(answer) for answer in answers] == [Done, Fenced, Done]
    assert [len(world.store.records(run.pk)) for run in (first, second, third)] == [1, 0, 1]


def test_a_worker_is_fenced_by_what_another_face_of_the_store_has_committed(
    world: World, store_factory: StoreFactory
) -> None:
    """The fence that a connection has looked at before is looked at again."""
    run = world.running()
    assert world.do(write(run, record(1))) == Done()
    other = World(store_factory(world.clock), world.clock)
    other.worker("w2")
    other.do(take_over("w1"))
    assert fenced(world, write(run, record(2))).worker_lost


def test_a_claim_is_fenced_by_what_another_face_of_the_store_has_committed(
    world: World, store_factory: StoreFactory
) -> None:
    run = world.running()
    other = World(store_factory(world.clock), world.clock, world.workers)
    for seq in range(1, 5):
        assert world.do(write(run, record(seq))) == Done()
        other.do(release(run))
        fenced(world, write(run, record(seq + 1)))
        (run,) = other.claim("w1")
