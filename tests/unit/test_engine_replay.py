"""Replay: a journal brings a fresh body to where it was, event by event; what does not fit is shown from both sides."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import pytest

import outlast
from outlast.core.errors import DecodingError, EncodingError, StepError
from outlast.core.records import Fork, Record
from tests.support.plain_codec import Boom, PlainCodec
from tests.support.rig import STARTED, Rig, a_step, a_workflow

fetch = a_step("fetch", effect="pure")
save = a_step("save")
charge = a_step("charge", effect="once")
child = a_workflow("child")


# -- the order of events ------------------------------------------------------------


async def _race() -> str:
    async def run(name: str) -> str:
        await fetch(name)
        await save(name)
        return name

    tasks = [asyncio.create_task(run(name)) for name in "ab"]
    done, losers = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for loser in losers:
        loser.cancel()
    return done.pop().result()


@pytest.mark.parametrize("winner", [1, 2])
def test_a_race_ends_in_replay_as_it_ended(winner: int) -> None:
    rig = Rig(_race).begin()
    rig.finish("main.run#1/fetch#1")
    rig.finish("main.run#2/fetch#1")
    rig.finish(f"main.run#{winner}/save#1")
    assert rig.result == "ab"[winner - 1]
    rig.must_replay()


@pytest.mark.parametrize("first", ["timer", "step"])
def test_a_race_between_a_timer_and_a_step_stays_decided_though_both_happen(first: str) -> None:
    async def body() -> str:
        task, nap = asyncio.create_task(fetch()), asyncio.create_task(asyncio.sleep(2))
        done, _ = await asyncio.wait([task, nap], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(task, nap)
        return "step" if task in done else "timer"

    rig = Rig(body).begin()
    if first == "timer":
        rig.fire()
        rig.finish("main/fetch#1")
    else:
        rig.finish("main/fetch#1")
        rig.fire()
    assert rig.result == first
    rig.must_replay()


def test_an_event_meets_the_body_as_the_events_before_it_left_it() -> None:
    """A message that comes just after a step's end does not overtake it in replay."""

    async def body() -> list[str]:
        busy, seen = True, []

        async def work() -> None:
            nonlocal busy
            await fetch()
            busy = False

        async def listen() -> None:
            await child()  # stands for a message
            seen.append("refused" if busy else "taken")

        await asyncio.gather(work(), listen())
        return seen

    for order in (["fetch", "child"], ["child", "fetch"]):
        rig = Rig(body).begin()
        for name in order:
            key = {"fetch": "main.work#1/fetch#1", "child": "main.listen#1/child#1"}[name]
            rig.finish(key)
        assert rig.result == ["taken" if order[0] == "fetch" else "refused"]
        rig.must_replay()


def test_calls_start_once_the_turn_is_over_in_order_of_issue() -> None:
    async def body() -> None:
        await asyncio.gather(save(1), fetch(2), child(3))

    rig = Rig(body).begin()
    assert rig.starts == ["main/save#1", "main/fetch#1", "main/child#1"]
    rig.finish("main/fetch#1")
    assert rig.replay().starts == ["main/save#1", "main/child#1"]  # what has no outcome, and only that


def test_nothing_starts_while_a_journal_is_replayed() -> None:
    async def body() -> None:
        for _ in range(3):
            await save()

    rig = Rig(body).begin()
    for n in (1, 2):
        rig.finish(f"main/save#{n}")
    again = Rig(body, rig.records)
    assert again.engine.take_starts() == []
    assert again.begin().starts == ["main/save#3"]


# -- what is recorded beside events ---------------------------------------------------------


def test_failed_attempts_survive_a_crash_with_their_count_and_due_time() -> None:
    async def body() -> None:
        await save()

    rig = Rig(body).begin()
    rig.fail_attempt("main/save#1", Boom("first"), delay=5)
    rig.now += 5
    rig.fail_attempt("main/save#1", Boom("second"), delay=10)
    assert rig.starts == ["main/save#1"] * 3
    again = rig.must_replay()
    attempts = again.engine.calls["main/save#1"].attempts
    assert [(a.attempt, a.due) for a in attempts] == [(1, STARTED + 5), (2, STARTED + 15)]
    assert again.starts == ["main/save#1"]


def test_an_open_intent_is_found_again() -> None:
    async def body() -> None:
        await charge()

    rig = Rig(body).begin()
    rig.intend("main/charge#1")
    pending = rig.must_replay().engine.calls["main/charge#1"]
    assert pending.intent is not None
    assert pending.intent.attempt == 1


