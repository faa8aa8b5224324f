"""Outlast's tables in a user's database: made when they are first needed, by whoever is first."""

from __future__ import annotations

import msgspec

from outlast.core.errors import StoreError
from outlast.stores.databases import faults
from outlast.stores.databases.source import Dialect, Source, begun


class Table(msgspec.Struct, frozen=True):
    """A table. In `columns` types that databases spell differently stand as `{bytes}`, `{moment}` and `{number}`."""

    name: str
    columns: str

    def ddl(self, dialect: Dialect) -> str:
        """Return the statement that creates it."""
        columns = self.columns.format(bytes=dialect.bytes, moment=dialect.moment, number=dialect.number)
        return f"CREATE TABLE IF NOT EXISTS {self.name} ({columns})"

    async def ensure(self, source: Source) -> None:
        """See to it that the table is there. Raises StoreError, with what to run, when it cannot be created."""
        if self.name in source.tables:
            return
        if not await self._is_there(source):
            await self._create(source)
        source.tables.add(self.name)

    async def _is_there(self, source: Source) -> bool:
        try:
            async with begun(source, write=False) as transaction:
                await transaction.execute(f"SELECT 1 FROM {self.name} WHERE 1 = 0")
        except Exception as error:
            if faults.is_no_table(error):
                return False
            raise
        return True

    async def _create(self, source: Source) -> None:
        statement = ""
        try:
            async with begun(source) as transaction:
                statement = self.ddl(transaction.dialect)
                await transaction.execute(statement)
                await transaction.commit()
        except Exception as error:
            if faults.passes(error):
                raise
            if not await self._is_there(source):  # "if not exists" does not keep two at once from colliding
                raise StoreError(
                    f"table {self.name} is not in {source.text}, and could not be created there ({error}). Have a user "
                    f"who may create tables run this, and grant this one its use: {statement}"
                ) from error


TRANSACTIONS = Table(
    "outlast_transactions",
    "key text PRIMARY KEY, run_id text NOT NULL, step_id text NOT NULL, result {bytes} NOT NULL, "
    "created {moment} NOT NULL DEFAULT CURRENT_TIMESTAMP",
)
OUTBOX = Table(
    "outlast_outbox",
    "n {number} PRIMARY KEY, kind text NOT NULL, run_id text NOT NULL, details text NOT NULL, "
    "payload {bytes} NOT NULL, refused text, created {moment} NOT NULL DEFAULT CURRENT_TIMESTAMP",
)
