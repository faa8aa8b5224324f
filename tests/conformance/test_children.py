"""A child's end reaches who waits for it, once."""

from __future__ import annotations

import pytest

from outlast.core.records import Kind, RunRow
from outlast.core.transitions import Status
from outlast.stores.verbs import Cancel, Conflict, Done, Resume, Started, StartRun
from tests.conformance.world import World, finish, park, record, run_row, stick, write

KEY = "main/child#1"


def child_of(world: World, parent: RunRow, id: str = "child", key: str = KEY, **fields: object) -> RunRow:
    """Start a child of a running parent, claimed by the parent's worker."""
    answer = world.do(
        StartRun(
            run=run_row(id, parent=parent.pk, parent_key=key, **fields),
            claim_by=parent.owner,
            parent_worker=parent.owner,
            parent_claim=parent.claim,
        )
    )
    assert isinstance(answer, Started), answer
    return answer.run


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
def test_the_end_of_a_child_is_put_in_its_parents_inbox(world: World, status: Status) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    assert world.do(finish(child, status, culprit="main/step#1", detail="why")) == Done((parent.pk,))
    (row,) = world.store.inbox("w1")
    assert (row.run, row.kind, row.key, row.ok) == (parent.pk, Kind.CHILD, KEY, status is Status.SUCCEEDED)
    assert row.value == (b"42" if status is Status.SUCCEEDED else b"boom")
    now = world.get(child.pk)
    assert (now.status, now.ended, now.owner, now.culprit, now.detail) == (
        status,
        world.clock.wall(),
        None,
        "main/step#1",
        "why",
    )


def test_the_end_of_a_child_wakes_a_parked_parent(world: World) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    world.do(park(parent))
    assert world.do(finish(child)) == Done((parent.pk,))
    assert world.get(parent.pk).due == world.clock.wall()


def test_a_parent_that_parks_after_its_childs_end_is_kept(world: World) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    answers = world.store.transact([finish(child), park(parent)])
    assert type(answers[1]).__name__ == "Kept"


def test_a_stuck_parent_keeps_its_childs_end_for_later(world: World) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    world.do(stick(parent))
    assert world.do(finish(child)) == Done()
    assert world.inbox(parent.pk) == [(Kind.CHILD, KEY, f"{child.incarnation}:{KEY}")]


def test_a_parent_that_has_ended_is_told_nothing(world: World) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    world.do(finish(parent))
    assert world.do(finish(child)) == Done()
    assert world.inbox(parent.pk) == []


def test_a_child_that_is_cancelled_before_it_began_tells_its_parent(world: World) -> None:
    parent = world.running("parent")
    world.do(StartRun(run=run_row("child", parent=parent.pk, parent_key=KEY)))
    assert world.do(Cancel(id="child")) == Done((parent.pk,))
    (row,) = world.store.inbox("w1")
    assert (row.kind, row.ok, row.value) == (Kind.CHILD, False, None)


def test_a_child_that_is_cancelled_while_stuck_tells_its_parent(world: World) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    world.do(stick(child))
    assert world.store.inbox("w1") == []
    assert world.do(Cancel(id="child")) == Done((parent.pk,))
    assert len(world.store.inbox("w1")) == 1


def test_a_child_that_had_ended_when_its_parent_starts_it_tells_it(world: World) -> None:
    child = world.put_in(Status.SUCCEEDED, "child")
    parent = world.running("parent")
    start = StartRun(
        run=run_row("child", parent=parent.pk, parent_key=KEY), parent_worker="w1", parent_claim=parent.claim
    )
    assert world.do(start) == Started(child, created=False)
    assert world.do(start) == Started(child, created=False)
    (row,) = world.store.inbox("w1")
    assert (row.run, row.kind, row.key, row.value) == (parent.pk, Kind.CHILD, KEY, b"42")


def test_a_child_whose_end_is_in_the_journal_is_not_told_again(world: World) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    world.do(finish(child))
    (row,) = world.store.inbox("w1")
    world.do(write(parent, record(1, Kind.CHILD, KEY), consumes=(row.id,)))
    again = run_row("child", parent=parent.pk, parent_key=KEY)
    world.do(StartRun(run=again, parent_worker="w1", parent_claim=parent.claim))
    assert world.store.inbox("w1") == []


def test_a_child_whose_end_was_dropped_by_a_resume_is_told_again(world: World) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    world.do(finish(child, Status.FAILED))
    (row,) = world.store.inbox("w1")
    world.do(write(parent, record(1, Kind.CHILD, KEY, ok=False), consumes=(row.id,)))
    world.do(finish(parent, Status.FAILED, last_seq=1))
    world.do(Resume(id="parent", status=Status.FAILED, last_seq=1, drop=(1,)))
    (parent,) = world.claim()
    again = run_row("child", parent=parent.pk, parent_key=KEY)
    world.do(StartRun(run=again, parent_worker="w1", parent_claim=parent.claim))
    assert world.inbox(parent.pk) == [(Kind.CHILD, KEY, f"{child.incarnation}:{KEY}")]


