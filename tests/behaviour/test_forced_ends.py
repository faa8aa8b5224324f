"""A cancellation is sticky and can be seen; where a run does not end by it, a person ends it by force."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast
from outlast import RunCancelled, RunEnded, step, workflow
from tests.behaviour.flows import executed, note
from tests.behaviour.stage import Door, Ears, OpenApp, eventually, failure, reaches, stuck

at_work = Door()


@pytest.fixture(autouse=True)
def shut() -> None:
    at_work.shut()


@step(effect="once")
async def pay() -> None:
    executed.append("pay")
    await at_work.passed()


@step
async def work() -> None:
    executed.append("work")
    await at_work.passed()


@workflow
async def stubborn() -> None:
    outlast.compensate(note("undone"))
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            executed.append("no")


@workflow
async def working(effect: str) -> None:
    try:
        await (pay() if effect == "once" else work())
    finally:
        await note("cleaned up")


async def test_a_run_that_is_being_cancelled_says_so_and_what_it_waits_for(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(stubborn(), id="one")
        await reaches(run, "waiting")
        await run.cancel()
        await eventually(lambda: executed == ["no"])
        await reaches(run, "waiting")
        info = await run.info()
        assert info.cancelling is not None
        assert info.detail.startswith("cancelling since 20")
        assert "waits for timer" in info.detail
        assert await run.cancel(force=True) == ()
        assert isinstance(await failure(run), RunCancelled)
        info = await run.info()
        assert (info.status, info.detail, info.cancelling) == ("cancelled", "cancelled by force", None)
    assert executed == ["no"]


@pytest.mark.parametrize("effect", ["idempotent", "once"])
async def test_a_run_at_work_is_stopped_from_outside_and_names_what_may_have_happened(
    open_app: OpenApp, ears: Ears, effect: str
) -> None:
    async with open_app(on_event=ears) as app:
        run = await app.start(working(effect), id="one")
        await eventually(lambda: bool(executed))
        assert await app.cancel("one", force=True) == (("main/pay#1",) if effect == "once" else ())
        assert isinstance(await failure(run), RunCancelled)
        await eventually(lambda: not app._worker.executions)  # type: ignore[union-attr]
        at_work.open()
        assert await app.cancel("one", force=True) == (("main/pay#1",) if effect == "once" else ())
    assert executed == ["pay" if effect == "once" else "work"]


async def test_another_process_ends_it_and_its_worker_hears_of_it(open_app: OpenApp, url: str) -> None:
    async with open_app() as app, open_app(worker=False) as other:
        run = await app.start(working("idempotent"), id="one")
        await eventually(lambda: bool(executed))
        await other.cancel("one", force=True)
        assert isinstance(await failure(run), RunCancelled)
        if url.startswith("memory"):
            app._worker.look_at_owned()  # type: ignore[union-attr]
        await eventually(lambda: not app._worker.executions)  # type: ignore[union-attr]
        at_work.open()
    assert executed == ["work"]


async def test_a_stuck_or_ended_run(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(doubtful(), id="one")
        await stuck(run)
        assert await run.cancel(force=True) == ("main/fails#1",)
        done = await app.start(note(1), id="two")
        await done.result()
        with pytest.raises(RunEnded, match="cannot be cancelled"):
            await done.cancel(force=True)


@step(effect="once")
async def fails() -> None:
    raise TimeoutError


@workflow
async def doubtful() -> None:
    await fails()


@workflow
async def waiting() -> str:
    return str(await outlast.receive("go"))


@workflow
async def parent() -> Any:
    await outlast.start(waiting(), id="started")
    return await waiting.options(id="awaited")()


async def test_children_that_it_waited_for_end_with_it_and_those_it_started_go_on(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(parent(), id="parent")
        await reaches(run, "waiting")
        awaited, started = await app.get("awaited"), await app.get("started")
        await run.cancel(force=True)
        assert isinstance(await failure(awaited), RunCancelled)
        await started.send("go", "on")
        assert await started.result() == "on"


async def test_a_run_that_was_ended_by_force_can_be_resumed(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(waiting(), id="one")
        await reaches(run, "waiting")
        await run.cancel(force=True)
        run = await app.resume("one")
        await run.send("go", "on")
        assert await run.result() == "on"
