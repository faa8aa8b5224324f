"""Whichever way a run ends, the same commit asks its children to end: those that do not outlive it, and each once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outlast.core.records import Kind, RunRow
from outlast.core.transitions import Status
from outlast.stores.course_verbs import Terminate
from outlast.stores.time_verbs import Expire
from outlast.stores.verbs import Cancel, Done, Finish, Refused, Resume, StartRun
from tests.conformance.test_children import child_of
from tests.conformance.world import World, finish, run_row, stick, twice, write

CANCEL = (Kind.CANCEL, "", "cancel")


def end_by_its_worker(status: Status) -> Callable[[World, RunRow], None]:
    def end(world: World, run: RunRow) -> None:
        world.do(finish(run, status))

    return end


def cancel_while_stuck(world: World, run: RunRow) -> None:
    world.do(stick(run))
    world.do(Cancel(id=run.id))


def end_by_force(world: World, run: RunRow) -> None:
    world.do(Terminate(id=run.id, worker=run.owner))


ENDS = {
    "succeeded": end_by_its_worker(Status.SUCCEEDED),
    "failed": end_by_its_worker(Status.FAILED),
    "cancelled": end_by_its_worker(Status.CANCELLED),
    "cancelled while stuck": cancel_while_stuck,
    "ended by force": end_by_force,
}


@pytest.mark.parametrize("way", ENDS)
def test_the_end_of_a_parent_asks_its_children_to_end(world: World, way: str) -> None:
    parent = world.running("parent")
    child, free = child_of(world, parent), child_of(world, parent, "free", "main/free#1", outlives=True)
    ENDS[way](world, parent)
    assert world.inbox(child.pk) == [CANCEL]
    assert world.inbox(free.pk) == []
    assert world.get(free.pk).outlives


def test_a_child_that_was_never_begun_ends_with_its_parent_and_so_do_its_own_children(world: World) -> None:
    parent = world.running("parent")
    world.do(StartRun(run=run_row("child", parent=parent.pk, parent_key="main/child#1")))
    stuck = child_of(world, parent, "stuck", "main/stuck#1")
    grandchild = child_of(world, stuck, "grandchild")
    world.do(stick(stuck))
    assert world.do(finish(parent)) == Done((grandchild.pk,))
    for name in ("child", "stuck"):
        run = world.store.run(name)
        assert run is not None
        assert (run.status, run.detail) == (Status.CANCELLED, "cancelled by the end of run parent")
    assert world.inbox(grandchild.pk) == [CANCEL]


def test_the_answer_names_the_children_that_have_something_to_do_and_is_the_same_when_sent_again(world: World) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    assert twice(world, finish(parent)) == [Done((child.pk,))]


def test_ends_of_many_runs_in_one_batch_ask_the_children_of_each(world: World) -> None:
    parents = [world.running(f"parent{n}") for n in range(3)]
    children = [child_of(world, parent, f"child{parent.pk}") for parent in parents[:2]]
    world.store.transact([finish(parent) for parent in parents])
    assert [world.inbox(child.pk) for child in children] == [[CANCEL]] * 2


def test_a_child_that_was_given_up_before_is_asked_no_more(world: World) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    world.do(Cancel(id="child", parent=parent.pk, message_id="given up"))
    world.do(write(child, consumes=(1,)))
    world.do(finish(child, Status.CANCELLED))
    world.do(Resume(id="child", status=Status.CANCELLED, last_seq=0))
    world.do(finish(parent))
    assert world.inbox(child.pk) == []  # a person wants it to go on


def test_an_ended_child_hears_nothing(world: World) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    world.do(finish(child))
    assert world.do(finish(parent)) == Done()
    assert world.get(child.pk).status is Status.SUCCEEDED


# -- deadlines ----------------------------------------------------------------------


def late(world: World, id: str = "late", **fields: object) -> RunRow:
    run = world.start(id, deadline=world.clock.wall() + 5.0, **fields)
    world.clock.advance(5.0)
    return run


def test_a_run_that_nobody_began_by_its_deadline_fails_and_its_parent_is_told(world: World) -> None:
    parent = world.running("parent")
    run = late(world, parent=parent.pk, parent_key="main/late#1")
    assert world.store.overdue(10) == [run]
    assert twice(world, Expire(worker="w1", run=run.pk, error=b"late")) == [Done((parent.pk,))]
    now = world.get(run.pk)
    assert (now.status, now.error, now.ended, now.due) == (Status.FAILED, b"late", world.clock.wall(), None)
    (row,) = world.store.inbox("w1")
    assert (row.kind, row.key, row.ok, row.value) == (Kind.CHILD, "main/late#1", False, b"late")
    assert world.store.overdue(10) == []


def test_a_client_that_waits_may_say_so_too_and_has_no_lease_to_lose(world: World) -> None:
    run = late(world)
    assert twice(world, Expire(worker=None, run=run.pk, error=b"late")) == [Done()]
    assert world.get(run.pk).status is Status.FAILED
    begun = world.running("begun", deadline=world.clock.wall() - 1.0)
    assert isinstance(world.do(Expire(worker=None, run=begun.pk, error=b"late")), Refused)


def test_a_run_whose_deadline_is_still_to_come_is_not_overdue(world: World) -> None:
    world.worker()
    run = world.start(deadline=world.clock.wall() + 5.0)
    world.clock.advance(4.9)
    assert world.store.overdue(10) == []
    assert isinstance(world.do(Expire(worker="w1", run=run.pk, error=b"late")), Refused)
    assert world.get(run.pk).status is Status.PENDING


def test_a_run_that_somebody_has_begun_is_left_to_its_worker(world: World) -> None:
    world.worker()
    run = late(world)
    (claimed,) = world.claim()
    assert claimed.deadline == run.deadline
    assert world.store.overdue(10) == []
    assert isinstance(world.do(Expire(worker="w1", run=run.pk, error=b"late")), Refused)


def test_a_run_without_a_deadline_does_not_expire(world: World) -> None:
    world.worker()
    run = world.start()
    assert isinstance(world.do(Expire(worker="w1", run=run.pk, error=b"late")), Refused)
    assert isinstance(world.do(Expire(worker="w1", run=99, error=b"late")), Refused)


def test_a_worker_without_a_lease_ends_nothing(world: World) -> None:
    run = late(world)
    assert type(world.do(Expire(worker="nobody", run=run.pk, error=b"late"))).__name__ == "Fenced"
    assert world.get(run.pk).status is Status.PENDING


@pytest.mark.parametrize("passed", [False, True])
def test_resuming_a_run_that_had_ended_lifts_a_deadline_that_has_come(world: World, passed: bool) -> None:
    run = world.running(deadline=world.clock.wall() + 5.0)
    world.do(finish(run, Status.FAILED))
    if passed:
        world.clock.advance(5.0)
    world.do(Resume(id="run", status=Status.FAILED, last_seq=0))
    assert world.get(run.pk).deadline == (None if passed else run.deadline)


def test_resuming_a_stuck_run_keeps_its_deadline(world: World) -> None:
    run = world.running(deadline=world.clock.wall() + 5.0)
    world.do(stick(run))
    world.clock.advance(6.0)
    world.do(Resume(id="run", status=Status.STUCK, last_seq=0))
    assert world.get(run.pk).deadline == run.deadline


def test_starts_with_and_without_a_deadline_go_together_in_one_batch(world: World) -> None:
    world.worker()
    rows = [run_row("a"), run_row("b", deadline=1e12), run_row("c", outlives=True)]
    answers = world.store.transact([StartRun(run=row, claim_by="w1") for row in rows])
    assert [(a.run.deadline, a.run.outlives, a.run.owner) for a in answers] == [
        (None, False, "w1"),
        (1e12, False, "w1"),
        (None, True, "w1"),
    ]


def test_a_finish_says_nothing_of_children_that_are_not_its_own(world: World) -> None:
    parent, other = world.running("parent"), world.running("other")
    child = child_of(world, parent)
    world.do(Finish(worker="w1", run=other.pk, claim=1, status=Status.SUCCEEDED, last_seq=0))
    assert world.inbox(child.pk) == []
