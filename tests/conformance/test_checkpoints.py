"""Checkpoints of threads: who may put one, what stays of values, and that no filter is ever read as SQL."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast.stores.checkpoint_verbs import (
    ChannelValue,
    CheckpointFilter,
    CheckpointRow,
    CopyThread,
    DeleteThread,
    NoCheckpoint,
    PartsMissing,
    PendingWrite,
    PruneThread,
    PutCheckpoint,
    PutWrites,
    Superseded,
)
from outlast.stores.verbs import Done, Failed, Fenced, Refused
from tests.conformance.world import World, by_owner, finish, release, take_over

HOSTILE = (
    "a') OR 1=1 --", "a' OR '1'='1", '"', "'", "%", "_", "$.source", "source.x", "$", "?", "%s", "{}", "[0]", "",
    "id", "thread", "data) FROM runs; DROP TABLE checkpoints; --", "a\0b", "\ud800", "\u202e",
)  # fmt: skip


def put(id: str, parent: str | None = None, thread: str = "t", ns: str = "", **fields: Any) -> PutCheckpoint:
    """Return a checkpoint that has to follow its parent, of a channel `x` at a version of its own."""
    row = CheckpointRow(thread=thread, ns=ns, id=id, parent=parent, versions=(("x", id),), **fields)
    return PutCheckpoint(checkpoint=row, values=(ChannelValue("x", id, "text", id.encode()),), follows=True)


def writes(checkpoint: str, *some: PendingWrite, **fields: Any) -> PutWrites:
    return PutWrites(thread="t", ns="", checkpoint=checkpoint, writes=some, **fields)


def ids(world: World, **wanted: Any) -> list[str]:
    return [found.checkpoint.id for found in world.store.checkpoints(CheckpointFilter(**wanted))]


def test_of_two_that_follow_one_checkpoint_the_second_is_told(world: World) -> None:
    assert world.do(put("c1")) == Done()
    assert world.do(put("mine", "c1")) == Done()
    assert world.do(put("yours", "c1")) == Superseded("mine")
    assert world.do(put("first")) == Superseded("mine")
    assert ids(world) == ["mine", "c1"]


def test_the_head_is_what_was_put_last_whatever_the_ids_say(world: World) -> None:
    """Ids have the time of a machine in them; another one's clock may be behind."""
    world.do(put("9"))
    world.do(put("1", "9"))
    head = world.store.checkpoint("t", "")
    assert head is not None
    assert head.checkpoint.id == "1"
    assert ids(world, thread="t", before="1") == ["9"]


def test_a_checkpoint_that_is_put_again_keeps_its_place(world: World) -> None:
    world.do(put("c1"))
    world.do(put("c2", "c1"))
    assert world.do(put("c1")) == Done()
    assert ids(world) == ["c2", "c1"]


def test_a_thread_of_a_run_is_written_by_that_run_alone(world: World) -> None:
    run = world.running("t")
    own = by_owner(run)
    refused = world.do(put("c1"))
    assert isinstance(refused, Refused)
    assert "'t'" in refused.why
    assert world.do(PutCheckpoint(checkpoint=put("c1").checkpoint, **own)) == Done()
    assert isinstance(world.do(writes("c1", PendingWrite("a", 0, "x", "", b""))), Refused)
    assert world.do(writes("c1", PendingWrite("a", 0, "x", "", b""), **own)) == Done()
    assert isinstance(world.do(CopyThread(source="u", target="t")), Refused)
    world.do(finish(run))
    assert world.do(put("c2", "c1")) == Done()


def test_a_worker_that_was_taken_over_puts_nothing(world: World) -> None:
    run = world.running("t")
    fields = by_owner(run)
    world.do(PutCheckpoint(checkpoint=put("c1").checkpoint, **fields))
    world.worker("w2")
    world.do(take_over())
    late = PutCheckpoint(checkpoint=put("c2", "c1").checkpoint, **fields)
    assert isinstance(world.do(late), Fenced)
    assert isinstance(world.do(writes("c1", PendingWrite("a", 0, "x", "", b""), **fields)), Fenced)
    assert ids(world) == ["c1"]


def test_what_was_put_before_the_run_was_handed_back_is_answered_again(world: World) -> None:
    run = world.running("t")
    first = PutCheckpoint(checkpoint=put("c1").checkpoint, **by_owner(run))
    then = writes("c1", PendingWrite("a", 0, "x", "", b""), **by_owner(run))
    assert world.store.transact([first, then, release(run)]) == [Done(), Done(), Done()]
    assert world.store.transact([first, then]) == [Done(), Done()]


