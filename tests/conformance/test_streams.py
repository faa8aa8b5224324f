"""Streams and published values: what is written once is there once, and readers can go on from wherever they were."""

from __future__ import annotations

import random
from typing import Any

import pytest

from outlast.core.records import RunRow
from outlast.core.transitions import Reason, Status
from outlast.stores.emitted import Items, Settled, Value
from outlast.stores.verbs import Cancel, Done, Failed, Fenced, Prune, Resume, Write
from tests.conformance.world import World, by_owner, finish, record, release, stick, write

Reader = tuple[bool, list[tuple[int, Any]]]  # whether it wants what is final only, and what it has


def of_step(source: str, token: str, first: int, *items: bytes, name: str = "s") -> Items:
    """Return items that one attempt of a step wrote."""
    return Items(name=name, source=source, token=token, first=first, items=items)


def of_body(*items: bytes, name: str = "s", first: int | None = None) -> Items:
    """Return items of the body."""
    return Items(name=name, items=items, first=first)


def emit(run: RunRow, *emits: Any) -> Write:
    """Return a write without records."""
    return Write(**by_owner(run, None), emits=emits)


def entries(world: World, run: RunRow, after: int = 0, name: str = "s") -> list[tuple[int, bytes | int | None]]:
    """Return (position, item, or how far to drop back) of what stands after a position."""
    page = world.store.stream(run.pk, name, after)
    assert page is not None
    found: list[tuple[int, bytes | int | None]] = []
    for chunk in page.chunks:
        if chunk.back_to is not None:
            found.append((chunk.pos, chunk.back_to))
        found += [(pos, item) for pos, item in enumerate(chunk.items, chunk.pos) if pos > after]
    return found


def final(world: World, run: RunRow) -> int | None:
    """Return up to where the stream can no longer change."""
    page = world.store.stream(run.pk, "s")
    assert page is not None
    return page.final


def test_positions_have_no_gaps_whoever_writes(world: World) -> None:
    run = world.running()
    for turn in range(1, 4):
        world.do(write(run, record(turn), emits=(of_body(b"%d" % turn),)))
        world.do(emit(run, of_step("a", "1.1", turn - 1, b"a"), of_step("b", "1.1", 2 * turn - 2, b"b", b"b")))
    assert [position for position, _ in entries(world, run)] == list(range(1, 13))
    assert entries(world, run, after=9) == [(10, b"a"), (11, b"b"), (12, b"b")]


def test_a_stream_can_be_read_from_any_position(world: World) -> None:
    run = world.running()
    world.do(emit(run, of_step("a", "1.1", 0, *(b"%d" % n for n in range(5)))))
    world.do(emit(run, of_step("a", "1.1", 5, *(b"%d" % n for n in range(5, 9)))))
    for after in range(12):
        assert entries(world, run, after) == [(n + 1, b"%d" % n) for n in range(after, 9)]
    assert entries(world, run, name="another") == []
    assert world.store.stream(run.pk + 1, "s") is None


def test_what_is_sent_again_is_not_there_twice(world: World) -> None:
    run = world.running()
    first_turn = emit(run, of_body(b"begin", first=0), Value(name="v", value=b"1"))
    of_turn = write(run, record(1), emits=(of_body(b"turn"), of_step("a", "1.1", 0, b"x")))
    more = emit(run, of_step("a", "1.1", 1, b"y", b"z"))
    settled = emit(run, Settled(source="a", token="1.1"))
    for verb in (first_turn, of_turn, more, settled):
        assert world.do(verb) == Done()
        assert world.do(verb) == Done()
        assert world.store.transact([verb, verb]) == [Done(), Done()]
    once = [(1, b"begin"), (2, b"turn"), (3, b"x"), (4, b"y"), (5, b"z")]
    assert entries(world, run) == once
    assert world.do(finish(run, last_seq=1)) == Done()
    for verb in (first_turn, of_turn, more, settled):  # also when the worker has let go of the run since
        assert isinstance(world.do(verb), Done)
    assert entries(world, run) == once


def test_a_batch_that_overlaps_what_is_there_adds_the_rest(world: World) -> None:
    run = world.running()
    world.do(emit(run, of_step("a", "1.1", 0, b"0", b"1")))
    world.do(emit(run, of_step("a", "1.1", 0, b"0", b"1", b"2")))
    world.do(emit(run, of_body(b"f0", first=0)))
    world.do(emit(run, of_body(b"f0", b"f1", first=0)))
    assert [item for _, item in entries(world, run)] == [b"0", b"1", b"2", b"f0", b"f1"]


