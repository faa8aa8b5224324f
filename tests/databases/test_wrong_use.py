"""What cannot be a transactional step is refused where it is written, with what to write instead."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

import outlast
from outlast import WrongUse
from outlast.codec import JsonCodec, WrappedCodec
from tests.behaviour.stage import Door, OpenApp, failure
from tests.databases.shop import SQLITE, Shop, close, new_shop, ordering, put
from tests.support.postgres import server_url

ADDRESS = SQLITE[0]


async def a_sync(tx: Any) -> None: ...


def a_plain(tx: Any) -> None: ...


@pytest.mark.parametrize(
    ("source", "function", "says"),
    [
        (create_engine("sqlite:///x.db"), a_sync, "blocks, and the function is an async def"),
        ("x.db", a_sync, "blocks, and the function is an async def"),
        (create_async_engine("sqlite+aiosqlite:///x.db"), a_plain, "is async, and the function is not"),
        (42, a_plain, "42 is no source of transactions"),
        ("mysql://user:secret@host/db", a_plain, "mysql://user@host/db is no database that Outlast knows"),
        ("postgresql+psycopg://host/db", a_plain, "create_engine"),
        ("sqlite:///x.db", lambda: None, "its first argument is the open transaction"),
    ],
)
def test_what_does_not_fit_is_refused(source: Any, function: Any, says: str) -> None:
    with pytest.raises(WrongUse, match=says.replace(".", r"\.")) as refused:
        outlast.transaction(source)(function)
    assert "secret" not in str(refused.value)


def test_its_effect_cannot_be_set() -> None:
    with pytest.raises(TypeError):
        outlast.transaction("x.db", effect="once")  # type: ignore[call-arg]
    step = outlast.transaction("x.db")(a_plain)
    assert step.options(key="k", timeout=5).settings.timeout == 5
    with pytest.raises(WrongUse, match="effect= is no setting of it"):
        step.options(effect="once")


def test_it_cannot_be_a_method() -> None:
    class Orders:
        @outlast.transaction("x.db")
        def save(self, tx: Any) -> None: ...

    with pytest.raises(WrongUse, match="cannot be a method"):
        Orders().save  # noqa: B018


def test_its_face_is_that_of_its_function_without_the_transaction() -> None:
    @outlast.transaction("x.db")
    def save(tx: sqlite3.Connection, item: str, pieces: int = 1) -> int:
        """Save it."""
        return pieces

    assert save.name == save.__name__ == "save"
    assert save.__doc__ == "Save it."
    assert list(save.signature.parameters) == ["item", "pieces"]  # type: ignore[union-attr]
    assert save.returns is int
    with pytest.raises(TypeError, match="missing a required argument: 'item'"):
        save.call()


async def test_a_result_that_cannot_be_stored_leaves_nothing(shop: Shop, open_app: OpenApp) -> None:
    @outlast.transaction(shop.address)
    def save(tx: Any) -> Any:
        put(tx, "lamp")
        return threading.Lock()

    @outlast.workflow
    async def order() -> None:
        await save.call()

    async with open_app() as app:
        error = await failure(await app.start(order(), id="order-1"))
    assert isinstance(error, outlast.EncodingError)
    assert str(error).startswith("step main/save#1 of run order-1 returned what cannot be stored")
    assert shop.orders() == shop.records() == []


async def test_its_result_is_stored_as_the_codec_of_the_app_has_it(shop: Shop, open_app: OpenApp) -> None:
    codec = WrappedCodec(JsonCodec(), lambda data: b"!" + data[::-1], lambda data: data[:0:-1])
    async with open_app(codec=codec) as app:
        _, order = ordering(ADDRESS, shop.address)
        assert await (await app.start(order("a lamp post"))).result() == 11
    assert [bytes(result) for (result,) in shop.ask("SELECT result FROM outlast_transactions")] == [b"!11"]


async def test_it_is_called_as_any_step_is(shop: Shop, open_app: OpenApp) -> None:
    save, _ = ordering(ADDRESS, shop.address)

    @outlast.workflow
    def order_both() -> int:
        return int(save("lamp") + save.options(key="chair")("chair"))

    async with open_app() as app:
        assert await (await app.start(order_both(), id="both")).result() == 9
        assert await (await app.start(save.call("table"), id="alone")).result() == 5
    assert shop.records() == [("main/save#1", "both"), ("main/save[chair]", "both"), ("main/save#1", "alone")]


async def test_in_another_step_it_is_its_function_in_a_transaction(shop: Shop, open_app: OpenApp) -> None:
    save, _ = ordering(ADDRESS, shop.address)

    @outlast.step
    def outer() -> int:
        return int(save("lamp") + save("chair"))

    @outlast.workflow
    async def order() -> int:
        return await outer.call()

    async with open_app() as app:
        assert await (await app.start(order())).result() == 9
    assert shop.orders() == ["chair", "lamp"]


async def test_an_attempt_that_timed_out_commits_nothing_more(shop: Shop, open_app: OpenApp) -> None:
    door = Door()

    def waiting(tx: Any, item: str) -> None:
        put(tx, item)
        door.pass_in_thread()

    async with open_app() as app:
        _, order = ordering(ADDRESS, shop.address, waiting, timeout=0.2)
        error = await failure(await app.start(order("lamp")))
        assert isinstance(error, outlast.StepTimeout)
        door.open()
        await asyncio.to_thread(shop.ask, "INSERT INTO orders (item) VALUES ('lamp')")  # which waits for its end
    assert shop.records() == []


async def test_the_file_of_an_open_store_is_refused(open_app: OpenApp, url: str) -> None:
    async with open_app() as app:
        for source in (url, create_engine(url)):
            _, order = ordering(ADDRESS, source)
            error = await failure(await app.start(order("lamp")))
            assert "is the file of an open Outlast store" in str(error)


@pytest.fixture
def limited() -> Iterator[tuple[Shop, str]]:
    """A shop of PostgreSQL, and its address for a user who may not create tables."""
    shop = new_shop(None)
    shop.ask(f"CREATE ROLE {shop.schema}")
    shop.ask(f"GRANT USAGE ON SCHEMA {shop.schema} TO {shop.schema}")
    shop.ask(f"GRANT ALL ON orders TO {shop.schema}")
    yield shop, f"{shop.address}%20-crole%3D{shop.schema}"
    close(shop)
    with psycopg.connect(server_url(), autocommit=True) as db:
        db.execute(f"DROP ROLE {shop.schema}".encode())


async def test_who_may_not_create_tables_is_told_what_to_run(limited: tuple[Shop, str], open_app: OpenApp) -> None:
    shop, address = limited
    async with open_app() as app:
        _, order = ordering(ADDRESS, address)
        error = await failure(await app.start(order("lamp"), id="order-1"))
        assert isinstance(error, outlast.StoreError)
        said, _, statement = str(error).rpartition(": ")
        assert "table outlast_transactions is not in" in said
        shop.ask(statement)
        shop.ask(f"GRANT ALL ON outlast_transactions TO {shop.schema}")
        assert await (await app.resume("order-1")).result() == 4
    assert shop.orders() == ["lamp"]
