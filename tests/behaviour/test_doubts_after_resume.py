"""A run that is taken up again in doubt says what really happened, and what was decided before is not forgotten."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import outlast
from outlast import step, workflow
from tests.behaviour.stage import OpenApp, failure, stuck

results: list[Any] = []


@step(effect="once")
async def pay() -> Any:
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


@workflow
async def paying() -> Any:
    return await pay()


async def test_of_a_result_that_could_not_be_stored(open_app: OpenApp) -> None:
    results[:] = [threading.Lock()]
    async with open_app() as app:
        run = await app.start(paying())
        assert isinstance(await failure(run), outlast.EncodingError)
        await app.resume(run.id)
        info = await stuck(run)
        (shown,) = await run.steps()
    assert "(its result could not be stored: step main/pay#1" in info.detail
    assert "its worker ended" not in info.detail
    assert shown.history == (f"in doubt: {shown.note}",)


async def test_of_a_decision_to_fail(open_app: OpenApp) -> None:
    results[:] = [TimeoutError("slow")]
    async with open_app() as app:
        run = await app.start(paying())
        info = await stuck(run)
        assert "(it ended with TimeoutError: slow)" in info.detail
        await app.resolve(run.id, "pay", "fail", by="ann")
        assert isinstance(await failure(run), outlast.InDoubt)
        before = (await run.steps())[0].started
        await app.resume(run.id)
        info = await stuck(run)
        assert "(it was decided to fail by ann, and then its run was resumed)" in info.detail
    async with open_app() as app:
        run = await app.get(run.id)
        await app.resolve(run.id, "pay", outlast.Happened("paid"), attempt=1, by="bob")
        assert await run.result() == "paid"
        (shown,) = await run.steps()
    assert shown.history == (
        "in doubt: it ended with TimeoutError: slow",
        "decided: fail by ann",
        "in doubt: it was decided to fail by ann, and then its run was resumed",
        "decided: happened by bob",
    )
    assert shown.started == before
    assert shown.note == "decided: happened"


@pytest.mark.parametrize("restarted", [False, True])
async def test_of_a_cancellation(open_app: OpenApp, restarted: bool) -> None:
    results[:] = [TimeoutError("slow")]
    async with open_app() as app:
        run = await app.start(paying())
        await stuck(run)
        await run.cancel()
        if not restarted:
            await app.resume(run.id)
            info = await stuck(run)
    if restarted:
        async with open_app() as app:
            info = await stuck(await app.resume(run.id))
    assert "(it ended with TimeoutError: slow)" in info.detail
