"""A run's next turn, its end by force, and who may claim it under which name."""

from __future__ import annotations

import pytest

from outlast.core.records import Kind
from outlast.core.transitions import Status
from outlast.stores.course_verbs import Continued, Counted, Hold, Move, Terminate
from outlast.stores.protocol import RunFilter
from outlast.stores.verbs import (
    Cancel,
    Conflict,
    Done,
    Failed,
    Fenced,
    Prune,
    Refused,
    Resume,
    Started,
    StartRun,
)
from tests.conformance.world import (
    World,
    finish,
    message,
    next_turn,
    park,
    record,
    run_row,
    take_over,
    twice,
    write,
)

# -- the next turn -------------------------------------------------------------


def test_a_turn_begins_with_an_empty_journal_and_another_call(world: World) -> None:
    run = world.running(input=b"[1]")
    world.do(write(run, record(1), record(2)))
    (answer,) = twice(world, next_turn(run, last_seq=2, workflow="other", input=b"[2]", options='{"a":1}'))
    assert isinstance(answer, Continued)
    now = world.get(run.pk)
    assert answer.run == now
    assert (now.id, now.status, now.owner, now.claim, now.turn) == (run.id, Status.RUNNING, "w1", run.claim + 1, 2)
    assert (now.workflow, now.input, now.options) == ("other", b"[2]", '{"a":1}')
    assert (now.incarnation, now.turned, now.began, now.started) == (f"{run.incarnation}'", 200.0, 200.0, run.started)
    assert world.store.records(run.pk) == []


def test_its_new_owner_writes_from_the_first_record_and_the_old_claim_nothing(world: World) -> None:
    run = world.running()
    world.do(write(run, record(1)))
    answer = world.do(next_turn(run, last_seq=1))
    assert isinstance(answer, Continued)
    assert isinstance(world.do(write(run, record(1))), Fenced)
    assert isinstance(world.do(finish(run)), Fenced)
    assert world.do(write(answer.run, record(1, key="main/other#1"))) == Done()
    again = world.do(next_turn(answer.run, last_seq=1))
    assert isinstance(again, Continued)
    assert again.run.turn == 3
    assert world.do(finish(again.run)) == Done()


def test_messages_and_a_cancellation_go_along_and_what_was_taken_is_known(world: World) -> None:
    run = world.running()
    world.do(message(message_id="m1"))
    world.do(message(message_id="m2"))
    world.do(Cancel(id="run"))
    (loaded,) = world.store.load([run.pk])
    assert loaded
    world.do(write(run, record(1, Kind.MESSAGE), consumes=(loaded.inbox[0].id,)))
    assert isinstance(world.do(next_turn(run, last_seq=1)), Continued)
    left = [(Kind.MESSAGE, "topic", "m2"), (Kind.CANCEL, "", "cancel")]
    assert world.inbox(run.pk) == left
    world.do(message(message_id="m1"))
    world.do(message(message_id="m2"))
    assert world.inbox(run.pk) == left


def test_a_turn_rests_on_its_last_record(world: World) -> None:
    run = world.running()
    world.do(write(run, record(1)))
    before = world.state()
    assert isinstance(world.do(next_turn(run, last_seq=2)), Failed)
    assert world.state() == before


def test_only_its_owner_begins_it(world: World) -> None:
    run = world.running()
    world.worker("w2")
    assert isinstance(world.do(next_turn(run, worker="w2")), Fenced)
    world.do(take_over())
    assert isinstance(world.do(next_turn(run)), Fenced)
    assert world.get(run.pk).turn == 1


def test_its_children_have_no_parent_any_more_and_their_ends_are_not_told(world: World) -> None:
    run = world.running()
    ended = world.running("ended", parent=run.pk, parent_key="main/flow#1")
    open_ = world.running("open", parent=run.pk, parent_key="main/flow#2")
    shared = world.running("shared")
    again = run_row("shared", parent=run.pk, parent_key="main/flow#3")
    assert isinstance(world.do(StartRun(run=again)), Started)
    world.do(finish(ended))
    assert world.inbox(run.pk)
    assert isinstance(world.do(next_turn(run)), Continued)
    world.do(finish(open_))
    world.do(finish(shared))
    assert world.inbox(run.pk) == []
    assert world.get(open_.pk).parent is None


def test_who_waits_for_a_run_hears_of_its_last_turn(world: World) -> None:
    parent = world.running("parent")
    child = world.running("child", parent=parent.pk, parent_key="main/flow#1", incarnation="first")
    answer = world.do(next_turn(child))
    assert isinstance(answer, Continued)
    assert world.inbox(parent.pk) == []
    again = run_row("child", parent=parent.pk, parent_key="main/flow#1", incarnation="first")
    found = world.do(StartRun(run=again, parent_worker="w1", parent_claim=parent.claim))
    assert found == Started(answer.run, created=False)
    assert world.do(finish(answer.run)) == Done((parent.pk,))
    assert [(kind, key) for kind, key, _ in world.inbox(parent.pk)] == [(Kind.CHILD, "main/flow#1")]


