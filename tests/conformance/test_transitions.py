"""A run changes its status only as the table of transitions says, whatever its status was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outlast.core.records import Kind, RunRow
from outlast.core.transitions import TABLE, Event, Reason, Status, after
from outlast.stores.verbs import Answer, Cancel, Fenced, Kept, Refused, Resolve, Resume, Verb
from tests.conformance.world import World, finish, message, park, record, release, stick, take_over, write

INTENT = record(1, Kind.INTENT, key="main/charge#1", attempt=1)

VERBS: dict[Event, Callable[[RunRow], Verb]] = {
    Event.PARK: lambda run: park(run, worker="w1"),
    Event.RELEASE: lambda run: release(run, worker="w1"),
    Event.SUCCEED: lambda run: finish(run, Status.SUCCEEDED, last_seq=1, worker="w1"),
    Event.FAIL: lambda run: finish(run, Status.FAILED, last_seq=1, worker="w1"),
    Event.STICK: lambda run: stick(run, Reason.UNDECODABLE, worker="w1"),
    Event.RESOLVE: lambda run: Resolve(id=run.id, key=INTENT.key, attempt=1, decision="fail"),
    Event.RESUME: lambda run: Resume(id=run.id, status=run.status, last_seq=1),
}


def in_status(world: World, status: Status) -> RunRow:
    """Return a run with an intent in its journal, brought to a status by verbs."""
    run = world.running()
    world.do(write(run, INTENT))
    match status:
        case Status.PENDING:
            world.do(release(run))
        case Status.WAITING:
            world.do(park(run))
        case Status.STUCK:
            world.do(stick(run, Reason.IN_DOUBT))
        case Status.RUNNING:
            pass
        case _:
            world.do(finish(run, status, last_seq=1))
    found = world.get(run.pk)
    assert found.status is status
    return found


def repeats(status: Status, event: Event) -> bool:
    """Whether the verb is one that brought the run where it is: then it is known again, and stands."""
    return TABLE.get((Status.RUNNING, event)) is status


@pytest.mark.parametrize("event", VERBS)
@pytest.mark.parametrize("status", Status)
def test_a_verb_follows_the_table(world: World, status: Status, event: Event) -> None:
    run = in_status(world, status)
    before = world.state()
    answer = world.do(VERBS[event](run))
    to = after(status, event)
    if to is not None:
        assert not refused(answer), answer
        assert world.get(run.pk).status is to
    else:
        assert refused(answer) or repeats(status, event)
        assert world.state() == before


def refused(answer: Answer) -> bool:
    """Whether a verb changed nothing."""
    return isinstance(answer, Refused | Fenced | Kept)


@pytest.mark.parametrize("status", Status)
def test_only_pending_and_waiting_runs_are_claimed(world: World, status: Status) -> None:
    run = in_status(world, status)
    if status is Status.WAITING:
        world.do(message())
    claimed = world.claim("w1")
    assert [row.pk for row in claimed] == ([run.pk] if after(status, Event.CLAIM) else [])


@pytest.mark.parametrize("status", Status)
def test_only_running_runs_are_taken_over(world: World, status: Status) -> None:
    run = in_status(world, status)
    world.worker("w2")
    world.do(take_over("w1"))
    assert world.get(run.pk).status is (after(status, Event.TAKE_OVER) or status)


@pytest.mark.parametrize("status", Status)
def test_a_message_wakes_who_is_not_ended(world: World, status: Status) -> None:
    run = in_status(world, status)
    answer = world.do(message())
    if after(status, Event.WAKE) is None:
        assert isinstance(answer, Refused)
        assert answer.run == run
        assert world.inbox(run.pk) == []
    else:
        assert world.get(run.pk).status is after(status, Event.WAKE)
        assert world.inbox(run.pk) == [(Kind.MESSAGE, "topic", "m1")]


@pytest.mark.parametrize("status", Status)
def test_cancel_in_each_status(world: World, status: Status) -> None:
    run = in_status(world, status)
    answer = world.do(Cancel(id="run", by="ann"))
    now = world.get(run.pk)
    match status:
        case Status.STUCK:  # nothing of it runs and nothing will: it ends here
            assert (now.status, now.detail, now.reason) == (Status.CANCELLED, "cancelled by ann", None)
        case Status.RUNNING | Status.WAITING | Status.PENDING:  # it was begun, so its own code has to clean up
            assert now.status is status
            assert world.inbox(run.pk) == [(Kind.CANCEL, "", "cancel")]
        case Status.CANCELLED:  # what was asked for is so
            assert not isinstance(answer, Refused)
            assert now == run
        case _:
            assert isinstance(answer, Refused)
            assert now == run


def test_a_run_that_was_never_claimed_is_cancelled_at_once(world: World) -> None:
    run = world.start()
    world.do(Cancel(id="run"))
    now = world.get(run.pk)
    assert (now.status, now.ended, now.due) == (Status.CANCELLED, world.clock.wall(), None)


def test_every_event_of_the_table_is_tried_here() -> None:
    elsewhere = {Event.CLAIM, Event.TAKE_OVER, Event.WAKE, Event.CANCEL, Event.EXPIRE}  # EXPIRE: test_families.py
    assert set(VERBS) | elsewhere == {event for _, event in TABLE}


def test_a_status_that_is_no_end_ends_nothing(world: World) -> None:
    run = world.running()
    assert isinstance(world.do(finish(run, Status.STUCK)), Refused)
    assert world.get(run.pk) == run
