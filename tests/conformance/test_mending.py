"""What a person decides: resolve, resume, fork."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outlast.core.records import Fork, Kind, Record
from outlast.core.transitions import Reason, Status
from outlast.stores.verbs import Cancel, Conflict, Done, ForkRun, Refused, Resolve, Resume, Started, StartRun, Verb
from tests.conformance.world import World, finish, park, record, release, run_row, stick, write

KEY = "main/charge#1"


def intent(seq: int, attempt: int, key: str = KEY) -> Record:
    return record(seq, Kind.INTENT, key, name="charge", effect="once", attempt=attempt, due=999.0)


def decide(attempt: int = 1, decision: str = "happened", value: bytes | None = b"1", key: str = KEY) -> Resolve:
    return Resolve(id="run", key=key, attempt=attempt, decision=decision, value=value, by="ann")


def in_doubt(world: World, *records: Record) -> int:
    """Return a run that is stuck with these records."""
    run = world.running()
    assert world.do(write(run, *records)) == Done()
    world.do(stick(run, Reason.IN_DOUBT))
    return run.pk


def refused(world: World, verb: Verb) -> Refused:
    """Apply a verb that must be refused and change nothing."""
    before = world.state()
    answer = world.do(verb)
    assert isinstance(answer, Refused), answer
    assert answer.why
    assert world.state() == before
    return answer


# -- resolve -------------------------------------------------------------------


@pytest.mark.parametrize("decision", ["happened", "did_not_happen", "fail"])
def test_a_decision_is_recorded_and_the_run_goes_on(world: World, decision: str) -> None:
    pk = in_doubt(world, record(1), intent(2, 1))
    assert world.do(decide(decision=decision)) == Done((pk,))
    added = world.store.records(pk)[-1]
    assert added == record(
        3,
        Kind.RESOLUTION,
        KEY,
        at=world.clock.wall(),
        name="charge",
        ok=decision != "fail",
        value=b"1",
        attempt=1,
        effect="once",
        worker="ann",
        note=decision,
    )
    run = world.get(pk)
    assert (run.status, run.reason, run.detail, run.due) == (Status.PENDING, None, "", world.clock.wall())


def test_a_decision_never_lies_before_the_last_record(world: World) -> None:
    late = world.clock.wall() + 500
    pk = in_doubt(world, record(1, at=late), intent(2, 1), record(3, at=late + 1))
    world.do(decide())
    assert world.store.records(pk)[-1].at == late + 1


@pytest.mark.parametrize("attempt", [0, 1, 3])
def test_a_decision_holds_for_the_last_attempt_alone(world: World, attempt: int) -> None:
    in_doubt(world, intent(1, 1), record(2, Kind.ATTEMPT, KEY, attempt=1), intent(3, 2))
    refused(world, decide(attempt))


@pytest.mark.parametrize("kind", [Kind.STEP, Kind.LATE, Kind.ATTEMPT])
def test_an_attempt_with_an_outcome_is_not_in_doubt(world: World, kind: Kind) -> None:
    in_doubt(world, intent(1, 1), record(2, kind, KEY, attempt=1))
    refused(world, decide())


def test_what_became_of_another_step_or_attempt_is_no_outcome(world: World) -> None:
    pk = in_doubt(
        world,
        record(1, Kind.ATTEMPT, KEY, attempt=1),
        intent(2, 1),
        record(3, Kind.STEP, "main/other#1", attempt=1),
        record(4, Kind.STEP, KEY, attempt=0),
    )
    assert world.do(decide()) == Done((pk,))


def test_a_step_without_an_attempt_is_not_resolved(world: World) -> None:
    in_doubt(world, intent(1, 1))
    refused(world, decide(key="main/other#1"))


@pytest.mark.parametrize("reason", [Reason.DIVERGED, Reason.CRASH_LOOP, Reason.UNDECODABLE])
def test_only_a_run_in_doubt_is_resolved(world: World, reason: Reason) -> None:
    run = world.running()
    world.do(write(run, intent(1, 1)))
    world.do(stick(run, reason))
    assert refused(world, decide()).run == world.get(run.pk)


def test_the_same_decision_again_is_the_same_and_another_is_refused(world: World) -> None:
    pk = in_doubt(world, intent(1, 1))
    world.do(decide())
    refused(world, decide(decision="did_not_happen"))
    refused(world, decide(value=b"2"))
    (run,) = world.claim()
    assert world.do(decide()) == Done((pk,))
    world.do(finish(run, last_seq=2))
    assert world.do(decide()) == Done()
    assert len(world.store.records(pk)) == 2


@pytest.mark.parametrize("decision", ["", "maybe", "HAPPENED"])
def test_there_are_three_decisions(world: World, decision: str) -> None:
    in_doubt(world, intent(1, 1))
    assert "did_not_happen" in refused(world, decide(decision=decision)).why


def test_nobody_is_not_resolved(world: World) -> None:
    refused(world, decide())


# -- resume --------------------------------------------------------------------

ENDS: dict[str, tuple[Status, Callable[..., Verb]]] = {
    "failed": (Status.FAILED, lambda run: finish(run, Status.FAILED, last_seq=3, culprit="main/step#3", detail="x")),
    "cancelled": (Status.CANCELLED, lambda run: finish(run, Status.CANCELLED, last_seq=3)),
    "stuck": (Status.STUCK, stick),
}


@pytest.mark.parametrize("end", ENDS)
def test_resume_drops_the_end_and_the_named_records(world: World, end: str) -> None:
    status, verb = ENDS[end]
    run = world.running()
    world.do(write(run, record(1), record(2), record(3, ok=False)))
    world.do(verb(run))
    world.clock.advance(5)
    assert world.do(Resume(id="run", status=status, last_seq=3, drop=(3,))) == Done((run.pk,))
    now = world.get(run.pk)
    assert (now.status, now.due, now.reason, now.detail) == (Status.PENDING, world.clock.wall(), None, "")
    assert (now.ended, now.result, now.error, now.culprit, now.crashes) == (None, None, None, "", 0)
    assert (now.started, now.claim) == (run.started, run.claim)
    assert world.store.records(run.pk) == [record(1), record(2)]


def test_a_resume_gives_the_run_other_options_or_leaves_them(world: World) -> None:
    run = world.running()
    for last_seq, options, then in ((0, None, run.options), (0, '{"max_tokens":5}', '{"max_tokens":5}'), (0, None, "")):
        world.do(finish(world.get(run.pk), Status.FAILED, last_seq=last_seq))
        before = world.get(run.pk).options
        world.do(Resume(id="run", status=Status.FAILED, last_seq=last_seq, options=options))
        assert world.get(run.pk).options == (then or before)
        world.claim()


def test_after_a_resume_the_journal_goes_on_at_its_end(world: World) -> None:
    run = world.running()
    world.do(write(run, record(1), record(2), record(3), record(4)))
    world.do(finish(run, Status.FAILED, last_seq=4))
    world.do(Resume(id="run", status=Status.FAILED, last_seq=4, drop=(2, 4)))
    (run,) = world.claim()
    assert world.do(write(run, record(4, value=b"new"))) == Done()
    assert [row.seq for row in world.store.records(run.pk)] == [1, 3, 4]
    assert world.do(finish(run, last_seq=4)) == Done()


@pytest.mark.parametrize(("status", "last_seq"), [(Status.FAILED, 1), (Status.FAILED, 3), (Status.CANCELLED, 2)])
def test_a_resume_that_looked_at_something_else_is_refused(world: World, status: Status, last_seq: int) -> None:
    run = world.running()
    world.do(write(run, record(1), record(2)))
    world.do(finish(run, Status.FAILED, last_seq=2))
    refused(world, Resume(id="run", status=status, last_seq=last_seq))


def test_a_run_that_succeeded_is_not_resumed(world: World) -> None:
    world.put_in(Status.SUCCEEDED)
    refused(world, Resume(id="run", status=Status.SUCCEEDED, last_seq=0))


def test_a_run_is_resumed_again_when_it_fails_again(world: World) -> None:
    run = world.running()
    resume = Resume(id="run", status=Status.FAILED, last_seq=0)
    for claim in range(1, 4):
        assert run.claim == claim
        world.do(finish(run, Status.FAILED))
        assert world.do(resume) == Done((run.pk,))
        (run,) = world.claim()


def test_a_resume_sent_again_when_all_is_over_stands(world: World) -> None:
    run = world.put_in(Status.FAILED)
    resume = Resume(id="run", status=Status.FAILED, last_seq=0)
    world.do(resume)
    (run,) = world.claim()
    world.do(finish(run))
    assert world.do(resume) == Done()
    assert world.get(run.pk).status is Status.SUCCEEDED


def test_a_zombie_of_the_first_life_is_fenced_after_a_resume(world: World) -> None:
    old = world.running()
    world.do(finish(old, Status.FAILED))
    world.do(Resume(id="run", status=Status.FAILED, last_seq=0))
    (new,) = world.claim()
    for verb in (write(old, record(1)), park(old), release(old), finish(old, Status.FAILED)):
        assert type(world.do(verb)).__name__ == "Fenced"
    assert world.do(write(new, record(1))) == Done()


# -- fork ----------------------------------------------------------------------


def test_a_fork_has_the_kept_records_under_a_new_incarnation(world: World) -> None:
    source = world.running(input=b"[1]", definition="app:flow")
    world.do(write(source, record(1), record(2, Kind.INTENT), record(3), record(4)))
    world.clock.advance(5)
    row = run_row("copy", input=b"[1]", definition="app:flow", forks=(Fork(3, source.incarnation),))
    answer = world.do(ForkRun(source=source.pk, keep=(1, 3), run=row))
    assert isinstance(answer, Started)
    run = answer.run
    assert answer.created
    assert world.get(run.pk) == run
    assert (run.status, run.due, run.started, run.created) == (
        Status.PENDING,
        world.clock.wall(),
        None,
        world.clock.wall(),
    )
    assert (run.claim, run.owner, run.forks, run.incarnation) == (0, None, row.forks, row.incarnation)
    assert world.store.records(run.pk) == [record(1), record(3)]
    assert len(world.store.records(source.pk)) == 4


def test_the_cancellation_of_a_fork_that_has_not_begun_reaches_its_body(world: World) -> None:
    source = world.running()
    world.do(write(source, record(1)))
    answer = world.do(ForkRun(source=source.pk, keep=(1,), run=run_row("copy", forks=(Fork(1, source.incarnation),))))
    assert isinstance(answer, Started)
    assert world.do(Cancel(id="copy")) == Done((answer.run.pk,))
    assert world.get(answer.run.pk).status is Status.PENDING
    assert [kind for kind, _, _ in world.inbox(answer.run.pk)] == [Kind.CANCEL]


def test_a_fork_goes_on_after_its_last_record(world: World) -> None:
    source = world.running()
    world.do(write(source, record(1), record(2)))
    world.do(ForkRun(source=source.pk, keep=(1,), run=run_row("copy")))
    (run,) = world.claim()
    assert world.do(write(run, record(2, value=b"new"))) == Done()
    assert world.store.records(source.pk)[1] == record(2)


def test_a_fork_under_a_taken_id_is_a_conflict(world: World) -> None:
    source, other = world.running(), world.start("copy")
    assert world.do(ForkRun(source=source.pk, keep=(), run=run_row("copy"))) == Conflict(other)


def test_a_fork_of_records_that_are_not_there_is_refused(world: World) -> None:
    source = world.running()
    world.do(write(source, record(1)))
    refused(world, ForkRun(source=source.pk, keep=(1, 2), run=run_row("copy")))
    refused(world, ForkRun(source=source.pk + 9, keep=(), run=run_row("copy")))


def test_a_fork_is_found_again_by_the_same_call(world: World) -> None:
    source = world.running()
    answer = world.do(ForkRun(source=source.pk, keep=(), run=run_row("copy")))
    assert isinstance(answer, Started)
    assert world.do(StartRun(run=run_row("copy"))) == Started(answer.run, created=False)