def test_starting_it_again_by_the_first_call_gives_the_run(world: World) -> None:
    run = world.running(input=b"[1]")
    answer = world.do(next_turn(run, workflow="other", input=b"[2]"))
    assert isinstance(answer, Continued)
    assert world.do(StartRun(run=run_row("run", input=b"[1]"))) == Started(answer.run, created=False)
    refused = world.do(StartRun(run=run_row("run", workflow="other", input=b"[2]")))
    assert isinstance(refused, Conflict)
    assert (refused.run.workflow, refused.run.input) == ("flow", b"[1]")


@pytest.mark.parametrize("workflow", ["flow", "other"])
def test_it_holds_its_dedup_key_by_the_call_that_started_it(world: World, workflow: str) -> None:
    run = world.running(input=b"[1]", dedup="k")
    answer = world.do(next_turn(run, workflow=workflow, input=b"[2]"))
    assert isinstance(answer, Continued)
    assert world.do(StartRun(run=run_row("same", input=b"[1]", dedup="k"))) == Started(answer.run, created=False)
    for another in (run_row("x", input=b"[2]", dedup="k"), run_row("x", workflow=workflow, input=b"[2]", dedup="k")):
        refused = world.do(StartRun(run=another))
        assert isinstance(refused, Conflict)
        assert (refused.run.id, refused.run.workflow, refused.run.input) == ("run", "flow", b"[1]")
    world.do(finish(answer.run))
    assert world.start("next", input=b"[3]", dedup="k").id == "next"


def test_it_gives_its_dedup_key_up_where_another_run_holds_it_under_its_new_name(world: World) -> None:
    holder = world.start("holder", workflow="other", dedup="k")
    answer = world.do(next_turn(world.running(dedup="k"), workflow="other"))
    assert isinstance(answer, Continued)
    assert answer.run.dedup == ""
    assert world.do(StartRun(run=run_row("x", workflow="other", dedup="k"))) == Started(holder, created=False)


def test_one_that_is_resumed_gives_up_the_key_by_which_another_was_started_since(world: World) -> None:
    answer = world.do(next_turn(world.running(dedup="k"), workflow="other"))
    assert isinstance(answer, Continued)
    world.do(finish(answer.run, Status.FAILED))
    world.start("next", dedup="k")
    world.do(Resume(id="run", status=Status.FAILED, last_seq=0, drop=()))
    assert (world.get(answer.run.pk).status, world.get(answer.run.pk).dedup) == (Status.PENDING, "")


def test_pruning_takes_it_whole(world: World) -> None:
    answer = world.do(next_turn(world.running()))
    assert isinstance(answer, Continued)
    world.do(finish(answer.run))
    world.clock.advance(100)
    world.do(Prune(before=world.clock.wall()))
    assert world.store.check() == []
    assert world.do(StartRun(run=run_row("run", input=b"[9]"))).created  # type: ignore[attr-defined]


# -- the end by force -----------------------------------------------------------


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING, Status.WAITING, Status.STUCK])
def test_a_run_that_has_not_ended_is_cancelled_at_once(world: World, status: Status) -> None:
    world.worker()
    run = world.put_in(status)
    (answer,) = twice(world, Terminate(id="run", worker=run.owner, by="ann"))
    assert answer == Done()
    now = world.get(run.pk)
    assert (now.status, now.owner, now.due, now.detail) == (Status.CANCELLED, None, None, "cancelled by force by ann")
    assert now.ended == world.clock.wall()


def test_its_owner_can_write_nothing_more(world: World) -> None:
    run = world.running()
    world.do(write(run, record(1)))
    world.do(Terminate(id="run", worker="w1"))
    for verb in (write(run, record(2)), park(run), finish(run, last_seq=1), next_turn(run, last_seq=1)):
        assert isinstance(world.do(verb), Fenced), verb
    assert len(world.store.records(run.pk)) == 1
    other = world.running("other")
    assert world.do(write(other, record(1))) == Done()


def test_its_parent_hears_of_it(world: World) -> None:
    parent = world.running("parent")
    world.running("child", parent=parent.pk, parent_key="main/flow#1")
    assert world.do(Terminate(id="child", worker="w1")) == Done((parent.pk,))
    assert world.inbox(parent.pk)[0][:2] == (Kind.CHILD, "main/flow#1")


def test_it_is_refused_for_another_owner_and_for_an_end(world: World) -> None:
    run = world.running()
    refused = world.do(Terminate(id="run", worker="w9"))
    assert isinstance(refused, Refused)
    assert refused.run
    assert refused.run.owner == "w1"
    world.do(finish(run))
    assert isinstance(world.do(Terminate(id="run", worker=None)), Refused)
    assert isinstance(world.do(Terminate(id="none", worker=None)), Refused)


def test_a_run_says_since_when_it_is_being_cancelled(world: World) -> None:
    run = world.running()
    world.do(Cancel(id="run"))
    asked = world.clock.wall()
    world.clock.advance(5)
    world.do(Cancel(id="run"))
    assert world.get(run.pk).cancelling == asked
    world.do(finish(run, Status.CANCELLED))
    world.do(Resume(id="run", status=Status.CANCELLED, last_seq=0))
    assert world.get(run.pk).cancelling is None


