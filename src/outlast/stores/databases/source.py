"""What the rest knows of a user's database: where its transactions come from, and what can be done in one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import msgspec


class Dialect(msgspec.Struct, frozen=True):
    """How a database spells the types of Outlast's columns."""

    name: str
    number: str  # one that counts up by itself
    bytes: str
    moment: str


SQLITE = Dialect("sqlite", "integer", "blob", "text")
POSTGRESQL = Dialect("postgresql", "bigint GENERATED ALWAYS AS IDENTITY", "bytea", "timestamptz")
DIALECTS = {each.name: each for each in (SQLITE, POSTGRESQL)}


class Transaction(Protocol):
    """A connection of a user's database, and the transaction on it. `given` is the user's own object for it."""

    given: Any

    @property
    def dialect(self) -> Dialect: ...

    @property
    def autocommits(self) -> bool:
        """Whether none is open, and each statement would be committed by itself."""
        ...

    async def execute(self, statement: str, values: Mapping[str, Any] | None = None) -> Sequence[tuple[Any, ...]]:
        """Execute a statement, whose values are written `:name`; return its rows."""
        ...

    async def begin(self, *, write: bool) -> None:
        """Begin it. SQLite takes the write lock at once where it is to `write`: waiting later could be in vain."""
        ...

    async def flush(self) -> None:
        """Send what the user's object has only noted so far."""
        ...

    async def commit(self) -> None:
        """Commit it."""
        ...

    async def rollback(self) -> None:
        """Roll back what is open, if anything is."""
        ...


class Source(Protocol):
    """Where transactions of a user's database come from."""

    text: str
    """The database as it may be shown."""
    is_async: bool
    tables: set[str]
    """Outlast's tables that are known to be there."""

    async def acquire(self) -> Transaction:
        """Return a connection of one's own, with no transaction begun."""
        ...

    async def release(self, transaction: Transaction) -> None:
        """Give a connection back, also one that is broken."""
        ...


@asynccontextmanager
async def begun(source: Source, *, write: bool = True) -> AsyncIterator[Transaction]:
    """Begin a transaction for the block, which commits it. What it leaves open is rolled back."""
    transaction = await source.acquire()
    try:
        await transaction.begin(write=write)
        yield transaction
    finally:
        with suppress(Exception):  # what is broken cannot be rolled back, and need not be
            await transaction.rollback()
        with suppress(Exception):
            await source.release(transaction)
