"""Cancellation: what a body sees of it, and when; and that it is no outcome of a step."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast.core.records import Kind
from outlast.core.transitions import Status
from tests.support.plain_codec import Boom
from tests.support.rig import Rig, a_step, a_workflow

fetch = a_step("fetch", effect="pure")
save = a_step("save")
charge = a_step("charge", effect="once")
child = a_workflow("child")


def test_a_cancelled_body_sees_cancelled_error_where_it_waits_and_cleans_up_with_steps() -> None:
    async def body() -> None:
        try:
            await fetch()
        except asyncio.CancelledError:
            await save("undo")
            raise

    rig = Rig(body).begin()
    rig.cancel()
    assert rig.given_up == ["main/fetch#1"]
    assert rig.waiting == ["main/save#1"]
    rig.finish("main/save#1")
    assert rig.must_replay().outcome == rig.outcome
    assert rig.outcome is not None
    assert rig.outcome.status is Status.CANCELLED


def test_a_body_that_goes_on_after_a_cancellation_succeeds() -> None:
    async def body() -> str:
        try:
            await fetch()
        except asyncio.CancelledError:
            return "saved what there was"
        return "all"

    rig = Rig(body).begin()
    rig.cancel()
    assert rig.result == "saved what there was"


def test_cancelled_error_that_nobody_asked_for_is_a_failure() -> None:
    async def body() -> None:
        raise asyncio.CancelledError

    with pytest.raises(Exception, match="though nobody cancelled"):
        _ = Rig(body).begin().result


def test_a_cancelled_step_leaves_no_record() -> None:
    async def body() -> None:
        await fetch()

    rig = Rig(body).begin()
    rig.cancel()
    assert [record.kind for record in rig.records] == [Kind.CANCEL]


def test_a_call_cancelled_in_the_turn_that_issued_it_never_starts() -> None:
    async def body() -> None:
        task = asyncio.create_task(fetch())
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # it is issued by now
        task.cancel()
        await save()

    rig = Rig(body).begin()
    assert rig.starts == ["main/save#1"]


def test_the_late_outcome_of_a_step_is_a_record_and_no_event() -> None:
    async def body() -> Any:
        try:
            async with asyncio.timeout(1):
                await fetch()
        except TimeoutError:
            return await save()

    rig = Rig(body).begin()
    rig.fire()
    before = rig.engine.loop.now
    rig.now += 5
    rig.finish("main/fetch#1", "too late")
    assert rig.records[-1].kind is Kind.LATE
    assert rig.engine.loop.now == before  # the body's time did not move
    rig.finish("main/save#1", "saved")
    assert rig.result == "saved"
    rig.must_replay()


@pytest.mark.parametrize("error", [None, Boom("declined")])
def test_a_once_step_whose_intent_is_written_ends_before_the_cancellation_is_delivered(error: Exception | None) -> None:
    seen = []

    async def body() -> None:
        try:
            await charge(5)
        except BaseException as raised:
            seen.append(type(raised))
            raise

    rig = Rig(body).begin()
    rig.intend("main/charge#1")
    rig.cancel()
    assert rig.waiting == ["main/charge#1"]
    assert rig.given_up == []
    assert seen == []
    rig.finish("main/charge#1", "receipt", error)
    assert seen == [asyncio.CancelledError]
    assert [record.kind for record in rig.records] == [Kind.INTENT, Kind.CANCEL, Kind.STEP]
    rig.must_replay()


def test_a_once_step_without_an_intent_is_given_up_at_once() -> None:
    async def body() -> None:
        await charge(5)

    rig = Rig(body).begin()
    rig.cancel()
    assert rig.given_up == ["main/charge#1"]
    assert rig.outcome is not None


def test_when_an_attempt_turns_out_not_to_have_happened_the_cancellation_takes_its_place() -> None:
    async def body() -> None:
        await charge(5)

    rig = Rig(body).begin()
    rig.intend("main/charge#1")
    rig.cancel()
    rig.fail_attempt("main/charge#1", Boom("no connection"))
    assert rig.outcome is not None
    assert rig.outcome.status is Status.CANCELLED
    assert rig.starts == ["main/charge#1"]  # not a second time
    rig.must_replay()


def test_a_timeout_around_a_once_step_waits_for_its_outcome_too() -> None:
    async def body() -> str:
        try:
            async with asyncio.timeout(1):
                return str(await charge(5))
        except TimeoutError:
            return "timed out"

    rig = Rig(body).begin()
    rig.intend("main/charge#1")
    rig.fire()
    assert rig.outcome is None
    rig.finish("main/charge#1", "receipt")
    assert rig.result == "timed out"
    rig.must_replay()


@pytest.mark.parametrize("error", [None, Boom("declined")])
def test_wait_for_waits_for_the_outcome_of_a_once_step(error: Exception | None) -> None:
    async def body() -> str:
        try:
            return str(await asyncio.wait_for(charge(5), 1))
        except TimeoutError:
            return "timed out"

    rig = Rig(body).begin()
    rig.intend("main/charge#1")
    rig.fire()
    rig.finish("main/charge#1", "receipt", error)
    assert rig.result == "timed out"
    rig.must_replay()


def test_a_failing_sibling_waits_for_a_once_step_of_its_group() -> None:
    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(charge(5))
            group.create_task(fetch())

    rig = Rig(body).begin()
    rig.intend("main/charge#1")
    rig.finish("main/fetch#1", error=Boom("sibling"))
    assert rig.outcome is None
    rig.finish("main/charge#1", "receipt")
    with pytest.raises(ExceptionGroup) as raised:
        _ = rig.result
    assert [str(error) for error in raised.value.exceptions] == ["sibling"]
    rig.must_replay()


def test_a_cancellation_keeps_its_message() -> None:
    async def body() -> tuple[Any, ...]:
        task = asyncio.create_task(charge(5))
        await fetch()
        task.cancel("by scope 7")  # how anyio knows its own cancellations
        try:
            await task
        except asyncio.CancelledError as error:
            return error.args
        return ()

    for outcome in ("finished", "not happened"):
        rig = Rig(body).begin()
        rig.intend("main/charge#1")
        rig.finish("main/fetch#1")
        if outcome == "finished":
            rig.finish("main/charge#1", "receipt")
        else:
            rig.fail_attempt("main/charge#1")
        assert rig.result == ("by scope 7",)


def test_shield_keeps_a_step_going() -> None:
    async def body() -> Any:
        task = asyncio.create_task(fetch())
        try:
            async with asyncio.timeout(1):
                await asyncio.shield(task)
        except TimeoutError:
            return await task

    rig = Rig(body).begin()
    rig.fire()
    assert rig.given_up == []
    rig.finish("main/fetch#1", "kept")
    assert rig.result == "kept"
    rig.must_replay()


def test_a_child_that_nobody_waits_for_any_more_is_given_up() -> None:
    async def body() -> None:
        async with asyncio.timeout(1):
            await child()

    rig = Rig(body).begin()
    rig.fire()
    assert rig.given_up == ["main/child#1"]


def test_the_outcome_that_comes_first_wins_over_the_cancellation_that_comes_next() -> None:
    async def body() -> list[Any]:
        got = [await fetch()]
        try:
            await fetch()
        except asyncio.CancelledError:
            got.append("cancelled")
        return got

    rig = Rig(body).begin()
    rig.finish("main/fetch#1", 1)
    rig.cancel()
    assert rig.result == [1, "cancelled"]
    rig.must_replay()


def test_a_cancellation_reaches_tasks_that_outlive_the_body() -> None:
    async def stubborn() -> None:
        try:
            await fetch()
        except asyncio.CancelledError:
            await asyncio.Event().wait()  # nothing will ever set it

    async def body() -> str:
        task = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        return f"left {task.get_name()} behind"

    rig = Rig(body).begin()
    assert rig.outcome is None
    rig.cancel()
    assert rig.result == "left main.stubborn#1 behind"
    rig.must_replay()
