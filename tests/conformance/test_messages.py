"""What is sent to a run is kept until it is delivered, once, and wakes the run."""

from __future__ import annotations

import pytest

from outlast.core.records import InboxRow, Kind
from outlast.core.transitions import Status
from outlast.stores.verbs import Cancel, Done, ForkRun, Kept, Prune, Refused, Resume, Send, Started, StartRun
from tests.conformance.world import (
    World,
    finish,
    message,
    park,
    record,
    release,
    run_row,
    stick,
    take_over,
    write,
)


def test_a_message_comes_back_as_it_was_sent(world: World) -> None:
    run = world.running()
    assert world.do(message(value=b"\0\xff")) == Done((run.pk,))
    (row,) = world.store.inbox("w1")
    assert row == InboxRow(
        id=row.id,
        run=run.pk,
        kind=Kind.MESSAGE,
        key="topic",
        message_id="m1",
        ok=True,
        value=b"\0\xff",
        created=world.clock.wall(),
    )
    (loaded,) = world.store.load([run.pk])
    assert loaded.inbox == (row,)


def test_messages_keep_the_order_in_which_they_were_sent(world: World) -> None:
    world.running("a")
    world.running("b")
    for n in range(20):
        world.do(message("ab"[n % 2], message_id=f"m{n}"))
    rows = world.store.inbox("w1")
    assert [row.message_id for row in rows] == [f"m{n}" for n in range(20)]
    assert [row.id for row in rows] == sorted(row.id for row in rows)


def test_the_inbox_of_a_worker_is_that_of_the_runs_it_owns(world: World) -> None:
    mine, parked, theirs = world.running("mine"), world.running("parked"), world.running("theirs", "w2")
    world.do(park(parked))
    for name in ("mine", "parked", "theirs"):
        world.do(message(name))
    assert [row.run for row in world.store.inbox("w1")] == [mine.pk]
    assert [row.run for row in world.store.inbox("w2")] == [theirs.pk]
    assert world.store.inbox("nobody") == []


def test_the_same_message_is_one_row(world: World) -> None:
    run = world.running()
    assert world.do(message(value=b"1")) == Done((run.pk,))
    assert world.do(message(value=b"2")) == Done((run.pk,))
    (row,) = world.store.inbox("w1")
    assert row.value == b"1"


def test_one_message_id_for_two_runs_is_two_messages(world: World) -> None:
    world.running("a")
    world.running("b")
    world.do(message("a"))
    world.do(message("b"))
    assert len(world.store.inbox("w1")) == 2


def test_a_message_that_was_delivered_is_not_taken_again_while_the_run_lives(world: World) -> None:
    run = world.running()
    world.do(message())
    (row,) = world.store.inbox("w1")
    world.do(write(run, record(1, Kind.MESSAGE), consumes=(row.id,)))
    assert world.do(message()) == Done((run.pk,))
    assert world.store.inbox("w1") == []
    world.do(park(run))
    assert world.do(message()) == Done((run.pk,))
    assert world.get(run.pk).due is None


def test_what_is_sent_before_the_first_claim_is_there_at_it(world: World) -> None:
    run = world.start()
    assert world.do(message()) == Done((run.pk,))
    world.worker()
    world.claim()
    assert [row.message_id for row in world.store.inbox("w1")] == ["m1"]


def test_a_message_does_not_hasten_a_start_that_was_put_off(world: World) -> None:
    due = world.clock.wall() + 3600
    run = world.start(due=due)
    world.do(message())
    assert world.get(run.pk).due == due


def test_a_message_wakes_a_parked_run(world: World) -> None:
    for name, due in (("a", None), ("b", world.clock.wall() + 60)):
        run = world.running(name)
        world.do(park(run, due=due))
        assert world.do(message(name)) == Done((run.pk,))
        now = world.get(run.pk)
        assert (now.status, now.due) == (Status.WAITING, world.clock.wall())


def test_a_message_does_not_put_off_what_is_due_already(world: World) -> None:
    run = world.running()
    due = world.clock.wall() - 60
    world.do(park(run, due=due))
    world.do(message())
    assert world.get(run.pk).due == due


def test_a_message_to_a_stuck_run_is_kept_and_wakes_nobody(world: World) -> None:
    run = world.put_in(Status.STUCK)
    assert world.do(message()) == Done()
    assert world.inbox(run.pk) == [(Kind.MESSAGE, "topic", "m1")]


def test_a_message_to_nobody_is_refused(world: World) -> None:
    answer = world.do(message("nobody"))
    assert isinstance(answer, Refused)
    assert answer.run is None


@pytest.mark.parametrize("kind", [Kind.STEP, Kind.TIMER, Kind.INTENT, Kind.LATE])
def test_only_what_an_inbox_holds_is_sent(world: World, kind: Kind) -> None:
    world.running()
    assert isinstance(world.do(Send(id="run", kind=kind, key="k", message_id="m")), Refused)
    assert world.store.inbox("w1") == []


