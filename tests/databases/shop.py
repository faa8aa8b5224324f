"""A shop's own database, and every way in which its transactions are given to Outlast."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

import outlast
from outlast.core.workflows import Workflow
from tests.support.postgres import drop, server_url

ORDERS = "CREATE TABLE orders (item text PRIMARY KEY)"


@dataclass
class Shop:
    """A database with a table of orders; `address` is its URL or path."""

    address: str

    @property
    def is_postgres(self) -> bool:
        return self.address.startswith("postgresql")

    @property
    def schema(self) -> str:
        """Return the schema that it has to itself in PostgreSQL."""
        return self.address.rpartition("%3D")[2]

    def ask(self, statement: str, *values: Any) -> list[Any]:
        """Execute a statement in a transaction of its own, whose values are written `?`; return its rows."""
        db: Any = psycopg.connect(self.address) if self.is_postgres else sqlite3.connect(self.address)
        try:
            cursor = db.execute(statement.replace("?", "%s") if self.is_postgres else statement, values)
            rows = cursor.fetchall() if cursor.description else []
            db.commit()
            return rows
        finally:
            db.close()

    def orders(self) -> list[str]:
        """Return the items that were ordered."""
        return [item for (item,) in self.ask("SELECT item FROM orders ORDER BY item")]

    def records(self) -> list[Any]:
        """Return the steps that are recorded here."""
        return self.ask("SELECT step_id, run_id FROM outlast_transactions ORDER BY created")


def new_shop(folder: Path | None) -> Shop:
    """Return a new database: a file of SQLite in this folder, else a schema of PostgreSQL."""
    if folder is None:
        schema = f"shop_{secrets.token_hex(6)}"
        with psycopg.connect(server_url(), autocommit=True) as db:
            db.execute(f"CREATE SCHEMA {schema}".encode())
        url = server_url()
        shop = Shop(f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{schema}")
    else:
        shop = Shop(str(folder / "shop.db"))
    shop.ask(ORDERS)
    return shop


def close(shop: Shop) -> None:
    """Take the database away."""
    if shop.is_postgres:
        drop(shop.schema)


@dataclass(frozen=True)
class Way:
    """One way to give a shop's transactions: the driver's object, and whether it is async."""

    name: str
    is_async: bool
    opened: Callable[[Shop], Any]

    def __repr__(self) -> str:
        return self.name


def sqlalchemy_url(shop: Shop, *, is_async: bool = False) -> str:
    """Return the URL that SQLAlchemy takes for a shop."""
    if shop.is_postgres:
        return f"postgresql+psycopg{shop.address.removeprefix('postgresql')}"
    return f"sqlite{'+aiosqlite' if is_async else ''}:///{shop.address}"


@asynccontextmanager
async def _itself(source: Any) -> AsyncIterator[Any]:
    yield source


@asynccontextmanager
async def _engine(shop: Shop) -> AsyncIterator[Any]:
    engine = create_engine(sqlalchemy_url(shop))
    yield engine
    engine.dispose()


@asynccontextmanager
async def _sessions(shop: Shop) -> AsyncIterator[Any]:
    engine = create_engine(sqlalchemy_url(shop), poolclass=NullPool)
    yield sessionmaker(engine)


@asynccontextmanager
async def _async_engine(shop: Shop) -> AsyncIterator[Any]:
    engine = create_async_engine(sqlalchemy_url(shop, is_async=True))
    yield engine
    await engine.dispose()


@asynccontextmanager
async def _async_sessions(shop: Shop) -> AsyncIterator[Any]:
    async with _async_engine(shop) as engine:
        yield async_sessionmaker(engine)


@asynccontextmanager
async def _pool(shop: Shop) -> AsyncIterator[Any]:
    with ConnectionPool(shop.address, min_size=1, open=False) as pool:
        yield pool


@asynccontextmanager
async def _async_pool(shop: Shop) -> AsyncIterator[Any]:
    async with AsyncConnectionPool(shop.address, min_size=1, open=False) as pool:
        yield pool


def _connecting(shop: Shop) -> Any:
    return lambda: psycopg.connect(shop.address) if shop.is_postgres else sqlite3.connect(shop.address)


def _async_connecting(shop: Shop) -> Any:
    async def connect() -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(shop.address)

    return connect


BOTH = (
    Way("address", False, lambda shop: _itself(shop.address)),
    Way("connect", False, lambda shop: _itself(_connecting(shop))),
    Way("engine", False, _engine),
    Way("sessions", False, _sessions),
    Way("async_engine", True, _async_engine),
    Way("async_sessions", True, _async_sessions),
)
POSTGRES = (
    *BOTH,
    Way("pool", False, _pool),
    Way("async_address", True, lambda shop: _itself(shop.address)),
    Way("async_connect", True, lambda shop: _itself(_async_connecting(shop))),
    Way("async_pool", True, _async_pool),
)
SQLITE = (*BOTH, Way("url", False, lambda shop: _itself(f"sqlite:///{shop.address}")))


def put(tx: Any, item: str) -> Any:
    """Order an item through a transaction of any driver; over an async one, return what is to be awaited."""
    return execute(tx, "INSERT INTO orders (item) VALUES (:item)", {"item": item})


def execute(tx: Any, statement: str, values: dict[str, Any] | None = None) -> Any:
    """Execute a statement in a transaction of any driver."""
    module = type(tx).__module__.partition(".")[0]
    if module == "sqlalchemy":
        return tx.execute(text(statement), values or {})
    return tx.execute(statement.replace(":item", "%(item)s") if module == "psycopg" else statement, values or {})


Body = Callable[[Any, str], Any]


def ordering(way: Way, source: Any, body: Body = put, **settings: Any) -> tuple[Any, Workflow[[str], int]]:
    """Return a transactional step `save`, which calls `body(tx, item)` and returns the item's length, and a workflow of
    it alone.
    """
    if way.is_async:

        @outlast.transaction(source, **settings)
        async def save(tx: Any, item: str) -> int:
            await body(tx, item)
            return len(item)
    else:

        @outlast.transaction(source, name="save", **settings)
        def save_now(tx: Any, item: str) -> int:
            body(tx, item)
            return len(item)

        save = save_now  # type: ignore[assignment]

    @outlast.workflow
    async def order(item: str) -> int:
        return int(await save.call(item))

    return save, order


def names(steps: Sequence[outlast.StepInfo]) -> list[str]:
    """Return the identities of steps."""
    return [each.id for each in steps]


@asynccontextmanager
async def begun(way: Way, source: Any) -> AsyncIterator[Any]:
    """Begin a transaction as the user of a driver does; it is committed unless the block raises."""
    if isinstance(source, str):
        shop = Shop(source.removeprefix("sqlite:///"))
        source = _async_connecting(shop) if way.is_async else _connecting(shop)
    if way.name.endswith("connect") or way.name.endswith("address") or way.name == "url":
        tx = await source() if way.is_async else source()
        try:
            yield tx
            await _done(tx.commit())
        finally:
            await _done(tx.close())
    elif way.is_async:
        async with source.connection() if way.name == "async_pool" else source.begin() as tx:
            yield tx
    else:
        with source.connection() if way.name == "pool" else source.begin() as tx:
            yield tx


async def _done(answer: Any) -> None:
    if answer is not None:
        await answer