@pytest.mark.parametrize("how", ["released", "taken over"])
def test_who_does_not_own_the_run_writes_nothing(world: World, how: str) -> None:
    run = world.running()
    world.do(release(run))
    if how == "taken over":
        world.worker("w2")
        (run_now,) = world.claim("w2")
        assert world.do(Write(worker="w2", run=run.pk, claim=run_now.claim, emits=(Value(name="v", value=b"new"),)))
    for thing in (of_step("a", "1.1", 0, b"late"), Value(name="v", value=b"late"), of_body(b"late", first=0)):
        assert isinstance(world.do(emit(run, thing)), Fenced)
    assert entries(world, run) == []
    assert world.store.values(run.pk) == ({"v": b"new"} if how == "taken over" else {})


def test_another_attempt_of_a_step_drops_what_the_one_before_wrote(world: World) -> None:
    run = world.running()
    world.do(emit(run, of_body(b"begin", first=0), of_step("a", "1.1", 0, b"a1", b"a2")))
    world.do(emit(run, of_step("a", "2.1", 0, b"A1")))
    assert entries(world, run) == [(1, b"begin"), (4, 1), (5, b"A1")]
    assert entries(world, run, after=3) == [(4, 1), (5, b"A1")], "who has the old items is told to drop them"
    assert entries(world, run, after=4) == [(5, b"A1")]


def test_what_others_wrote_meanwhile_comes_again_behind_the_cut(world: World) -> None:
    run = world.running()
    world.do(emit(run, of_step("b", "1.1", 0, b"b1")))
    world.do(emit(run, of_step("a", "1.1", 0, b"a1")))
    world.do(emit(run, of_step("b", "1.1", 1, b"b2")))
    world.do(write(run, record(1), emits=(of_body(b"body"),)))
    world.do(emit(run, of_step("a", "1.2", 0, b"A1")))
    assert [entry for _, entry in entries(world, run)] == [b"b1", 1, b"b2", b"body", b"A1"]
    world.do(emit(run, of_step("b", "1.1", 2, b"b3")))
    world.do(emit(run, of_step("b", "2.1", 0, b"B1")))  # one cut takes the place of those after it
    assert [entry for _, entry in entries(world, run)] == [0, b"body", b"A1", b"B1"]


def test_an_outcome_settles_what_its_attempt_wrote_and_drops_the_rest(world: World) -> None:
    run = world.running()
    world.do(emit(run, of_step("a", "1.1", 0, b"a1"), of_step("b", "1.1", 0, b"b1"), of_step("c", "1.1", 0, b"c1")))
    assert final(world, run) == 0
    world.do(write(run, record(1), emits=(Settled(source="a", token="1.1"),)))
    assert final(world, run) == 1
    world.do(write(run, record(2), emits=(Settled(source="b", token="2.1"),)))  # which wrote nothing
    assert [entry for _, entry in entries(world, run)] == [b"a1", 1, b"c1"]
    world.do(write(run, record(3), emits=(Settled(source="c", token="1.1"),)))
    assert final(world, run) is None
    (row,) = world.store.streams(run.pk)
    assert (row.name, row.last, row.final) == ("s", entries(world, run)[-1][0], None)
    (loaded,) = world.store.load([run.pk])
    assert loaded.sources == (("a", True), ("c", True))


def test_a_stuck_run_that_is_cancelled_keeps_nothing_that_came_of_no_outcome(world: World) -> None:
    run = world.running()
    world.do(emit(run, of_body(b"begin", first=0), of_step("a", "1.1", 0, b"a1")))
    world.do(stick(run))
    assert [entry for _, entry in entries(world, run)] == [b"begin", b"a1"]
    world.do(Cancel(id=run.id))
    assert [entry for _, entry in entries(world, run)] == [b"begin", 1]
    assert final(world, run) is None


def test_a_resume_keeps_what_is_there_and_a_further_attempt_drops_it(world: World) -> None:
    run = world.running()
    world.do(emit(run, of_step("a", "1.1", 0, b"a1")))
    world.do(write(run, record(1, key="a"), emits=(Settled(source="a", token="1.1"),)))
    world.do(finish(run, Status.FAILED, last_seq=1))
    world.do(Resume(id=run.id, status=Status.FAILED, last_seq=1, drop=(1,)))
    assert entries(world, run) == [(1, b"a1")]
    (again,) = world.claim()
    world.do(emit(again, of_step("a", "1.2", 0, b"A1")))
    assert [entry for _, entry in entries(world, run)] == [0, b"A1"]


