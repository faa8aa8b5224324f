"""The connection breaks around a COMMIT: what became of it is looked up, and an empty one never stands for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from outlast.stores.databases.source import POSTGRESQL
from outlast.stores.databases.tables import TRANSACTIONS
from tests.behaviour.stage import Ears, OpenApp
from tests.databases.shop import POSTGRES, Shop, Way, close, new_shop, ordering, put
from tests.support.wire import Cut, Wire


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = new_shop(None)
    yield made
    close(made)


@pytest.mark.parametrize("cut", [Cut.REQUEST_LOST, Cut.ANSWER_LOST], ids=["before", "after"])
@pytest.mark.parametrize("way", POSTGRES, ids=str)
async def test_a_commit_whose_answer_is_lost_is_looked_up(
    shop: Shop, way: Way, cut: Cut, open_app: OpenApp, ears: Ears
) -> None:
    calls: list[str] = []

    def noting(tx: Any, item: str) -> Any:
        calls.append(item)
        return put(tx, item)

    shop.ask(TRANSACTIONS.ddl(POSTGRESQL))  # so that the first COMMIT on the wire is the step's
    with Wire.to(shop.address) as wire:
        wire.cut_at(cut, b"COMMIT", new=True)
        async with way.opened(Shop(wire.url(shop.address))) as source, open_app(on_event=ears) as app:
            _, order = ordering(way, source, noting)
            assert await (await app.start(order("lamp"))).result() == 4
        assert wire.struck.is_set(), "no COMMIT was cut"
    assert len(calls) == (2 if cut is Cut.REQUEST_LOST else 1)
    assert shop.orders() == ["lamp"]
    assert len(shop.records()) == 1
    assert not ears.heard("step.failed")


@pytest.mark.parametrize("way", POSTGRES, ids=str)
async def test_a_connection_that_died_while_it_was_idle_is_replaced(
    shop: Shop, way: Way, open_app: OpenApp, ears: Ears
) -> None:
    with Wire.to(shop.address) as wire:
        async with way.opened(Shop(wire.url(shop.address))) as source, open_app(on_event=ears) as app:
            _, order = ordering(way, source)
            assert await (await app.start(order("lamp"))).result() == 4
            wire.break_all()
            assert await (await app.start(order("chair"))).result() == 5
    assert shop.orders() == ["chair", "lamp"]
    assert not ears.heard("step.failed")


@pytest.mark.parametrize("way", POSTGRES, ids=str)
async def test_a_connection_that_dies_in_the_function_is_no_empty_success(
    shop: Shop, way: Way, open_app: OpenApp, ears: Ears
) -> None:
    calls: list[str] = []

    def cut_now(tx: Any, item: str) -> None:
        calls.append(item)
        put(tx, item)
        if len(calls) == 1:
            wire.break_all()

    async def cut_later(tx: Any, item: str) -> None:
        calls.append(item)
        await put(tx, item)
        if len(calls) == 1:
            wire.break_all()

    with Wire.to(shop.address) as wire:
        async with way.opened(Shop(wire.url(shop.address))) as source, open_app(on_event=ears) as app:
            _, order = ordering(way, source, cut_later if way.is_async else cut_now)
            assert await (await app.start(order("lamp"))).result() == 4
    assert len(calls) == 2
    assert shop.orders() == ["lamp"]
    assert len(shop.records()) == 1
    assert not ears.heard("step.failed")
