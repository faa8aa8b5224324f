"""asyncio keeps what it waits for in sets: they iterate in the same order in every replay, or are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast import NotDeterministic, step, workflow
from tests.behaviour.stage import OpenApp, Restart, failure


@step(effect="pure")
async def quote(offer: Any) -> Any:
    return offer


async def ordered(kind: str) -> list[int]:
    """Wait for eight of a kind, and return them in the order of the set."""
    loop = asyncio.get_running_loop()
    made: list[Any] = []
    for i in range(8):
        if kind == "gather":
            made.append(asyncio.gather(quote(i), quote(-i)))
        elif kind == "nested gather":
            made.append(asyncio.gather(asyncio.gather(quote(i), quote(-i)), quote(i)))
        elif kind == "empty gather":
            made.append(asyncio.gather())
        elif kind == "shield":
            made.append(asyncio.shield(asyncio.create_task(quote(i))))
        else:
            made.append(loop.create_future())
            loop.call_later(0, made[-1].set_result, i)
    if kind == "as_completed":
        await asyncio.wait(made)
        return [await each for each in asyncio.as_completed(made)]
    done, _ = await asyncio.wait(made)
    return [made.index(each) for each in done]


@pytest.mark.parametrize("kind", ["gather", "nested gather", "empty gather", "shield", "future", "as_completed"])
async def test_a_set_of_futures_has_the_same_order_after_a_restart(restart: Restart, kind: str) -> None:
    @workflow
    async def choosing() -> list[Any]:
        clutter = [object() for _ in range(len(kind) * 50)]
        before = await quote(await ordered(kind))
        await restart.point()
        del clutter
        return [before, await quote(await ordered(kind))]

    before, after = await restart.result(choosing())
    assert sorted(before) == sorted(after) == list(range(8))


async def test_a_gather_is_still_a_gather(open_app: OpenApp) -> None:
    @workflow
    async def gathering() -> list[Any]:
        offers = asyncio.gather(quote(1), asyncio.sleep(3600))
        await quote(2)
        offers.cancel()
        got = await asyncio.gather(offers, quote(3), return_exceptions=True)
        return [isinstance(got[0], asyncio.CancelledError), got[1]]

    async with open_app() as app:
        assert await (await app.start(gathering())).result() == [True, 3]


@pytest.mark.parametrize("function", ["wait", "as_completed"])
@pytest.mark.parametrize("what", ["future", "task"])
async def test_futures_made_by_hand_are_refused_where_asyncio_would_go_by_their_addresses(
    open_app: OpenApp, function: str, what: str
) -> None:
    def make() -> Any:
        return asyncio.Future() if what == "future" else asyncio.Task(quote(1))

    @workflow
    async def by_hand() -> None:
        made = [make() for _ in range(2)]
        for each in made:
            if what == "future":
                each.set_result(1)
            else:
                await each
        if function == "wait":
            await asyncio.wait(made)
        else:
            for each in asyncio.as_completed(made):
                await each

    async with open_app() as app:
        error = await failure(await app.start(by_hand()))
    assert isinstance(error, NotDeterministic)
    assert f"asyncio.{function} would take a future or task made by hand in no fixed order" in str(error)
    assert "create_future()" in str(error)


async def test_a_future_made_by_hand_that_is_awaited_is_fine(open_app: OpenApp) -> None:
    @workflow
    async def by_hand() -> Any:
        made: asyncio.Future[int] = asyncio.Future()
        asyncio.get_running_loop().call_soon(made.set_result, 5)
        done, _ = await asyncio.wait([made])
        return done.pop().result() + await made

    async with open_app() as app:
        assert await (await app.start(by_hand())).result() == 10