def test_prune_deletes_streams_and_values(world: World) -> None:
    run = world.running()
    world.do(emit(run, of_body(b"x", first=0), of_step("a", "1.1", 0, b"a"), Value(name="v", value=b"1")))
    world.do(emit(run, Settled(source="a", token="1.1")))
    world.do(finish(run))
    world.clock.advance(10)
    world.do(Prune(before=world.clock.wall()))
    assert world.store.stream(run.pk, "s") is None
    assert (world.store.streams(run.pk), world.store.values(run.pk)) == ([], {})
    again = world.start(run.id)
    assert entries(world, again) == []


def test_a_published_value_is_the_last_one(world: World) -> None:
    run = world.running()
    world.do(write(run, record(1), emits=(Value(name="a", value=b"1"), Value(name="b", value=b"2"))))
    world.do(emit(run, Value(name="a", value=b"3")))
    assert world.store.values(run.pk) == {"a": b"3", "b": b"2"}


@pytest.mark.parametrize("name", ["nul\0", "\ud800", "x" * 3000])
def test_a_name_that_no_store_can_keep_is_refused_alone(world: World, name: str) -> None:
    run = world.running()
    answers = world.store.transact(
        [
            emit(run, of_step("a", "1.1", 0, b"x")),
            emit(run, of_body(b"y", name=name)),
            emit(run, Value(name=name, value=b"y")),
            emit(run, of_step("a", "1.1", 1, b"z")),
        ]
    )
    assert [type(answer) for answer in answers] == [Done, Failed, Failed, Done]
    assert [item for _, item in entries(world, run)] == [b"x", b"z"]


def test_items_without_records_are_no_progress_of_a_run(world: World) -> None:
    run = world.running()
    world.do(emit(run, of_step("a", "1.1", 0, b"x")))
    assert world.get(run.pk).status is Status.RUNNING
    world.do(stick(run, Reason.CRASH_LOOP))
    assert world.get(run.pk).crashes == 0


@pytest.mark.parametrize("seed", range(6))
def test_readers_that_are_cut_off_anywhere_end_with_each_valid_item_once(world: World, seed: int) -> None:
    """Steps that are tried again write at the same time; readers read a little, now and then, and come back."""
    draw = random.Random(seed)
    run = world.running()
    steps = {name: [1, 0] for name in "abc"}  # by step: the attempt that is under way, and what it has written
    valid: dict[str, list[bytes]] = {name: [] for name in steps} | {"": []}
    seq = 0
    readers: list[Reader] = [(False, []) for _ in range(3)] + [(True, []) for _ in range(2)]
    for move in range(120):
        name = draw.choice([*steps, ""])
        if not name:
            seq += 1
            item = b"body%d" % move
            world.do(write(run, record(seq), emits=(of_body(item),)))
            valid[""].append(item)
        elif (state := steps.get(name)) is not None:
            act = draw.random()
            if act < 0.12:
                state[:] = [state[0] + 1, 0]  # it is tried again, which nobody sees before it writes
            elif act < 0.2:
                seq += 1
                world.do(write(run, record(seq), emits=(Settled(source=name, token=f"{state[0]}"),)))
                if not state[1]:
                    valid[name] = []
                del steps[name]
                steps[f"{name}x"] = [1, 0]
                valid[f"{name}x"] = []
            else:
                items = [b"%s%d.%d" % (name.encode(), state[0], state[1] + n) for n in range(draw.randint(1, 3))]
                world.do(emit(run, of_step(name, f"{state[0]}", state[1], *items)))
                valid[name] = (valid[name] if state[1] else []) + items
                state[1] += len(items)
        look(world, run, draw, readers)
    for name in steps:
        world.do(emit(run, Settled(source=name)))
        valid[name] = []
    look(world, run, draw, readers, to_the_end=True)
    for only_final, has in readers:
        for name, items in valid.items():
            mine = [item for _, item in has if item.startswith((name or "body").encode()) and owner(item) == name]
            assert mine == items, (only_final, name)
        assert len(has) == sum(map(len, valid.values()))


def owner(item: bytes) -> str:
    """Return which step wrote an item."""
    text = item.decode()
    return "" if text.startswith("body") else text.rstrip("0123456789.")


def look(
    world: World,
    run: RunRow,
    draw: random.Random,
    readers: list[Reader],
    *,
    to_the_end: bool = False,
) -> None:
    """Let each reader come back with the position of the last item that it has, and read a few entries."""
    for only_final, has in readers:
        page = world.store.stream(run.pk, "s")
        assert page is not None
        at = has[-1][0] if has else 0
        few = 10_000 if to_the_end else draw.randint(0, 3)
        for position, entry in entries(world, run, at)[:few]:
            if only_final and page.final is not None and position > page.final:
                break
            if isinstance(entry, int):
                assert not only_final or not [pos for pos, _ in has if pos > entry], "what is final was dropped"
                has[:] = [(pos, item) for pos, item in has if pos <= entry]
            else:
                has.append((position, entry))