def test_a_message_stays_through_release_and_takeover(world: World) -> None:
    run = world.running()
    world.do(message())
    world.do(release(run))
    (run,) = world.claim()
    assert len(world.store.inbox("w1")) == 1
    world.worker("w2")
    world.do(take_over("w1"))
    world.claim("w2")
    assert [row.message_id for row in world.store.inbox("w2")] == ["m1"]


def test_rows_that_a_worker_has_seen_are_left_out(world: World) -> None:
    one, other = world.running("a"), world.running("b")
    for n in range(3):
        world.do(message("a", message_id=f"a{n}"))
        world.do(message("b", message_id=f"b{n}"))
    rows = world.store.inbox("w1")
    second = next(row for row in rows if row.message_id == "a1")
    assert [r.message_id for r in world.store.inbox("w1", {one.pk: second.id})] == ["b0", "b1", "a2", "b2"]
    everything = {one.pk: rows[-1].id, other.pk: rows[-1].id, 10**9: 5}
    assert world.store.inbox("w1", everything) == []


# -- parking -------------------------------------------------------------------


def test_a_run_that_has_got_something_meanwhile_is_not_parked(world: World) -> None:
    run = world.running()
    world.do(message())
    assert world.do(park(run)) == Kept()
    assert world.get(run.pk) == run


def test_a_message_and_a_park_in_one_batch_lose_no_wake_up(world: World) -> None:
    run = world.running("a")
    assert world.store.transact([message("a"), park(run)]) == [Done((run.pk,)), Kept()]
    run = world.running("b")
    assert world.store.transact([park(run), message("b")]) == [Done(), Done((run.pk,))]
    assert world.get(run.pk).due == world.clock.wall()


def test_a_run_parks_over_messages_that_it_does_not_wait_for(world: World) -> None:
    run = world.running()
    world.do(message(message_id="m1"))
    (first,) = world.store.inbox("w1")
    world.do(message(message_id="m2"))
    assert world.do(park(run, seen=first.id)) == Kept()
    (_, second) = world.store.inbox("w1")
    assert world.do(park(run, seen=second.id)) == Done()
    assert world.get(run.pk).status is Status.WAITING


def test_a_parked_run_keeps_only_its_row(world: World) -> None:
    run = world.running()
    due = world.clock.wall() + 5
    world.do(park(run, due=due, detail="timer main/sleep#1"))
    now = world.get(run.pk)
    assert (now.status, now.owner, now.due, now.detail, now.claim) == (
        Status.WAITING,
        None,
        due,
        "timer main/sleep#1",
        run.claim,
    )
    assert world.store.owned("w1") == []


# -- cancellation ----------------------------------------------------------------


def test_a_cancellation_is_one_row_that_says_by_whom(world: World) -> None:
    run = world.running()
    world.do(Cancel(id="run", by="ann"))
    world.do(Cancel(id="run", by="bob"))
    (row,) = world.store.inbox("w1")
    assert (row.kind, row.value, row.run) == (Kind.CANCEL, b"ann", run.pk)


def test_a_cancellation_that_was_delivered_does_not_come_again(world: World) -> None:
    run = world.running()
    world.do(Cancel(id="run"))
    (row,) = world.store.inbox("w1")
    world.do(write(run, record(1, Kind.CANCEL), consumes=(row.id,)))
    assert world.do(Cancel(id="run")) == Done((run.pk,))
    assert world.store.inbox("w1") == []


def test_a_cancellation_wakes_a_parked_run(world: World) -> None:
    run = world.put_in(Status.WAITING)
    assert world.do(Cancel(id="run")) == Done((run.pk,))
    assert world.get(run.pk).due == world.clock.wall()


def test_a_parent_that_asks_again_after_a_resume_is_not_heard_again(world: World) -> None:
    for how in (Status.CANCELLED, Status.FAILED):
        run = world.running(how.value)
        assert world.do(Cancel(id=run.id, message_id="a")) == Done((run.pk,))
        assert world.do(finish(run, how)) == Done()
        assert world.do(Cancel(id=run.id, message_id="late")) == Done()
        world.do(Resume(id=run.id, status=how, last_seq=0))
        for known in ("a", "late"):
            assert world.do(Cancel(id=run.id, message_id=known)) == Done((run.pk,))
        assert world.inbox(run.pk) == []
        world.do(Cancel(id=run.id, message_id="b"))
        assert len(world.inbox(run.pk)) == 1


def test_a_stuck_run_that_its_parent_gave_up_is_not_ended_again_after_a_resume(world: World) -> None:
    run = world.running("run")
    world.do(stick(run))
    for _ in range(2):
        world.do(Cancel(id="run", message_id="a"))
    assert world.get(run.pk).status is Status.CANCELLED
    world.do(Resume(id="run", status=Status.CANCELLED, last_seq=0))
    world.do(Cancel(id="run", message_id="a"))
    assert world.get(run.pk).status is Status.PENDING


def test_nobody_is_not_cancelled(world: World) -> None:
    assert isinstance(world.do(Cancel(id="nobody")), Refused)


# -- the end ---------------------------------------------------------------------


