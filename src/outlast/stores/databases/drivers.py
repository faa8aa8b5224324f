"""Open transactions of the drivers: sqlite3, psycopg and SQLAlchemy, blocking and async.

None of the drivers is imported here: each object comes from a driver that the user's code has imported.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from outlast.core.errors import WrongUse
from outlast.stores.databases.driving import settled
from outlast.stores.databases.source import DIALECTS, POSTGRESQL, SQLITE, Dialect, Transaction

Rows = Sequence[tuple[Any, ...]]

TAKEN = (
    "a transaction of sqlite3 (Connection), psycopg (Connection, AsyncConnection) or SQLAlchemy (Connection, Session, "
    "AsyncConnection, AsyncSession)"
)

_VALUE = re.compile(r":(\w+)")


def is_a(thing: object, module: str, *classes: str) -> bool:
    """Tell whether a thing is of one of these classes of a module, which is not imported for that."""
    found = sys.modules.get(module)
    return found is not None and any(isinstance(thing, getattr(found, name, ())) for name in classes)


def is_async_transaction(given: object) -> bool:
    """Tell whether this is an async driver's."""
    return is_a(given, "psycopg", "AsyncConnection") or is_a(
        given, "sqlalchemy.ext.asyncio", "AsyncConnection", "AsyncSession", "async_scoped_session"
    )


def transaction_of(given: object) -> Transaction:
    """Return a user's object as a transaction. Raises WrongUse."""
    if is_a(given, "sqlite3", "Connection"):
        return SqliteTransaction(given)
    if is_a(given, "psycopg", "Connection", "AsyncConnection"):
        return PsycopgTransaction(given)
    if (
        is_a(given, "sqlalchemy.engine", "Connection")
        or is_a(given, "sqlalchemy.orm", "Session", "scoped_session")
        or is_async_transaction(given)
    ):
        return SqlalchemyTransaction(given)
    raise WrongUse(f"{type(given).__module__}.{type(given).__qualname__} is no {TAKEN[2:]}")


class SqliteTransaction:
    """On a `sqlite3.Connection`."""

    dialect = SQLITE

    def __init__(self, given: Any) -> None:
        self.given = given

    @property
    def autocommits(self) -> bool:
        by_itself = self.given.isolation_level is None or getattr(self.given, "autocommit", None) is True
        return by_itself and not self.given.in_transaction

    async def execute(self, statement: str, values: Mapping[str, Any] | None = None) -> Rows:
        cursor = self.given.cursor()
        cursor.row_factory = None
        rows: Rows = cursor.execute(statement, values or {}).fetchall()
        return rows

    async def begin(self, *, write: bool) -> None:
        if getattr(self.given, "autocommit", None) is False:  # Python 3.12: it would begin without the lock
            self.given.autocommit = True
        self.given.execute("BEGIN IMMEDIATE" if write else "BEGIN")

    async def flush(self) -> None: ...

    async def commit(self) -> None:
        self.given.execute("COMMIT")

    async def rollback(self) -> None:
        if self.given.in_transaction:
            self.given.execute("ROLLBACK")


class PsycopgTransaction:
    """On a `psycopg.Connection` or `AsyncConnection`.

    It is begun as a block of psycopg's, in which a `commit()` or a `rollback()` of the user is refused by psycopg.
    """

    dialect = POSTGRESQL

    def __init__(self, given: Any) -> None:
        self.given = given
        self._block: Any = None

    @property
    def autocommits(self) -> bool:
        return bool(self.given.autocommit and self.given.info.transaction_status.name == "IDLE")

    async def execute(self, statement: str, values: Mapping[str, Any] | None = None) -> Rows:
        from psycopg.rows import tuple_row  # noqa: PLC0415 - only where psycopg is used

        cursor = self.given.cursor(row_factory=tuple_row)
        await settled(cursor.execute(_VALUE.sub(r"%(\1)s", statement), values))
        rows: Rows = await settled(cursor.fetchall()) if cursor.description is not None else ()
        await settled(cursor.close())
        return rows

    async def begin(self, *, write: bool) -> None:
        self._block = self.given.transaction()
        await settled((getattr(self._block, "__aenter__", None) or self._block.__enter__)())

    async def flush(self) -> None: ...

    async def commit(self) -> None:
        if self.given.closed:  # psycopg leaves the block of a connection that was lost without a word
            from psycopg import OperationalError  # noqa: PLC0415 - only where psycopg is used

            raise OperationalError("the connection was lost before the transaction was committed")
        await self._leave(None)

    async def rollback(self) -> None:
        from psycopg import Rollback  # noqa: PLC0415 - only where psycopg is used

        if self._block is not None:
            await self._leave(Rollback())

    async def _leave(self, error: Exception | None) -> None:
        block, self._block = self._block, None
        leave = getattr(block, "__aexit__", None) or block.__exit__
        await settled(leave(None if error is None else type(error), error, None))


class SqlalchemyTransaction:
    """On a `Connection` or `Session` of SQLAlchemy, or an async one."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self._is_session = hasattr(given, "flush")

    @property
    def autocommits(self) -> bool:
        return False  # SQLAlchemy begins one with the first statement

    @property
    def dialect(self) -> Dialect:
        bind = self.given.get_bind() if self._is_session else self.given
        dialect = DIALECTS.get(bind.dialect.name)
        if dialect is None:
            raise WrongUse(f"the database is {bind.dialect.name}, and Outlast's tables can be in PostgreSQL and SQLite")
        return dialect

    async def execute(self, statement: str, values: Mapping[str, Any] | None = None) -> Rows:
        from sqlalchemy import text  # noqa: PLC0415 - only where SQLAlchemy is used

        result = await settled(self.given.execute(text(statement), values or {}))
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else ()

    async def begin(self, *, write: bool) -> None:
        await settled(self.given.begin())
        if self.dialect is not SQLITE:
            return
        connection = await settled(self.given.connection()) if self._is_session else self.given
        raw = getattr(connection, "sync_connection", connection).connection.driver_connection
        if not raw.in_transaction:  # else a listener of the user's has begun it
            await settled(connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN"))

    async def flush(self) -> None:
        if self._is_session:
            await settled(self.given.flush())

    async def commit(self) -> None:
        await settled(self.given.commit())

    async def rollback(self) -> None:
        await settled(self.given.rollback())
