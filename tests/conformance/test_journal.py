"""What is in a journal: what was written, in order, once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from outlast.core.records import Effect, Kind
from outlast.core.transitions import Status
from outlast.stores.verbs import Done, Failed, Fenced
from tests.conformance.world import World, finish, message, record, release, write


def test_a_record_comes_back_as_it_was_written(world: World) -> None:
    run = world.running()
    records = (
        record(1),
        record(2, Kind.TIMER, due=123.5, cause=1),
        record(
            3,
            Kind.ATTEMPT,
            key="main/käse#1",
            name="käse",
            ok=False,
            args=b"",
            value=b"\0\xff",
            attempt=3,
            effect=Effect.ONCE,
            started=1.25,
            ended=2.5,
            worker="w1",
            note='{"a": 1}',
        ),
        *(record(seq, kind) for seq, kind in enumerate(Kind, 4)),
    )
    assert world.do(write(run, *records)) == Done()
    (loaded,) = world.store.load([run.pk])
    assert loaded.records == records
    assert loaded.run == world.get(run.pk)
    assert all(type(have.ok) is bool and type(have.kind) is Kind for have in loaded.records)


def test_records_are_read_from_where_one_likes(world: World) -> None:
    run = world.running()
    records = [record(seq) for seq in range(1, 11)]
    world.do(write(run, *records))
    assert world.store.records(run.pk) == records
    assert world.store.records(run.pk, after=7) == records[7:]
    assert world.store.records(run.pk, after=2, limit=3) == records[2:5]
    assert world.store.records(run.pk, after=10) == []
    assert world.store.records(run.pk, limit=0) == []
    assert world.store.records(run.pk + 1) == []
    assert world.store.load([run.pk + 1]) == []


def test_many_runs_are_loaded_at_once_each_with_what_is_its_own(world: World) -> None:
    runs = [world.running(f"run-{n}") for n in range(4)]
    for run in runs[1:]:
        world.do(write(run, *(record(seq, key=f"{run.id}/{seq}") for seq in (1, 2))))
        world.do(message(run.id, f"to {run.id}"))
    asked = [runs[n].pk for n in (3, 0, 2)]
    found = world.store.load([asked[0], runs[-1].pk + 1, *asked[1:]])
    assert [loaded.run.id for loaded in found] == ["run-3", "run-0", "run-2"]
    assert [[r.key for r in loaded.records] for loaded in found] == [
        ["run-3/1", "run-3/2"], [], ["run-2/1", "run-2/2"],
    ]  # fmt: skip
    assert [[row.message_id for row in loaded.inbox] for loaded in found] == [["to run-3"], [], ["to run-2"]]
    assert world.store.load([]) == []


def test_a_record_with_other_content_under_a_taken_seq_is_refused(world: World) -> None:
    run = world.running()
    world.do(write(run, record(1, value=b"first")))
    answer = world.do(write(run, record(1, value=b"second"), record(2)))
    assert isinstance(answer, Failed)
    assert world.store.records(run.pk) == [record(1, value=b"first")]


def test_a_write_that_was_half_known_adds_the_rest(world: World) -> None:
    run = world.running()
    world.do(write(run, record(1)))
    assert world.do(write(run, record(1), record(2))) == Done()
    assert world.store.records(run.pk) == [record(1), record(2)]


@pytest.mark.parametrize("seqs", [(2,), (1, 3), (1, 2, 2, 4), (0,), (2, 1)])
def test_a_journal_gets_no_gaps(world: World, seqs: tuple[int, ...]) -> None:
    run = world.running()
    assert isinstance(world.do(write(run, *(record(seq) for seq in seqs))), Failed)
    assert world.store.records(run.pk) == []


def test_a_record_that_fails_fails_those_that_follow_and_no_other_run(world: World) -> None:
    first, second = world.running("first"), world.running("second")
    answers = world.store.transact(
        [
            write(first, record(1)),
            write(first, record(2, note="a\0b")),
            write(second, record(1)),
            write(first, record(3)),
            write(second, record(2)),
            finish(first, last_seq=3),
            finish(second, last_seq=2),
        ]
    )
    assert [type(answer) for answer in answers] == [Done, Failed, Done, Failed, Done, Failed, Done]
    assert world.store.records(first.pk) == [record(1)]
    assert world.get(first.pk).status is Status.RUNNING
    assert world.get(second.pk).status is Status.SUCCEEDED


def test_many_writes_of_many_runs_in_one_batch_keep_their_order(world: World) -> None:
    runs = [world.running(f"r{n}") for n in range(20)]
    verbs = [write(run, record(seq, value=run.id.encode())) for seq in range(1, 6) for run in runs]
    assert world.store.transact(verbs) == [Done()] * 100
    for run in runs:
        assert world.store.records(run.pk) == [record(seq, value=run.id.encode()) for seq in range(1, 6)]


def test_a_write_between_other_verbs_sees_what_came_before(world: World) -> None:
    run = world.running()
    again = replace(run, claim=run.claim + 1)
    world.start("other")
    answers = world.store.transact([write(run, record(1)), release(run), write(run, record(2)), write(run, record(1))])
    assert answers[:2] == [Done(), Done()]
    assert isinstance(answers[2], Fenced)
    assert answers[3] == Done()  # it was written when the claim still held
    world.claim("w1", limit=2)
    assert world.do(write(again, record(2), worker="w1")) == Done()


def test_a_write_deletes_the_inbox_rows_that_it_delivers_and_no_others(world: World) -> None:
    run, other = world.running(), world.running("other")
    world.do(message(message_id="m1"))
    world.do(message(message_id="m2"))
    world.do(message("other", message_id="m1"))
    rows = world.store.inbox("w1")
    world.do(write(run, record(1, Kind.MESSAGE), consumes=(rows[0].id, rows[2].id)))
    assert world.inbox(run.pk) == [(Kind.MESSAGE, "topic", "m2")]
    assert world.inbox(other.pk) == [(Kind.MESSAGE, "topic", "m1")]


def test_a_failed_write_delivers_nothing(world: World) -> None:
    run = world.running()
    world.do(message())
    (row,) = world.store.inbox("w1")
    assert isinstance(world.do(write(run, record(5), consumes=(row.id,))), Failed)
    assert world.store.inbox("w1") == [row]


def test_an_empty_batch_is_nothing(world: World) -> None:
    before = world.state()
    assert world.store.transact([]) == []
    assert world.state() == before


def test_finish_rests_on_the_last_record(world: World) -> None:
    run = world.running()
    world.do(write(run, record(1)))
    for last_seq in (0, 2):
        assert isinstance(world.do(finish(run, last_seq=last_seq)), Failed)
        assert world.get(run.pk).status is Status.RUNNING
    assert world.do(finish(run, last_seq=1)) == Done()
