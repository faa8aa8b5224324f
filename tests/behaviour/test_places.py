"""Every way in which a step or a run can end frees its place, its thread and those who wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import outlast
from outlast import Retry, step, workflow
from tests.behaviour.stage import OpenApp, stuck

ONE_PLACE = {"max_steps": 1, "worker_concurrency": 1, "max_threads": 1}


@step
async def add_one(n: int) -> int:
    return n + 1


@step
def add_ten(n: int) -> int:
    return n + 10


@workflow
async def add_both(n: int) -> int:
    return await add_ten.call(await add_one(n))


@step
async def fail() -> None:
    raise ValueError("no")


@step
def fail_blocking() -> None:
    raise ValueError("no")


@step(timeout=0.01)
async def take_too_long() -> None:
    await asyncio.sleep(3600)


@step(timeout=0.01)
def take_too_long_blocking() -> None:
    threading.Event().wait(0.05)


@step
async def return_what_cannot_be_stored() -> object:
    return object()


@step
async def cancel_itself() -> None:
    raise asyncio.CancelledError


@step
async def exit_the_process() -> None:
    raise SystemExit


@step
async def never_end() -> None:
    await asyncio.Event().wait()


@step(retry=Retry(attempts=2, initial=3600))
async def wait_for_a_retry() -> None:
    raise ConnectionError


@step(effect="once")
async def be_in_doubt() -> None:
    raise ConnectionError


@step(effect="once", timeout=0.01)
async def be_in_doubt_by_time() -> None:
    await asyncio.sleep(3600)


@step(effect="once", timeout=0.01)
def be_in_doubt_in_a_thread() -> None:
    threading.Event().wait(0.05)


@step(effect="once", definite=ValueError)
async def be_refused() -> None:
    raise ValueError("no")


async def give_up(*calls: Awaitable[Any]) -> None:
    """Give up what runs, and what waits behind it for the one place."""
    try:
        async with asyncio.timeout(0.01):
            await asyncio.gather(*calls)
    except TimeoutError:
        return


async def leave_behind() -> None:
    left = [asyncio.create_task(never_end()), asyncio.create_task(add_both.fn(1))]
    await asyncio.sleep(0.01)
    del left


async def cancel_the_body() -> None:
    raise asyncio.CancelledError


async def spin() -> None:
    while True:  # noqa: ASYNC110
        await asyncio.sleep(0)


@workflow
async def fail_in_a_child() -> None:
    await fail()


@workflow
async def wait_in_a_child() -> None:
    await never_end()


ENDS: dict[str, Callable[[], Awaitable[Any]]] = {
    "it fails": fail,
    "it fails in a thread": fail_blocking.call,
    "it takes too long": take_too_long,
    "it takes too long in a thread": take_too_long_blocking.call,
    "its result cannot be stored": return_what_cannot_be_stored,
    "it cancels itself": cancel_itself,
    "it exits": exit_the_process,
    "it is refused": be_refused,
    "it is given up": lambda: give_up(never_end()),
    "it is given up in a thread": lambda: give_up(take_too_long_blocking.call()),
    "it is given up with others behind it": lambda: give_up(never_end(), add_one(1), add_ten.call(1)),
    "it is given up before a retry": lambda: give_up(wait_for_a_retry()),
    "it is left behind": leave_behind,
    "a child fails": fail_in_a_child,
    "a child that waits is given up": lambda: give_up(wait_in_a_child()),
    "the body cancels itself": cancel_the_body,
    "the body spins": spin,
    "the body raises": lambda: asyncio.wait_for(asyncio.Event().wait(), 0.01),
}


@pytest.mark.parametrize("end", ENDS)
async def test_whatever_ends_frees_its_place(open_app: OpenApp, end: str) -> None:
    @workflow
    async def flow() -> Any:
        return await ENDS[end]()

    async with open_app(**ONE_PLACE) as app:
        run = await app.start(flow())
        others = [await app.start(add_both(n)) for n in range(3)]
        assert await asyncio.gather(*(other.result() for other in others)) == [11, 12, 13]
        await asyncio.gather(run.result(), return_exceptions=True)
        assert await run.status() in ("succeeded", "failed")
        assert await (await app.start(add_both(3))).result() == 14


DOUBTS = {"by an error": be_in_doubt, "by time": be_in_doubt_by_time, "in a thread": be_in_doubt_in_a_thread.call}


@pytest.mark.parametrize("doubt", DOUBTS)
async def test_what_is_in_doubt_holds_no_place(open_app: OpenApp, doubt: str) -> None:
    @workflow
    async def flow() -> Any:
        return await DOUBTS[doubt]()

    async with open_app(**ONE_PLACE) as app:
        run = await app.start(flow())
        assert (await stuck(run)).reason == "in_doubt"
        assert await (await app.start(add_both(0))).result() == 11
        await run.cancel()
        with pytest.raises(outlast.RunCancelled):
            await run.result()


async def test_what_waits_for_a_retry_holds_no_place(open_app: OpenApp) -> None:
    @workflow
    async def flow() -> None:
        await wait_for_a_retry()

    async with open_app(**ONE_PLACE) as app:
        run = await app.start(flow())
        others = [await app.start(add_both(n)) for n in range(3)]
        assert await asyncio.gather(*(other.result() for other in others)) == [11, 12, 13]
        assert await run.status() in ("running", "waiting")
        await run.cancel()
        with pytest.raises(outlast.RunCancelled):
            await run.result()


async def test_a_cancelled_run_frees_its_place_and_those_behind_it(open_app: OpenApp) -> None:
    @workflow
    async def flow() -> None:
        await asyncio.gather(never_end(), add_one(1), add_ten.call(1))

    async with open_app(**ONE_PLACE) as app:
        run = await app.start(flow())
        behind = await app.start(add_both(0))
        await run.cancel()
        with pytest.raises(outlast.RunCancelled):
            await run.result()
        assert await behind.result() == 11
