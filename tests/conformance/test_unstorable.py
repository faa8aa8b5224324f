"""What one database cannot keep, no store takes: it fails alone, early, with its reason."""

from __future__ import annotations

import math
from typing import Any

import pytest

from outlast.core.records import Record, WorkerRow
from outlast.stores.rules import INDEXED_MAX_BYTES
from outlast.stores.verbs import Cancel, Done, Failed, Register, Resolve, Send, StartRun, Verb
from tests.conformance.world import World, finish, message, park, record, run_row, stick, write

BAD_TEXT = ["a\0b", "\ud800", "x\udfff"]
BAD_TIME = [math.nan, math.inf, -math.inf]
BAD_NUMBER = [2**63, -(2**63) - 1]


def fails(world: World, verb: Verb) -> str:
    """Apply a verb that must fail alone and change nothing; return why."""
    world.running("neighbour") if world.store.run("neighbour") is None else None
    before = world.state()
    answer = world.do(verb)
    assert isinstance(answer, Failed), answer
    assert world.state() == before
    return answer.why


RECORDS: dict[str, list[Record]] = {
    **{
        field: [record(1, **{field: text}) for text in BAD_TEXT]
        for field in ("key", "name", "note", "worker", "effect")
    },
    **{field: [record(1, **{field: time}) for time in BAD_TIME] for field in ("at", "started", "ended", "due")},
    **{field: [record(1, **{field: n}) for n in (2**63, 2**70, -1)] for field in ("attempt", "cause")},
}


@pytest.mark.parametrize("field", RECORDS)
def test_a_record_that_cannot_be_kept_fails_alone_and_says_which(world: World, field: str) -> None:
    run = world.running()
    for bad in RECORDS[field]:
        assert "record 1" in fails(world, write(run, bad))
    other = world.running("other")
    answers = world.store.transact([write(other, record(1)), write(run, RECORDS[field][0]), write(other, record(2))])
    assert [type(answer) for answer in answers] == [Done, Failed, Done]


@pytest.mark.parametrize("odd", [{"key": 5}, {"name": None}, {"note": b"x"}, {"at": "now"}, {"attempt": "1"}], ids=str)
def test_a_record_with_a_field_of_another_type_fails_alone(world: World, odd: dict[str, Any]) -> None:
    run, other = world.running("run"), world.running("other")
    answers = world.store.transact([write(other, record(1)), write(run, record(1, **odd)), write(other, record(2))])
    assert [type(answer) for answer in answers] == [Done, Failed, Done]
    assert isinstance(answers[1], Failed)
    assert "a field is of another type" in answers[1].why


@pytest.mark.parametrize("bad", BAD_TEXT)
@pytest.mark.parametrize("field", ["id", "incarnation", "workflow", "definition", "options", "parent_key", "version"])
def test_a_run_with_text_that_cannot_be_kept_is_not_started(world: World, field: str, bad: str) -> None:
    assert field in fails(world, StartRun(run=run_row(**{"id": "new"} | {field: bad})))


@pytest.mark.parametrize("due", BAD_TIME)
def test_a_run_is_not_started_at_no_time(world: World, due: float) -> None:
    assert "due" in fails(world, StartRun(run=run_row("new", due=due)))


@pytest.mark.parametrize("number", BAD_NUMBER)
def test_a_number_fits_64_bits(world: World, number: int) -> None:
    fails(world, StartRun(run=run_row("new", parent=number)))
    fails(world, Register(worker=WorkerRow(id="w9", pid=number), lease_s=1.0))


@pytest.mark.parametrize("name", ["", "x" * (INDEXED_MAX_BYTES + 1), "ä" * (INDEXED_MAX_BYTES // 2 + 1)])
def test_an_id_that_is_empty_or_too_long_is_refused(world: World, name: str) -> None:
    assert "run id" in fails(world, StartRun(run=run_row(name)))


def test_the_longest_id_is_kept(world: World) -> None:
    name = "x" * INDEXED_MAX_BYTES
    assert world.start(name).id == name
    assert world.do(message(name, message_id=name)) == Done((world.store.run(name).pk,))  # type: ignore[union-attr]


@pytest.mark.parametrize("bad", BAD_TEXT)
def test_other_verbs_with_text_that_cannot_be_kept_fail_alone(world: World, bad: str) -> None:
    run = world.running()
    verbs: list[Verb] = [
        park(run, detail=bad),
        stick(run, detail=bad),
        finish(run, culprit=bad),
        finish(run, detail=bad),
        message(message_id=bad),
        message(key=bad),
        message(id=bad),
        Cancel(id="run", by=bad),
        Cancel(id=bad),
        Resolve(id="run", key=bad, attempt=1, decision="fail"),
        Register(worker=WorkerRow(id="w9", pid=1, host=bad), lease_s=1.0),
    ]
    for verb in verbs:
        fails(world, verb)


@pytest.mark.parametrize("due", BAD_TIME)
def test_a_run_is_not_parked_until_no_time(world: World, due: float) -> None:
    fails(world, park(world.running(), due=due))


def test_any_bytes_can_be_kept(world: World) -> None:
    run = world.running(input=b"\0\xff")
    every = bytes(range(256))
    assert world.do(write(run, record(1, args=every, value=every))) == Done()
    assert world.do(finish(run, last_seq=1, result=every)) == Done()
    (loaded,) = world.store.load([run.pk])
    assert (loaded.run.input, loaded.run.result) == (b"\0\xff", every)
    assert (loaded.records[0].args, loaded.records[0].value) == (every, every)


@pytest.mark.parametrize("value", [None, b"", b"x" * 3_000_000])
def test_nothing_and_much_are_kept_apart(world: World, value: Any) -> None:
    run = world.running()
    world.do(write(run, record(1, value=value)))
    world.do(Send(id="run", kind=message().kind, key="k", message_id="m", value=value))
    (loaded,) = world.store.load([run.pk])
    assert loaded.records[0].value == value
    assert loaded.inbox[0].value == value
