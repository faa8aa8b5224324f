"""Old runs are deleted whole, and nothing else is."""

from __future__ import annotations

from outlast.core.records import Kind
from outlast.core.transitions import Status
from outlast.stores.protocol import RunFilter
from outlast.stores.verbs import Claimed, Prune, Started, StartRun
from tests.conformance.world import World, finish, message, record, run_row, write


def pruned(world: World, before: float | None = None, limit: int = 1000) -> list[str]:
    """Prune, and return the ids of what was deleted."""
    answer = world.do(Prune(before=world.clock.wall() if before is None else before, limit=limit))
    assert isinstance(answer, Claimed)
    return [run.id for run in answer.runs]


def test_only_ended_runs_are_pruned(world: World) -> None:
    for status in Status:
        world.put_in(status, id=status)
    world.clock.advance(1)
    assert sorted(pruned(world)) == ["cancelled", "failed", "succeeded"]
    assert {run.id for run in world.store.runs(RunFilter())} == {"pending", "running", "waiting", "stuck"}


def test_the_oldest_are_pruned_first_and_no_more_than_asked_for(world: World) -> None:
    runs = [world.running(f"r{n}") for n in range(6)]
    for run in reversed(runs):
        world.do(finish(run))
        world.clock.advance(1)
    assert pruned(world, limit=2) == ["r5", "r4"]
    assert pruned(world, before=world.clock.wall() - 1, limit=10) == ["r3", "r2", "r1"]
    assert pruned(world, limit=0) == []
    assert pruned(world) == ["r0"]
    assert pruned(world) == []


def test_what_is_pruned_is_told_as_it_was(world: World) -> None:
    run = world.put_in(Status.FAILED, input=b"[1]")
    world.clock.advance(1)
    assert world.do(Prune(before=world.clock.wall())) == Claimed((run,))


def test_an_id_that_is_used_again_has_nothing_of_the_pruned_run(world: World) -> None:
    old = world.running("x", input=b"10")
    world.do(message("x"))
    (row,) = world.store.inbox("w1")
    world.do(write(old, record(1, Kind.MESSAGE), record(2, value=b"ten"), consumes=(row.id,)))
    world.do(finish(old, last_seq=2))
    world.clock.advance(1)
    assert pruned(world) == ["x"]
    assert world.store.run("x") is None
    assert world.store.load([old.pk]) == []
    assert world.store.records(old.pk) == []
    new = world.do(StartRun(run=run_row("x", input=b"20")))
    assert isinstance(new, Started)
    assert new.created
    assert new.run.pk != old.pk
    assert world.store.records(new.run.pk) == []
    world.do(message("x"))
    assert world.inbox(new.run.pk) == [(Kind.MESSAGE, "topic", "m1")]


def test_a_child_stays_while_its_parent_has_not_ended(world: World) -> None:
    parent = world.running("parent")
    child = world.running("child", parent=parent.pk, parent_key="k")
    world.do(finish(child))
    world.clock.advance(1)
    assert pruned(world) == []
    world.do(finish(parent))
    world.clock.advance(1)
    assert pruned(world) == ["child", "parent"]


def test_a_child_stays_while_anybody_who_started_it_has_not_ended(world: World) -> None:
    first, second = world.running("first"), world.running("second")
    child = world.running("child", parent=first.pk, parent_key="k")
    world.do(StartRun(run=run_row("child", parent=second.pk, parent_key="k"), parent_worker="w1", parent_claim=1))
    world.do(finish(child))
    world.do(finish(first))
    world.clock.advance(1)
    assert pruned(world) == ["first"]
    world.do(finish(second))
    world.clock.advance(1)
    assert pruned(world) == ["child", "second"]


def test_a_child_whose_parent_was_pruned_is_pruned_too(world: World) -> None:
    parent = world.running("parent")
    child = world.running("child", parent=parent.pk, parent_key="k")
    world.do(finish(parent))
    world.clock.advance(1)
    assert pruned(world) == ["parent"]
    world.do(finish(child))
    world.clock.advance(1)
    assert pruned(world) == ["child"]