# -- holding and moving ---------------------------------------------------------------


def test_a_run_that_is_held_is_claimed_by_nobody_until_it_is_free(world: World) -> None:
    world.worker()
    held, free = world.start("held", version="v1"), world.start("free", version="v2")
    assert world.do(Hold(held=True, version="v1")) == Counted(1)
    assert world.do(Hold(held=True, version="v1")) == Counted(0)
    assert [run.id for run in world.store.runs(RunFilter(held=True))] == ["held"]
    assert [run.id for run in world.store.runs(RunFilter(held=False))] == ["free"]
    assert [run.pk for run in world.claim(limit=9)] == [free.pk]
    assert world.store.next_due(("flow",)) is None
    assert world.do(Hold(held=False, version="v1")) == Counted(1)
    assert world.store.next_due(("flow",)) is not None
    assert [run.pk for run in world.claim(limit=9)] == [held.pk]


def test_a_held_run_that_is_started_again_with_other_arguments_stays_held(world: World) -> None:
    world.start("one", due=9e9, debounce="k", deadline=8e9)
    assert world.do(Hold(held=True, id="one")) == Counted(1)
    again = world.do(StartRun(run=run_row("two", due=9e9, debounce="k", deadline=9e9, input=b"[2]")))
    assert isinstance(again, Started)
    for seen in (again.run, world.get(again.run.pk)):
        assert (seen.id, seen.held, seen.deadline, seen.input) == ("one", True, 9e9, b"[2]")


def test_a_held_run_that_is_woken_stays_held(world: World) -> None:
    run = world.put_in(Status.WAITING)
    world.do(Hold(held=True, id="run"))
    world.do(message())
    assert world.claim() == ()
    world.do(Hold(held=False, id="run"))
    assert [row.pk for row in world.claim()] == [run.pk]


def test_holding_fits_all_that_is_given_leaves_ends_alone_and_stops_at_its_limit(world: World) -> None:
    world.do(finish(world.running("ended")))
    for n in range(3):
        world.start(f"a{n}", workflow="a")
    world.start("b", workflow="b")
    assert world.do(Hold(held=True, workflow="a", limit=2)) == Counted(2)
    assert world.do(Hold(held=True, workflow="a", limit=2)) == Counted(1)
    assert world.do(Hold(held=True, id="b", workflow="a")) == Counted(0)
    assert world.do(Hold(held=True, id="ended")) == Counted(0)


def test_runs_are_moved_to_another_name_unless_somebody_executes_them(world: World) -> None:
    owned, ended = world.running("owned"), world.running("ended")
    world.do(finish(ended))
    moved = world.start("moved", definition="old:flow", version="v1")
    other = world.start("other", version="v2")
    assert world.do(Move(workflow="flow", to="new", version="v1")) == Counted(1)
    assert [world.get(run.pk).workflow for run in (owned, ended, moved, other)] == ["flow", "flow", "new", "flow"]
    assert world.get(moved.pk).definition == "old:flow"
    assert [run.pk for run in world.claim(workflow="new")] == [moved.pk]
    assert world.do(Move(workflow="flow", to="new")) == Counted(1)


@pytest.mark.parametrize("key", ["dedup", "debounce"])
def test_a_run_that_is_moved_takes_its_key_along_unless_another_holds_it(world: World, key: str) -> None:
    holder = world.start("holder", workflow="new", due=9e9, **{key: "k"})
    beside, moved = world.start("beside", due=9e9, **{key: "k"}), world.start("moved", due=9e9, **{key: "l"})
    assert world.do(Move(workflow="flow", to="new")) == Counted(2)
    assert [getattr(world.get(run.pk), key) for run in (holder, beside, moved)] == ["k", "", "l"]
    again = world.do(StartRun(run=run_row("again", workflow="new", due=9e9, **{key: "l"})))
    assert isinstance(again, Started)
    assert again.run.pk == moved.pk


def test_a_run_that_is_moved_in_a_later_turn_is_known_by_its_new_name(world: World) -> None:
    answer = world.do(next_turn(world.running(input=b"[1]"), input=b"[2]"))
    assert isinstance(answer, Continued)
    world.do(park(answer.run))
    world.do(Move(workflow="flow", to="new"))
    assert isinstance(world.do(StartRun(run=run_row("run", workflow="new", input=b"[1]"))), Started)
    assert isinstance(world.do(StartRun(run=run_row("run", input=b"[1]"))), Conflict)


def test_one_run_of_many_is_moved_back_by_its_id(world: World) -> None:
    moved, born = world.start("moved", workflow="new"), world.start("born", workflow="new")
    assert world.do(Move(workflow="flow", to="old", id="moved")) == Counted(0)
    assert world.do(Move(workflow="new", to="old", id="moved", version="another")) == Counted(0)
    assert world.do(Move(workflow="new", to="old", id="moved")) == Counted(1)
    assert [world.get(run.pk).workflow for run in (moved, born)] == ["old", "new"]
