"""What a run has done is undone when it fails or is cancelled: in reverse, durably, and only then."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest

import outlast
from outlast import NotResumable, Retry, RunCancelled, WrongUse, step, workflow
from tests.behaviour.flows import executed
from tests.behaviour.stage import Door, OpenApp, eventually, failure, reaches, stuck

at_work = Door()
broken: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    broken.clear()


@step
async def book(what: str) -> str:
    executed.append(f"book {what}")
    return what


@step(retry=Retry(attempts=2, initial=0.01))
async def undo(what: Any) -> None:
    executed.append(f"undo {what}")
    if str(what) in broken:
        raise ConnectionError(f"cannot undo {what}")


@step(name="undo_in_thread")
def undo_in_thread(what: str) -> None:
    executed.append(f"undo {what}")


@step(effect="once")
async def undo_once(what: str) -> None:
    executed.append(f"undo {what}")


@step
async def fail() -> None:
    raise LookupError("no seat")


@workflow
async def trip(end: str) -> str:
    outlast.compensate(undo(await book("car")))
    outlast.compensate(undo_once(await book("hotel")))
    outlast.compensate(undo_in_thread.call(await book("flight")))
    if end == "step":
        await fail()
    if end == "body":
        raise LookupError("no seat")
    if end == "unstorable":
        return object()  # type: ignore[return-value]
    if end == "cancel":
        await asyncio.sleep(3600)
    return "booked"


@workflow
def sync_trip(end: str) -> str:
    outlast.compensate(undo.call(book.call("car").result()))
    outlast.compensate(undo_in_thread.call(book.call("hotel").result()))
    if end == "fail":
        fail.call().result()
    if end == "cancel":
        outlast.sync.sleep(3600)
    return "booked"


BOOKED = ["book car", "book hotel", "book flight"]
UNDONE = [*BOOKED, "undo flight", "undo hotel", "undo car"]


async def test_a_run_that_succeeds_undoes_nothing(open_app: OpenApp) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with open_app() as app:
            run = await app.start(trip(""))
            assert await run.result() == "booked"
    assert executed == BOOKED


@pytest.mark.parametrize("end", ["step", "body", "unstorable"])
async def test_a_run_that_fails_undoes_what_it_did_the_last_first_and_keeps_its_error(
    open_app: OpenApp, end: str
) -> None:
    async with open_app() as app:
        run = await app.start(trip(end))
        error = await failure(run)
        assert isinstance(error, outlast.EncodingError if end == "unstorable" else LookupError)
        assert await run.status() == "failed"
        assert [s.id for s in await run.steps()][-3:] == [
            "main/undo_in_thread#1", "main/undo_once#1", "main/undo#1",
        ]  # fmt: skip
    assert executed == UNDONE


async def test_a_run_that_is_cancelled_undoes_what_it_did(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(trip("cancel"))
        await reaches(run, "waiting")
        await run.cancel()
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
    assert executed == UNDONE


@pytest.mark.parametrize("end", ["fail", "cancel"])
async def test_a_sync_workflow_undoes_in_the_same_way(open_app: OpenApp, end: str) -> None:
    async with open_app() as app:
        run = await app.start(sync_trip(end))
        if end == "cancel":
            await reaches(run, "waiting")
            await run.cancel()
        assert isinstance(await failure(run), LookupError if end == "fail" else RunCancelled)
        assert await (await app.start(sync_trip(""))).result() == "booked"
    booked = ["book car", "book hotel"]
    assert executed == [*booked, "undo hotel", "undo car", *booked]


@workflow
async def mutating() -> None:
    seats = ["1A"]
    outlast.compensate(undo(seats))
    seats.append("1B")
    await fail()


async def test_a_compensation_has_the_arguments_that_it_was_registered_with(open_app: OpenApp) -> None:
    async with open_app() as app:
        assert isinstance(await failure(await app.start(mutating())), LookupError)
    assert executed == ["undo ['1A']"]


async def test_one_that_fails_for_good_leaves_the_others_to_be_made_and_is_named_beside_the_error(
    open_app: OpenApp,
) -> None:
    async with open_app() as app:
        broken.append("car")
        run = await app.start(trip("step"), id="trip")
        error = await failure(run)
        assert isinstance(error, ExceptionGroup)
        assert "main/undo#1 failed, too" in error.message
        assert [type(e) for e in error.exceptions] == [LookupError, ConnectionError]
        assert executed == [*UNDONE, "undo car"]
        broken.clear()
        run = await app.resume("trip")  # it was the last: it alone is tried again
        assert isinstance(await failure(run), LookupError)
    assert executed == [*UNDONE, "undo car", "undo car"]


async def test_a_cancelled_run_whose_compensation_fails_has_failed(open_app: OpenApp) -> None:
    async with open_app() as app:
        broken.append("car")
        run = await app.start(trip("cancel"))
        await reaches(run, "waiting")
        await run.cancel()
        error = await failure(run)
        assert isinstance(error, ExceptionGroup)
        assert [type(e) for e in error.exceptions] == [RunCancelled, ConnectionError]
        assert "was cancelled" in error.message


@pytest.mark.parametrize("end", ["step", "body", "cancel"])
async def test_a_run_that_was_undone_is_not_resumed_but_forked(open_app: OpenApp, end: str) -> None:
    async with open_app() as app:
        run = await app.start(trip(end), id="trip")
        if end == "cancel":
            await reaches(run, "waiting")
            await run.cancel()
        await failure(run)
        with pytest.raises(NotResumable, match="outlast fork trip"):
            await app.resume("trip")


@step
async def slow_undo() -> None:
    executed.append("undoing")
    await at_work.passed()
    executed.append("undone")


@workflow
async def failing_slowly() -> None:
    outlast.compensate(undo("first"))
    outlast.compensate(slow_undo())
    await fail()


async def test_a_cancellation_does_not_keep_a_run_from_undoing(open_app: OpenApp) -> None:
    at_work.shut()
    async with open_app() as app:
        run = await app.start(failing_slowly())
        await eventually(lambda: "undoing" in executed)
        await run.cancel()
        at_work.open()
        assert isinstance(await failure(run), LookupError)
    assert executed == ["undoing", "undone", "undo first"]


async def test_a_restart_while_it_undoes_goes_on_where_it_was(open_app: OpenApp) -> None:
    at_work.shut()
    async with open_app() as app:
        run = await app.start(failing_slowly(), id="one")
        await eventually(lambda: "undoing" in executed)
    at_work.open()
    async with open_app() as app:
        run = await app.get("one")
        assert isinstance(await failure(run), LookupError)
    assert executed == ["undoing", "undoing", "undone", "undo first"]


@step(effect="once")
async def doubtful_undo() -> None:
    raise TimeoutError


@workflow
async def failing_in_doubt() -> None:
    outlast.compensate(undo("first"))
    outlast.compensate(doubtful_undo())
    await fail()


async def test_a_compensation_in_doubt_waits_for_a_decision_and_then_the_rest_is_undone(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(failing_in_doubt(), id="one")
        assert (await stuck(run)).reason == "in_doubt"
        assert executed == []
        await app.resolve("one", "doubtful_undo", outlast.Happened())
        assert isinstance(await failure(run), LookupError)
    assert executed == ["undo first"]


@workflow
async def busy() -> None:
    async def other() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await book("at the end")

    task = asyncio.create_task(other())
    outlast.compensate(undo("first"))
    await book("one")
    await fail()
    await task


async def test_what_else_the_body_does_is_ended_first(open_app: OpenApp) -> None:
    async with open_app() as app:
        assert isinstance(await failure(await app.start(busy())), LookupError)
    assert executed == ["book one", "book at the end", "undo first"]


@workflow
async def undoing_child() -> None:
    await undo("by a child")


@workflow
async def failing_with_child() -> None:
    outlast.compensate(undoing_child())
    await fail()


async def test_a_child_can_undo(open_app: OpenApp) -> None:
    async with open_app() as app:
        assert isinstance(await failure(await app.start(failing_with_child())), LookupError)
    assert executed == ["undo by a child"]


@workflow
async def misusing(how: str) -> None:
    call = undo("x")
    if how == "awaited":
        await call
    if how == "value":
        call.take()
        outlast.compensate("x")  # type: ignore[arg-type]
    outlast.compensate(call)


@pytest.mark.parametrize(("how", "text"), [("awaited", "was started before"), ("value", "takes a call")])
async def test_what_cannot_be_registered_is_refused(open_app: OpenApp, how: str, text: str) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse, match=text):
            await (await app.start(misusing(how))).result()


def test_it_belongs_in_a_workflow() -> None:
    with pytest.raises(WrongUse, match="belongs in a workflow"):
        outlast.compensate(undo("x"))
