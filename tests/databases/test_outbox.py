"""A run that is started in the user's own transaction: it is there if that was committed, once, and not otherwise."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import outlast
from outlast import WrongUse
from outlast.codec import JsonCodec, WrappedCodec
from outlast.core.errors import RunNotFound
from tests.behaviour.stage import Ears, OpenApp, eventually
from tests.databases.shop import Shop, Way, begun, ordering, put

Given = tuple[Shop, Way]


@outlast.workflow
async def fulfil(item: str) -> str:
    return f"{item} is on its way"


@outlast.step
async def pack(item: str) -> str:
    return f"{item} is packed"


async def post(way: Way, tx: Any, *calls: Any, **ids: Any) -> list[str]:
    """Start runs in an open transaction."""
    box = outlast.outbox(tx)
    return [await box.start(call, **ids) if way.is_async else box.start(call, **ids) for call in calls]


def left(shop: Shop) -> list[Any]:
    """Return the rows of the outbox."""
    return shop.ask("SELECT run_id, refused FROM outlast_outbox ORDER BY n")


async def test_a_run_is_started_by_the_commit_and_its_row_goes(given: Given, open_app: OpenApp) -> None:
    shop, way = given
    async with way.opened(shop) as source, open_app(outbox=source) as app:
        async with begun(way, source) as tx:
            await put(tx, "lamp") if way.is_async else put(tx, "lamp")
            assert await post(way, tx, fulfil("lamp"), id="order-1") == ["order-1"]
            with pytest.raises(RunNotFound):
                await app.get("order-1")
        await eventually(lambda: left(shop) == [])
        assert await (await app.get("order-1")).result() == "lamp is on its way"
    assert shop.orders() == ["lamp"]


async def test_a_rollback_starts_nothing(given: Given, open_app: OpenApp) -> None:
    shop, way = given
    async with way.opened(shop) as source, open_app(outbox=source) as app:
        with suppress(KeyError):
            async with begun(way, source) as tx:
                await post(way, tx, fulfil("lamp"), id="order-1")
                raise KeyError
        async with begun(way, source) as tx:  # one that is found later
            await post(way, tx, fulfil("chair"), id="order-2")
        await eventually(lambda: left(shop) == [])
        assert [run.id for run in await app.runs()] == ["order-2"]


async def test_a_step_s_transaction_starts_runs_too(given: Given, open_app: OpenApp) -> None:
    shop, way = given

    async def save_later(tx: Any, item: str) -> None:
        await outlast.outbox(tx).start(fulfil(item), id=f"fulfil-{item}")

    def save_now(tx: Any, item: str) -> None:
        outlast.outbox(tx).start(fulfil(item), id=f"fulfil-{item}")

    async with way.opened(shop) as source, open_app(outbox=source) as app:
        _, order = ordering(way, source, save_later if way.is_async else save_now)
        await (await app.start(order("lamp"))).result()
        await eventually(lambda: left(shop) == [])
        assert await (await app.get("fulfil-lamp")).result() == "lamp is on its way"


async def test_many_runs_and_single_steps_are_started(shop: Shop, open_app: OpenApp) -> None:
    async with open_app(outbox=shop.address) as app:
        way = Way("address", False, lambda shop: None)
        async with begun(way, shop.address) as tx:
            ids = await post(way, tx, *(fulfil(f"lamp {n}") for n in range(250)), pack("chair"))
        await eventually(lambda: left(shop) == [])
        assert await (await app.get(ids[-1])).result() == "chair is packed"
        assert await (await app.get(ids[-2])).result() == "lamp 249 is on its way"
        assert len(set(ids)) == len(await app.runs(limit=300)) == 251


async def test_what_was_noted_while_no_worker_ran_is_started_by_the_next(shop: Shop, open_app: OpenApp) -> None:
    way = Way("address", False, lambda shop: None)
    async with open_app(worker=False, outbox=shop.address) as client:  # which makes the table
        async with begun(way, shop.address) as tx:
            await post(way, tx, fulfil("lamp"), id="order-1")
        with pytest.raises(RunNotFound):
            await client.get("order-1")
    async with open_app(outbox=shop.address) as app:
        await eventually(lambda: left(shop) == [])
        assert await (await app.get("order-1")).result() == "lamp is on its way"


async def test_an_id_that_is_taken_is_told_and_holds_up_nobody(shop: Shop, open_app: OpenApp, ears: Ears) -> None:
    way = Way("address", False, lambda shop: None)
    async with open_app(outbox=shop.address, on_event=ears) as app:
        await (await app.start(fulfil("lamp"), id="order-1")).result()
        async with begun(way, shop.address) as tx:
            await post(way, tx, fulfil("lamp"), id="order-1")  # the same call: the same run
            await post(way, tx, fulfil("chair"), id="order-1")
            await post(way, tx, fulfil("table"), id="order-2")
        told = await ears.hear("outbox.refused", run="order-1")
        await eventually(lambda: len(left(shop)) == 1)
        assert await (await app.get("order-2")).result() == "table is on its way"
        assert left(shop) == [("order-1", told.data["why"])]
        assert "exists already, with other arguments" in told.data["why"]


async def test_a_row_of_code_that_nobody_here_knows_is_started_all_the_same(shop: Shop, open_app: OpenApp) -> None:
    way = Way("address", False, lambda shop: None)
    async with open_app(outbox=shop.address) as app:
        async with begun(way, shop.address) as tx:
            await post(way, tx, fulfil("lamp"), id="order-1")
            tx.execute("UPDATE outlast_outbox SET details = replace(details, 'fulfil', 'of_another_service')")
        await eventually(lambda: left(shop) == [])
        info = await (await app.get("order-1")).info()
        assert (info.workflow, info.status) == ("of_another_service", "pending")


@pytest.mark.parametrize("spoiled", ["details = 'nonsense'", "payload = 'nonsense'", "run_id = ''"])
async def test_a_row_that_cannot_be_read_is_told_and_holds_up_nobody(
    shop: Shop, open_app: OpenApp, ears: Ears, spoiled: str
) -> None:
    way = Way("address", False, lambda shop: None)
    async with open_app(outbox=shop.address, on_event=ears) as app:
        async with begun(way, shop.address) as tx:
            await post(way, tx, fulfil("lamp"), id="order-1")
            tx.execute(f"UPDATE outlast_outbox SET {spoiled}")
            await post(way, tx, fulfil("table"), id="order-2")
        await eventually(lambda: ("order-2", None) not in left(shop))
        assert await (await app.get("order-2")).result() == "table is on its way"
        if shop.is_postgres and spoiled.startswith("payload"):  # there the text is bytes, which a run can have
            assert await (await app.get("order-1")).status() in ("pending", "running", "stuck")
        else:
            await ears.hear("outbox.refused", run=left(shop)[0][0])


async def test_arguments_are_stored_by_the_codec_that_is_given(shop: Shop, open_app: OpenApp) -> None:
    codec = WrappedCodec(JsonCodec(), lambda data: b"!" + data[::-1], lambda data: data[:0:-1])
    way = Way("address", False, lambda shop: None)
    async with open_app(outbox=shop.address, codec=codec) as app:
        async with begun(way, shop.address) as tx:
            outlast.outbox(tx, codec=codec).start(fulfil("lamp"), id="order-1")
            ((payload,),) = tx.execute("SELECT payload FROM outlast_outbox").fetchall()
            assert bytes(payload).startswith(b"!")
        await eventually(lambda: left(shop) == [])
        assert await (await app.get("order-1")).result() == "lamp is on its way"


async def test_a_database_that_is_away_is_told_once_and_waited_for(shop: Shop, open_app: OpenApp, ears: Ears) -> None:
    way = Way("address", False, lambda shop: None)
    async with open_app(outbox=shop.address, on_event=ears) as app:
        shop.ask("ALTER TABLE outlast_outbox RENAME TO away")
        await ears.hear("outbox.unavailable")
        shop.ask("ALTER TABLE away RENAME TO outlast_outbox")
        async with begun(way, shop.address) as tx:
            await post(way, tx, fulfil("lamp"), id="order-1")
        await ears.hear("outbox.back")
        await eventually(lambda: left(shop) == [])
        assert await (await app.get("order-1")).result() == "lamp is on its way"
    assert len(ears.heard("outbox.unavailable")) == 1


def test_a_missing_table_is_told_with_what_to_run(shop: Shop) -> None:
    db: Any = psycopg.connect(shop.address) if shop.is_postgres else sqlite3.connect(shop.address)
    with pytest.raises(outlast.StoreError, match="An App with outbox= creates it") as told:
        outlast.outbox(db).start(fulfil("lamp"))
    db.rollback()
    db.execute(str(told.value).partition("or run: ")[2])
    outlast.outbox(db).start(fulfil("lamp"))
    db.commit()
    db.close()
    assert len(left(shop)) == 1


def test_what_cannot_be_started_is_refused(shop: Shop) -> None:
    db: Any = psycopg.connect(shop.address) if shop.is_postgres else sqlite3.connect(shop.address)
    with pytest.raises(WrongUse, match="is no transaction of sqlite3"):
        outlast.outbox("shop.db")  # type: ignore[call-overload]
    with pytest.raises(WrongUse, match="takes the call of a workflow or step"):
        outlast.outbox(db).start(fulfil)
    with pytest.raises(outlast.EncodingError):
        outlast.outbox(db).start(fulfil(asyncio))
    db.close()
    free: Any = (
        psycopg.connect(shop.address, autocommit=True)
        if shop.is_postgres
        else sqlite3.connect(shop.address, isolation_level=None)
    )
    with pytest.raises(WrongUse, match="autocommit mode"):
        outlast.outbox(free)
    free.execute("BEGIN")
    outlast.outbox(free)
    free.close()


async def test_an_app_whose_outbox_cannot_be_reached_does_not_open(open_app: OpenApp) -> None:
    with pytest.raises(outlast.StoreUnavailable, match="cannot be reached") as told:
        async with open_app(outbox="postgresql://ann:secret@127.0.0.1:1/shop"):
            pass
    assert str(told.value).startswith("the outbox in postgresql://ann@127.0.0.1:1/shop cannot be reached")


async def test_an_outbox_in_the_store_itself_is_refused(open_app: OpenApp, url: str) -> None:
    with pytest.raises(WrongUse, match="is the file of an open Outlast store"):
        async with open_app(outbox=url):
            pass
