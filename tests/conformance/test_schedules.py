"""A schedule's slots are used up once, whoever comes with them, and its counters say what became of each."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from outlast.core.schedule_rows import ScheduleRow
from outlast.core.transitions import Status
from outlast.stores.time_verbs import DropSchedule, PauseSchedule, PutSchedule, Scheduled, Slot, Tick, Ticked
from outlast.stores.verbs import Done, Fenced, Refused
from tests.conformance.world import World, finish, message, run_row, twice


def schedule(name: str = "nightly", **fields: object) -> ScheduleRow:
    return ScheduleRow(**{"name": name, "spec": "{}", "workflow": "flow", "next": 100.0, "anchor": 50.0} | fields)


def put(world: World, paused: bool | None = None, **fields: object) -> ScheduleRow:
    answer = world.do(PutSchedule(schedule=schedule(**fields), paused=paused))
    assert isinstance(answer, Scheduled), answer
    return answer.schedule


def slot(at: float, busy: str = "skip") -> Slot:
    return Slot(at=at, run=run_row(f"nightly@{at}"), busy=busy)


def tick(row: ScheduleRow, *slots: Slot, key: str = "k1", **fields: object) -> Tick:
    given = {"worker": "w1", "name": row.name, "revision": row.revision, "key": key, "next": 200.0, "slots": slots}
    return Tick(**given | fields)


def now(world: World) -> ScheduleRow:
    (row,) = world.store.schedules()
    return row


# -- what there is ----------------------------------------------------------------------


def test_a_schedule_is_kept_as_it_was_put(world: World) -> None:
    row = put(world, input=b"[[],{}]", is_step=True, definition="shop:flow", backlog=(1.0,), started=7)
    assert row == schedule(
        input=b"[[],{}]", is_step=True, definition="shop:flow", revision=1, created=world.clock.wall()
    )
    put(world, name="a")
    assert [row.name for row in world.store.schedules()] == ["a", "nightly"]


def test_the_same_again_changes_nothing(world: World) -> None:
    row = put(world)
    assert put(world, next=500.0, anchor=400.0) == row


@pytest.mark.parametrize("change", [{"spec": '{"every":5}'}, {"workflow": "other"}, {"input": b"1"}])
def test_another_spec_or_call_takes_its_place_and_keeps_the_counters(world: World, change: dict[str, object]) -> None:
    world.worker()
    world.do(tick(put(world), slot(100.0)))
    row = put(world, next=500.0, anchor=400.0, **change)
    assert (row.next, row.anchor, row.revision, row.started, row.last) == (500.0, 400.0, 3, 1, "nightly@100.0")


def test_a_new_spec_leaves_a_paused_schedule_paused(world: World) -> None:
    assert put(world, paused=True).next is None
    assert put(world, spec='{"every":5}').next is None
    assert put(world, paused=False).next == 100.0


def test_it_is_paused_and_goes_on(world: World) -> None:
    put(world)
    (answer,) = twice(world, PauseSchedule(name="nightly", next=None))
    assert isinstance(answer, Scheduled)
    assert answer.schedule.paused
    world.do(PauseSchedule(name="nightly", next=300.0))
    assert now(world).next == 300.0
    world.do(PauseSchedule(name="nightly", next=400.0))
    assert now(world).next == 300.0  # it goes on already


def test_one_that_is_not_there_is_not_paused_and_is_deleted_already(world: World) -> None:
    assert isinstance(world.do(PauseSchedule(name="nightly", next=None)), Refused)
    put(world)
    assert twice(world, DropSchedule(name="nightly")) == [Done()]
    assert world.store.schedules() == []


# -- slots ---------------------------------------------------------------------------------


def test_a_slot_starts_its_run_and_the_next_one_is_told(world: World) -> None:
    world.worker()
    (answer,) = twice(world, tick(put(world), slot(100.0), missed=2))
    assert answer == Ticked(("nightly@100.0",))
    run = world.store.run("nightly@100.0")
    assert run is not None
    assert (run.status, run.due) == (Status.PENDING, world.clock.wall())
    row = now(world)
    assert (row.next, row.revision, row.last, row.last_slot) == (200.0, 2, "nightly@100.0", 100.0)
    assert (row.started, row.skipped, row.missed) == (1, 0, 2)


def test_of_two_workers_with_the_same_slot_one_uses_it_up(world: World) -> None:
    world.worker("w1")
    world.worker("w2")
    row = put(world)
    first, second = tick(row, slot(100.0)), tick(row, slot(100.0), worker="w2", key="k2")
    assert isinstance(world.do(first), Ticked)
    assert isinstance(world.do(second), Refused)
    assert now(world).started == 1


def test_a_slot_that_has_its_run_is_not_started_again(world: World) -> None:
    world.worker()
    put(world)
    world.start("nightly@100.0", workflow="other")
    assert world.do(tick(now(world), slot(100.0), slot(110.0))) == Ticked(("nightly@110.0",))
    assert now(world).started == 1


def test_a_worker_without_a_lease_starts_nothing(world: World) -> None:
    assert isinstance(world.do(tick(put(world), slot(100.0))), Fenced)
    assert world.store.run("nightly@100.0") is None


def test_a_schedule_that_is_paused_or_deleted_starts_nothing(world: World) -> None:
    world.worker()
    row = put(world, paused=True)
    assert isinstance(world.do(tick(row, slot(100.0))), Refused)
    world.do(DropSchedule(name="nightly"))
    assert isinstance(world.do(tick(row, slot(100.0))), Refused)


@pytest.mark.parametrize(
    ("busy", "started", "skipped", "backlog"),
    [("allow", 3, 0, ()), ("skip", 1, 2, ()), ("queue", 1, 0, (110.0, 120.0))],
)
def test_slots_that_overlap(world: World, busy: str, started: int, skipped: int, backlog: tuple[float, ...]) -> None:
    world.worker()
    world.do(tick(put(world), *(slot(at, busy) for at in (100.0, 110.0, 120.0))))
    row = now(world)
    assert (row.started, row.skipped, row.backlog) == (started, skipped, backlog)


def test_a_slot_that_waits_starts_when_the_run_before_it_has_ended(world: World) -> None:
    world.worker()
    put(world)
    world.do(tick(now(world), slot(100.0, "queue"), slot(110.0, "queue")))
    assert world.store.next_slot(("flow",)) == 200.0
    world.do(tick(now(world), slot(110.0, "queue"), key="k2"))
    assert now(world).backlog == (110.0,)  # too early: it waits on
    (run,) = world.claim()
    world.do(finish(run))
    assert world.store.next_slot(("flow",)) == 0.0
    assert world.do(tick(now(world), slot(110.0, "queue"), key="k3")) == Ticked(("nightly@110.0",))
    assert now(world).backlog == ()


def test_slots_that_wait_are_told_of_only_while_the_schedule_goes_on(world: World) -> None:
    world.worker()
    put(world)
    world.do(tick(now(world), slot(100.0, "queue"), slot(110.0, "queue")))
    (run,) = world.claim()
    world.do(finish(run))
    world.do(PauseSchedule(name="nightly", next=None))
    assert world.store.next_slot(("flow",)) is None


def test_the_next_slot_is_that_of_the_workflows_asked_for(world: World) -> None:
    put(world)
    put(world, name="b", workflow="other", next=70.0)
    assert world.store.next_slot(("flow",)) == 100.0
    assert world.store.next_slot(("flow", "other")) == 70.0
    assert world.store.next_slot(()) is None


def test_a_message_that_came_before_the_slot_is_there_for_its_run(world: World) -> None:
    world.worker()
    world.do(replace(message("nightly@100.0"), early=True))
    world.do(tick(put(world), slot(100.0)))
    run = world.store.run("nightly@100.0")
    assert run is not None
    assert len(world.inbox(run.pk)) == 1


def test_of_a_schedule_that_cannot_be_kept_nothing_is(world: World) -> None:
    assert type(world.do(PutSchedule(schedule=schedule(spec="\0")))).__name__ == "Failed"
    assert type(world.do(PutSchedule(schedule=schedule(name="x" * 3000)))).__name__ == "Failed"
    assert world.store.schedules() == []
