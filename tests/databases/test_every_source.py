"""A transactional step is the same over every driver: what it writes and its record are one commit, or nothing is."""

from __future__ import annotations

from typing import Any

import pytest

import outlast
from outlast import Retry
from tests.behaviour.stage import OpenApp, failure
from tests.databases.shop import Shop, Way, execute, ordering, put

Given = tuple[Shop, Way]


async def test_its_rows_and_its_record_are_committed(given: Given, open_app: OpenApp) -> None:
    shop, way = given
    async with way.opened(shop) as source, open_app() as app:
        _, order = ordering(way, source)
        assert await (await app.start(order("lamp"), id="order-1")).result() == 4
        assert await (await app.start(order("chair"), id="order-2")).result() == 5
    assert shop.orders() == ["chair", "lamp"]
    assert shop.records() == [("main/save#1", "order-1"), ("main/save#1", "order-2")]


async def test_an_error_of_its_function_leaves_nothing(given: Given, open_app: OpenApp) -> None:
    shop, way = given
    tries: list[int] = []

    def refuse_at_first(tx: Any, item: str) -> Any:
        tries.append(outlast.attempt())
        written = put(tx, item)
        if len(tries) == 1:
            if way.is_async:
                written.close()
            raise ValueError("no such item")
        return written

    async with way.opened(shop) as source, open_app() as app:
        _, order = ordering(way, source, refuse_at_first, retry=Retry(attempts=2, initial=0.001))
        assert await (await app.start(order("lamp"))).result() == 4
    assert tries == [1, 2]
    assert shop.orders() == ["lamp"]
    assert len(shop.records()) == 1


async def test_an_error_of_the_database_is_the_step_s(given: Given, open_app: OpenApp) -> None:
    shop, way = given
    shop.ask("INSERT INTO orders (item) VALUES ('lamp')")
    async with way.opened(shop) as source, open_app() as app:
        _, order = ordering(way, source)
        error = await failure(await app.start(order("lamp")))
        assert not isinstance(error, outlast.WrongUse)
        assert "unique" in str(error).lower()
    assert shop.records() == []


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
async def test_a_function_must_not_end_its_transaction(given: Given, open_app: OpenApp, end: str) -> None:
    shop, way = given

    async def end_later(tx: Any, item: str) -> None:
        await put(tx, item)
        await execute(tx, end)

    def end_now(tx: Any, item: str) -> None:
        put(tx, item)
        execute(tx, end)

    async with way.opened(shop) as source, open_app() as app:
        _, order = ordering(way, source, end_later if way.is_async else end_now)
        error = await failure(await app.start(order("lamp")))
        assert isinstance(error, outlast.WrongUse), error
        assert "ended its transaction by itself" in str(error)
    assert shop.records() == []


async def test_a_function_must_not_commit_by_its_driver(given: Given, open_app: OpenApp) -> None:
    shop, way = given

    async def commit_later(tx: Any, item: str) -> None:
        await put(tx, item)
        await tx.commit()

    def commit_now(tx: Any, item: str) -> None:
        put(tx, item)
        tx.commit()

    async with way.opened(shop) as source, open_app() as app:
        _, order = ordering(way, source, commit_later if way.is_async else commit_now)
        error = await failure(await app.start(order("lamp")))
        assert "ended its transaction by itself" in str(error) or "Explicit commit() forbidden" in str(error)
    assert shop.records() == []


async def test_outside_of_a_workflow_it_is_its_function_in_a_transaction(given: Given) -> None:
    shop, way = given
    async with way.opened(shop) as source:
        save, _ = ordering(way, source)
        assert (await save("lamp") if way.is_async else save("lamp")) == 4
        assert await save.call("chair") == 5
    assert shop.orders() == ["chair", "lamp"]