def test_a_child_that_was_resumed_tells_its_new_end(world: World) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    world.do(finish(child, Status.FAILED))
    world.do(Resume(id="child", status=Status.FAILED, last_seq=0))
    (child,) = world.claim()
    world.do(finish(child))
    (row,) = world.store.inbox("w1")  # the parent had not looked yet: one row, and it tells the truth
    assert (row.ok, row.value) == (True, b"42")


def test_a_child_that_was_resumed_does_not_disturb_a_parent_that_knows_its_end(world: World) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    world.do(finish(child, Status.FAILED))
    (row,) = world.store.inbox("w1")
    world.do(write(parent, record(1, Kind.CHILD, KEY, ok=False), consumes=(row.id,)))
    world.do(Resume(id="child", status=Status.FAILED, last_seq=0))
    (child,) = world.claim()
    world.do(finish(child))
    assert world.store.inbox("w1") == []


def test_all_who_start_one_run_are_told_its_end(world: World) -> None:
    """Nobody who was given the run waits for ever, though a run has one parent."""
    first, second = world.running("first"), world.running("second")
    child = child_of(world, first)
    assert child_of(world, second, key="main/other#1").pk == child.pk
    assert child_of(world, first, key="main/child#2").pk == child.pk
    assert world.do(finish(child)) == Done((first.pk, second.pk))
    assert [(row.run, row.key) for row in world.store.inbox("w1")] == [
        (first.pk, KEY),
        (first.pk, "main/child#2"),
        (second.pk, "main/other#1"),
    ]


def test_who_meets_a_conflict_is_not_told_of_the_other_run(world: World) -> None:
    first, second = world.running("first"), world.running("second")
    child = child_of(world, first)
    other = run_row("child", parent=second.pk, parent_key=KEY, input=b"other")
    assert isinstance(world.do(StartRun(run=other, parent_worker="w1", parent_claim=1)), Conflict)
    assert world.do(finish(child)) == Done((first.pk,))


@pytest.mark.parametrize("strangers", [0, 3])
def test_a_family_that_ends_in_one_batch_is_told_in_the_order_of_the_ends(world: World, strangers: int) -> None:
    parent = world.running("parent")
    children = [child_of(world, parent, f"child{n}", f"main/child#{n}") for n in range(strangers + 2)]
    ends = [finish(child) for child in reversed(children)]
    assert world.store.transact(ends) == [Done((parent.pk,))] * len(ends)
    assert [row.key for row in world.store.inbox("w1")] == [f"main/child#{n}" for n in reversed(range(len(ends)))]


@pytest.mark.parametrize("strangers", [0, 2])
@pytest.mark.parametrize("child_first", [True, False])
def test_a_child_and_its_parent_that_end_in_one_batch_end_in_its_order(
    world: World, child_first: bool, strangers: int
) -> None:
    parent = world.running("parent")
    child = child_of(world, parent, outlives=True)
    others = [finish(world.running(f"stranger{n}")) for n in range(strangers)]
    ends = [finish(child), *others, finish(parent)]
    told = [Done((parent.pk,))] + [Done()] * (strangers + 1) if child_first else [Done()] * len(ends)
    assert world.store.transact(ends if child_first else ends[::-1]) == told
    assert world.inbox(parent.pk) == []


def test_an_end_that_is_known_already_stands_among_others_as_it_would_alone(world: World) -> None:
    parent = world.running("parent")
    child = child_of(world, parent)
    strangers = [finish(world.running(f"stranger{n}")) for n in range(3)]
    world.do(finish(child))
    assert world.store.transact([*strangers, finish(parent), finish(child)])[-1] == Done()


def test_many_children_end_in_one_batch(world: World) -> None:
    parent = world.running("parent")
    children = [child_of(world, parent, f"child{n}", f"main/child#{n}") for n in range(100)]
    verbs = [verb for child in children for verb in (write(child, record(1)), finish(child, last_seq=1))]
    assert world.store.transact(verbs) == [Done(), Done((parent.pk,))] * 100
    assert [row.key for row in world.store.inbox("w1")] == [f"main/child#{n}" for n in range(100)]


def test_many_children_start_in_one_batch(world: World) -> None:
    parent = world.running("parent")
    verbs = [
        StartRun(
            run=run_row(f"child{n}", parent=parent.pk, parent_key=f"main/child#{n}", input=b"" if n % 2 else b"[1]"),
            claim_by="w1" if n % 3 else None,
            parent_worker="w1",
            parent_claim=parent.claim,
        )
        for n in range(100)
    ]
    answers = world.store.transact(verbs)
    assert all(isinstance(answer, Started) and answer.created for answer in answers)
    assert [answer.run for answer in answers if isinstance(answer, Started)] == [
        world.store.run(f"child{n}") for n in range(100)
    ]
