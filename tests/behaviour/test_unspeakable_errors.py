"""An error whose text cannot be had, or be kept as it is, is an error like any other."""

from __future__ import annotations

from typing import Any

import pytest

from outlast import Happened, Retry, step, workflow
from tests.behaviour.stage import OpenApp, failure, stuck


class Unspeakable(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __str__(self) -> str:
        raise RuntimeError("no str")


class UnspeakableExit(SystemExit):
    __repr__ = Unspeakable.__repr__
    __str__ = Unspeakable.__str__


async def decide(open_app: OpenApp, call: Any) -> str:
    """Start a call whose step `pay` comes to be in doubt, decide that, and return what was said of the doubt."""
    async with open_app() as app:
        run = await app.start(call, id="one")
        info = await stuck(run)
        assert info.reason == "in_doubt"
        await app.resolve("one", "pay", Happened("receipt"), attempt=1)
        assert await run.result() == "receipt"
    return info.detail


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "thread"])
@pytest.mark.parametrize(
    "error", [Unspeakable(), UnspeakableExit(), ValueError("\0\udc80")], ids=["error", "exit", "odd"]
)
async def test_an_error_that_cannot_be_read_leaves_a_doubt_like_any_other(
    open_app: OpenApp, error: BaseException, blocking: bool
) -> None:
    @step(effect="once", name="pay")
    async def pay() -> str:
        raise error

    @step(effect="once", name="pay")
    def pay_blocking() -> str:
        raise error

    @workflow
    async def flow() -> str:
        return await (pay_blocking if blocking else pay).call()

    assert "it ended with" in await decide(open_app, flow())


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "thread"])
@pytest.mark.parametrize("error", [Unspeakable(), UnspeakableExit()], ids=["error", "exit"])
async def test_an_error_that_cannot_be_read_is_tried_again_and_fails_like_any_other(
    open_app: OpenApp, error: BaseException, blocking: bool
) -> None:
    @step(retry=Retry(attempts=2, initial=0))
    async def work() -> None:
        raise error

    @step(retry=Retry(attempts=2, initial=0))
    def work_blocking() -> None:
        raise error

    @workflow
    async def flow() -> None:
        await (work_blocking if blocking else work).call()

    async with open_app(on_event=str) as app:
        run = await app.start(flow())
        await failure(run)
        assert await run.status() == "failed"


@pytest.mark.parametrize("error", [Unspeakable(), UnspeakableExit()], ids=["error", "exit"])
async def test_a_body_may_raise_it_too(open_app: OpenApp, error: BaseException) -> None:
    @workflow
    async def flow() -> None:
        raise error

    @workflow
    def flow_blocking() -> None:
        raise error

    async with open_app(on_event=str) as app:
        for call in (flow(), flow_blocking()):
            run = await app.start(call)
            await failure(run)
            assert await run.status() == "failed"
