"""From what a user gives to where transactions come from."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

from outlast.core.errors import WrongUse
from outlast.stores.databases.drivers import SqlalchemyTransaction, is_a, is_async_transaction, transaction_of
from outlast.stores.databases.driving import settled
from outlast.stores.databases.source import Source, Transaction
from outlast.stores.open import path_of, shown

BUSY_S = 5.0

BLOCKING = (
    "a SQLAlchemy Engine or sessionmaker, a psycopg_pool.ConnectionPool, 'postgresql://user@host/database', "
    "'sqlite:///file.db', or a function that returns a new connection"
)
ASYNC = (
    "a SQLAlchemy AsyncEngine or async_sessionmaker, a psycopg_pool.AsyncConnectionPool, "
    "'postgresql://user@host/database', or an async function that returns a new connection"
)


def source_of(given: Any, *, is_async: bool | None = None) -> Source:
    """Return where the transactions of a user's database come from.

    `is_async` asks for an async or a blocking driver; None takes either. Raises WrongUse for what is no source, or is
    one of the other kind.
    """
    source = _recognised(given, is_async)
    if is_async is not None and source.is_async is not is_async:
        raise WrongUse(
            f"{source.text} is async, and the function is not: make it an async def, or give {BLOCKING}"
            if source.is_async
            else f"{source.text} blocks, and the function is an async def: make it a plain def, which runs in a "
            f"thread, or give {ASYNC}"
        )
    return source


def _recognised(given: Any, is_async: bool | None) -> Source:
    if isinstance(given, str | os.PathLike):
        return _of_address(os.fspath(given), is_async=is_async is True)
    if is_a(given, "psycopg_pool", "ConnectionPool", "AsyncConnectionPool"):
        return PoolSource(given)
    if is_a(given, "sqlalchemy.engine", "Engine") or is_a(given, "sqlalchemy.ext.asyncio", "AsyncEngine"):
        return SqlalchemySource(given, given.connect)
    if is_a(given, "sqlalchemy.orm", "sessionmaker") or is_a(given, "sqlalchemy.ext.asyncio", "async_sessionmaker"):
        return SqlalchemySource(given.kw.get("bind"), given)
    if callable(given) and not isinstance(given, type):
        name = getattr(given, "__qualname__", type(given).__qualname__)
        return ConnectSource(
            given, f"what {name}() connects to", inspect.iscoroutinefunction(given) or is_async is True
        )
    raise WrongUse(f"{given!r} is no source of transactions; that is {BLOCKING}; for an async def: {ASYNC}")


def _of_address(address: str, *, is_async: bool) -> Source:
    scheme, separator, _ = address.partition("://")
    if not separator or scheme == "sqlite":
        return SqliteSource(os.path.abspath(path_of(address)))  # noqa: PTH100 - as stores do it
    if scheme not in ("postgresql", "postgres"):
        hint = "; give SQLAlchemy's URL to create_engine(...), and the engine here" if "+" in scheme else ""
        raise WrongUse(f"{shown(address)} is no database that Outlast knows by its URL{hint}")
    try:
        import psycopg  # noqa: PLC0415 - only where it is used
    except ImportError as error:  # or it has found no libpq
        raise WrongUse(f"{shown(address)} needs psycopg ({error}): pip install 'outlast[postgres]'") from error
    connect = psycopg.AsyncConnection.connect if is_async else psycopg.connect
    return ConnectSource(lambda: connect(address), shown(address), is_async)


class ConnectSource:
    """A new connection for each transaction, closed after it."""

    def __init__(self, connect: Callable[[], Any], text: str, is_async: bool) -> None:
        self.text = text
        self.is_async = is_async
        self.tables: set[str] = set()
        self._connect = connect

    async def acquire(self) -> Transaction:
        given = self._connect()
        if inspect.isawaitable(given) and not self.is_async:
            getattr(given, "close", lambda: None)()
            raise WrongUse(f"{self.text}: its connection is to be awaited, and the function is no async def")
        given = await settled(given)
        transaction = transaction_of(given)
        if is_async_transaction(given) is not self.is_async:
            await settled(given.close())
            kind = "an async one" if self.is_async else "a blocking one"
            raise WrongUse(f"{self.text}: {type(given).__qualname__} was returned where {kind} is needed")
        return transaction

    async def release(self, transaction: Transaction) -> None:
        await settled(transaction.given.close())


class SqliteSource(ConnectSource):
    """A file of SQLite."""

    def __init__(self, path: str) -> None:
        super().__init__(self._open, path, is_async=False)

    def _open(self) -> Any:
        import sqlite3  # noqa: PLC0415 - only where it is used

        refuse_store(self.text)
        return sqlite3.connect(self.text, timeout=BUSY_S, isolation_level=None)


class PoolSource:
    """A pool of psycopg."""

    def __init__(self, pool: Any) -> None:
        self.text = f"the database of pool {pool.name}"
        self.is_async = is_a(pool, "psycopg_pool", "AsyncConnectionPool")
        self.tables: set[str] = set()
        self._pool = pool

    async def acquire(self) -> Transaction:
        return transaction_of(await settled(self._pool.getconn()))

    async def release(self, transaction: Transaction) -> None:
        await settled(self._pool.putconn(transaction.given))


class SqlalchemySource:
    """An engine of SQLAlchemy, or a maker of sessions."""

    def __init__(self, engine: Any, make: Callable[[], Any]) -> None:
        url = getattr(engine, "url", None)
        self.text = "the database of a sessionmaker" if url is None else url.render_as_string(hide_password=True)
        self.is_async = is_a(engine, "sqlalchemy.ext.asyncio", "AsyncEngine") or is_a(
            make, "sqlalchemy.ext.asyncio", "async_sessionmaker"
        )
        self.tables: set[str] = set()
        self._file = url.database if url is not None and url.get_backend_name() == "sqlite" else None
        self._make = make

    async def acquire(self) -> Transaction:
        if self._file:
            refuse_store(self._file)
        given = self._make()
        return SqlalchemyTransaction(await given if is_a(given, "sqlalchemy.ext.asyncio", "AsyncConnection") else given)

    async def release(self, transaction: Transaction) -> None:
        await settled(transaction.given.close())


def refuse_store(path: str) -> None:
    """Refuse a file that is open as a store in this process. Raises WrongUse.

    Stores bring a SQLite library of their own. Two libraries in one process on one file take each other's locks away,
    and what they commit could be lost.
    """
    from outlast.stores.sqlite.connections import is_open_here  # noqa: PLC0415 - only where there is a file

    if is_open_here(path):
        raise WrongUse(
            f"{path} is the file of an open Outlast store, and your own tables cannot be in it, too: in one process "
            "two SQLite libraries would take each other's locks away. Use a file of its own for them"
        )