def test_an_intent_is_closed_by_an_outcome_or_a_failed_attempt() -> None:
    async def body() -> None:
        await charge()
        await fetch()

    rig = Rig(body).begin()
    rig.intend("main/charge#1")
    rig.fail_attempt("main/charge#1")
    assert rig.must_replay().engine.calls["main/charge#1"].intent is None
    rig.intend("main/charge#1")
    rig.finish("main/charge#1")
    assert rig.must_replay().engine.waits_for()[0].key == "main/fetch#1"


def test_a_late_outcome_is_given_to_code_that_waits_for_it_after_all() -> None:
    async def before() -> None:
        try:
            async with asyncio.timeout(1):
                await fetch()
        except TimeoutError:
            await save()

    async def after() -> Any:
        task = asyncio.create_task(fetch())
        try:
            async with asyncio.timeout(1):
                await asyncio.shield(task)
        except TimeoutError:
            return await task

    rig = Rig(before).begin()
    rig.fire()
    rig.finish("main/fetch#1", "late")
    assert rig.replay(body=after).result == "late"


# -- values and errors ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (StopIteration("7"), "builtins:StopIteration"),
        (asyncio.CancelledError("7"), "asyncio.exceptions:CancelledError"),
        (SystemExit("7"), "builtins:SystemExit"),
    ],
)
def test_a_step_may_raise_what_would_end_a_coroutine_otherwise(error: BaseException, name: str) -> None:
    async def body() -> str:
        try:
            await fetch()
        except StepError as raised:
            return f"{raised.type_name} {raised.text}"
        return "nothing"

    rig = Rig(body).begin()
    rig.finish("main/fetch#1", error=error)
    assert rig.result == f"{name} 7"
    rig.must_replay()


def test_the_text_of_a_traceback_is_the_same_in_replay() -> None:
    """Code that reports it in a step would diverge otherwise."""

    async def body() -> None:
        for name in "ab":
            task = asyncio.create_task(fetch(name))
            try:
                await asyncio.wait_for(task, 60)
            except Boom:
                await save(traceback.format_exc())

    rig = Rig(body).begin()
    for n in (1, 2):
        rig.finish(f"main/fetch#{n}", error=Boom("no"))
        rig.finish(f"main/save#{n}")
    assert rig.result is None
    rig.must_replay()


def test_an_outcome_that_cannot_be_decoded_stops_the_replay_and_names_the_record() -> None:
    async def body() -> None:
        await fetch(1)

    rig = Rig(body).begin()
    rig.finish("main/fetch#1", 5)
    records = [*rig.records[:-1], _with(rig.records[-1], value=b"{")]
    with pytest.raises(DecodingError, match=r"run run-1, #1 step main/fetch#1 \[1\]: "):
        _ = Rig(body, records).begin().outcome


def test_arguments_that_cannot_be_stored_fail_the_call_and_not_the_run() -> None:
    async def body() -> str:
        try:
            await save(object())
        except EncodingError:
            return str(await save("plain"))
        return "nothing"

    rig = Rig(body).begin()
    assert rig.starts == ["main/save#2"]
    rig.finish("main/save#2", "stored")
    assert rig.result == "stored"
    rig.must_replay()


# -- forks ----------------------------------------------------------------------------------------------


def test_the_copied_stretch_of_a_fork_draws_what_its_original_drew() -> None:
    async def body() -> list[str]:
        drawn = [outlast.uuid4().hex]
        for _ in range(3):
            await fetch()
            drawn.append(outlast.uuid4().hex)
        return drawn

    original = Rig(body).begin()
    for n in (1, 2, 3):
        original.finish(f"main/fetch#{n}")
    copied = original.records[:1]
    fork = Rig(body, copied, incarnation="of the fork", forks=(Fork(upto=1, incarnation="incarnation"),)).begin()
    for n in (2, 3):
        fork.finish(f"main/fetch#{n}")
    assert fork.result[:2] == original.result[:2]
    assert fork.result[2:] != original.result[2:]
    assert len({*fork.result, *original.result}) == 6
    fork.must_replay()


def _with(record: Record, **changes: Any) -> Record:
    fields = {name: getattr(record, name) for name in Record.__struct_fields__}
    return Record(**fields | changes)


def test_the_codec_of_these_tests_tells_live_objects_from_recorded_ones() -> None:
    codec = PlainCodec()
    assert codec.decode(codec.encode((1, {2: 3}))) == [1, {"2": 3}]