def test_writes_that_come_after_their_thread_was_deleted_leave_nothing(world: World) -> None:
    world.do(put("c1"))
    world.do(DeleteThread(thread="t"))
    assert world.do(writes("c1", PendingWrite("a", 0, "x", "", b"1"))) == NoCheckpoint()
    assert world.do(put("c2", "c1")) == Superseded(None)
    assert world.store.thread_sizes("t") == {}
    assert world.store.check() == []


def test_of_writes_with_one_index_the_first_stays_unless_it_is_negative(world: World) -> None:
    world.do(put("c1"))
    for data in (b"1", b"2"):
        world.do(writes("c1", PendingWrite("a", 0, "x", "", data), PendingWrite("a", -3, "x", "", data)))
    found = world.store.checkpoint("t", "", "c1")
    assert found is not None
    assert [(write.idx, write.data) for write in found.writes] == [(-3, b"2"), (0, b"1")]


def test_writes_come_by_their_paths(world: World) -> None:
    world.do(put("c1"))
    for task, path in (("a", "2"), ("b", "1"), ("c", "10")):
        world.do(writes("c1", PendingWrite(task, 1, "x", "", b"", path), PendingWrite(task, 0, "x", "", b"", path)))
    found = world.store.checkpoint("t", "", "c1")
    assert found is not None
    assert [(write.task, write.idx) for write in found.writes] == [(t, i) for t in "bca" for i in (0, 1)]


def test_parts_are_stored_once_and_stay_as_long_as_a_value_has_them(world: World) -> None:
    parts = ("#1", "#2")
    row = CheckpointRow(thread="t", ns="", id="c1", versions=(("x", "1"),))
    value = ChannelValue("x", "1", "list", b"", parts)
    assert world.do(PutCheckpoint(checkpoint=row, values=(value,))) == PartsMissing((("x", "#1"), ("x", "#2")))
    given = tuple(ChannelValue("x", part, "", part.encode() * 50) for part in parts)
    assert world.do(PutCheckpoint(checkpoint=row, values=(value, *given))) == Done()
    later = CheckpointRow(thread="t", ns="", id="c2", parent="c1", versions=(("x", "2"),))
    assert world.do(PutCheckpoint(checkpoint=later, values=(ChannelValue("x", "2", "list", b"", ("#2",)),))) == Done()
    assert world.store.thread_sizes("t") == {"x": 200}
    world.do(PruneThread(thread="t", drop=(("", "c1"),)))
    assert world.store.thread_sizes("t") == {"x": 100}
    found = world.store.checkpoint("t", "")
    assert found is not None
    assert [value.version for value in found.values] == ["2", "#2"]


def test_a_copy_has_all_and_is_made_once(world: World) -> None:
    world.do(put("c1"))
    world.do(put("c2", "c1"))
    world.do(writes("c2", PendingWrite("a", 0, "x", "", b"1")))
    for _ in range(2):
        assert world.do(CopyThread(source="t", target="u")) == Done()
    mine, copied = (world.store.checkpoints(CheckpointFilter(thread=thread)) for thread in "tu")
    assert [(c.checkpoint.id, c.values, c.writes) for c in copied] == [
        (c.checkpoint.id, c.values, c.writes) for c in mine
    ]
    world.do(put("c3", "c2", thread="u"))
    assert isinstance(world.do(CopyThread(source="t", target="u")), Refused)


def test_names_that_no_index_can_hold_are_refused_alone(world: World) -> None:
    long = "x" * 3000
    answers = world.store.transact([put(long), put("c1"), put("c2", "c1", ns="a\0b")])
    assert [type(answer) for answer in answers] == [Failed, Done, Failed]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_filter_is_never_read_as_sql(world: World, text: str) -> None:
    """Of another thread nothing is found by any name, value, id or namespace, and the tables stay."""
    world.do(put("c1", labels=(("source", '"loop"'),)))
    for wanted in ({"labels": ((text, "x"),)}, {"labels": (("source", text),)}, {"id": text}, {"thread": text}):
        assert ids(world, **wanted) == []
    assert ids(world, before=text) == (["c1"] if text > "c1" else []) or not text.isascii() or "\0" in text
    assert ids(world, labels=((text, None),)) in ([], ["c1"])
    assert ids(world, labels=(("source", '"loop"'),)) == ["c1"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(max_size=12) | st.sampled_from(HOSTILE), text=st.text(max_size=12) | st.sampled_from(HOSTILE))
def test_a_label_is_found_by_its_own_name_and_text_and_by_no_other(world: World, name: str, text: str) -> None:
    world.do(DeleteThread(thread="t"))
    answer = world.do(put("c1", labels=((name, text),)))
    other = ids(world, thread="t", labels=((name, text + "'"),)) + ids(world, thread="t", labels=((name + "'", text),))
    assert other == []
    assert ids(world, thread="t", labels=((name, text),)) == (["c1"] if answer == Done() else [])