def test_the_end_of_a_run_clears_its_inbox_of_all_but_messages(world: World) -> None:
    for name, status in (("a", Status.SUCCEEDED), ("b", Status.FAILED), ("c", Status.CANCELLED)):
        run = world.running(name)
        world.do(message(name))
        world.do(Cancel(id=name))
        world.do(finish(run, status))
        assert world.inbox(run.pk) == [(Kind.MESSAGE, "topic", "m1")]
    stuck = world.running("d")
    world.do(stick(stuck))
    world.do(message("d"))
    world.do(Cancel(id="d"))
    assert world.inbox(stuck.pk) == [(Kind.MESSAGE, "topic", "m1")]


def test_a_run_that_has_ended_takes_no_message_but_one_that_it_has_had(world: World) -> None:
    run = world.running()
    world.do(message(message_id="taken"))
    world.do(message(message_id="unread"))
    taken = world.store.inbox("w1")[0]
    world.do(write(run, record(1, Kind.MESSAGE), consumes=(taken.id,)))
    world.do(finish(run, last_seq=1))
    assert world.do(message(message_id="taken")) == Done()
    assert world.do(message(message_id="unread")) == Done()
    answer = world.do(message(message_id="new"))
    assert isinstance(answer, Refused)
    assert answer.run is not None


def test_a_run_that_is_resumed_finds_what_nobody_took_and_hears_nothing_twice(world: World) -> None:
    run = world.running()
    world.do(message(message_id="taken"))
    world.do(message(message_id="unread"))
    taken = world.store.inbox("w1")[0]
    world.do(write(run, record(1, Kind.MESSAGE), consumes=(taken.id,)))
    world.do(finish(run, Status.FAILED, last_seq=1))
    world.do(Resume(id="run", status=Status.FAILED, last_seq=1))
    for known in ("taken", "unread"):
        world.do(message(message_id=known))
    assert [message_id for _, _, message_id in world.inbox(run.pk)] == ["unread"]


# -- before the start ------------------------------------------------------------


def new(id: str, claim_by: str | None = None) -> StartRun:
    """Make the start of a run."""
    return StartRun(run=run_row(id), claim_by=claim_by)


def early(id: str = "run", message_id: str = "m1", value: bytes = b"1") -> Send:
    """Make a message that may come before its run."""
    return Send(id=id, kind=Kind.MESSAGE, key="topic", message_id=message_id, value=value, early=True)


def test_what_comes_before_a_run_is_there_when_it_starts_in_order_and_once(world: World) -> None:
    for message_id in ("m2", "m1", "m2", "m3"):
        assert world.do(early(message_id=message_id)) == Done()
    world.do(early("another"))
    world.worker()
    answer = world.do(new("run", claim_by="w1"))
    assert isinstance(answer, Started)
    assert answer.mail
    assert [row.message_id for row in world.store.inbox("w1")] == ["m2", "m1", "m3"]
    assert world.do(early(message_id="m1")) == Done((answer.run.pk,))
    assert len(world.store.inbox("w1")) == 3


def test_it_is_there_in_whatever_way_its_run_is_started(world: World) -> None:
    world.worker()
    for name in "abcd":
        world.do(early(name))
    many = world.store.transact([new("a"), new("x"), new("b", claim_by="w1")])
    assert [getattr(answer, "mail", None) for answer in many] == [True, False, True]
    again = world.do(new("a"))
    assert isinstance(again, Started)
    both = world.store.transact([early("c", "m2"), new("c"), early("c", "m3")])
    assert isinstance(both[1], Started)
    assert [message_id for _, _, message_id in world.inbox(both[1].run.pk)] == ["m1", "m2", "m3"]


def test_a_fork_has_what_was_sent_to_its_id(world: World) -> None:
    source = world.running()
    world.do(early("fork"))
    answer = world.do(ForkRun(source=source.pk, keep=(), run=run_row("fork")))
    assert isinstance(answer, Started)
    assert world.inbox(answer.run.pk) == [(Kind.MESSAGE, "topic", "m1")]


def test_only_a_message_comes_before_its_run(world: World) -> None:
    assert isinstance(world.do(Send(id="run", kind=Kind.CANCEL, key="", message_id="m", early=True)), Refused)


def test_messages_that_nobody_has_started_a_run_for_are_listed_oldest_first(world: World) -> None:
    for run, message_id in (("b", "m1"), ("a", "m1"), ("b", "m2")):
        world.do(early(run, message_id))
        world.clock.advance(1)
    assert [row.run for row in world.store.early()] == ["b", "a", "b"]
    assert [row.run for row in world.store.early(limit=1)] == ["b"]
    (row,) = world.store.early("a")
    assert (row.key, world.clock.wall() - row.created) == ("topic", 2)
    assert world.store.early("nobody") == world.store.early("\0") == []
    world.do(new("b"))
    assert [row.run for row in world.store.early()] == ["a"]


def test_what_no_run_ever_asked_for_is_pruned(world: World) -> None:
    world.do(early("old"))
    world.clock.advance(100)
    world.do(early("new"))
    world.do(Prune(before=world.clock.wall() - 50))
    answers = [world.do(new(name)) for name in ("old", "new")]
    assert [isinstance(answer, Started) and answer.mail for answer in answers] == [False, True]
