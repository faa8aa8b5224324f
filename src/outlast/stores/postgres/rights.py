"""Which rights a user lacks in a schema. PostgreSQL says of what it refuses the table, and not the right."""

from __future__ import annotations

from contextlib import suppress

import psycopg
from psycopg import errors

from outlast.core.errors import ReadOnlyStore, StoreError, StoreUnavailable
from outlast.stores.postgres.address import Address
from outlast.stores.postgres.limits import Connection
from outlast.stores.postgres.schema import TABLES

WRITING = ("INSERT", "UPDATE", "DELETE")
NEEDED = ("SELECT", *WRITING)

LACKING = (
    "SELECT c.relname, r.name FROM pg_catalog.pg_class AS c "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace CROSS JOIN unnest(%s::text[]) AS r (name) "
    "WHERE n.nspname = %s AND c.relname = ANY (%s) AND NOT pg_catalog.has_table_privilege(c.oid, r.name)"
)
USER = (
    "SELECT current_user, coalesce("
    "(SELECT pg_catalog.has_schema_privilege(oid, 'USAGE') FROM pg_catalog.pg_namespace WHERE nspname = %s), true)"
)


# A schema that may not be used is passed over, as if there were no table of that name.
REFUSED = (errors.InsufficientPrivilege, errors.UndefinedTable)


def lacking_right(db: Connection, address: Address) -> StoreError | None:
    """Return the error that says whose right to do what with which table is missing; None where none is.

    It goes away when somebody grants the right, so a worker waits for that as it waits for a database that is away.
    """
    where = address.text
    with suppress(psycopg.Error):
        ((user, may_use),) = db.execute(USER, (address.schema,)).fetchall()
        found = db.execute(LACKING, (list(NEEDED), address.schema, list(TABLES))).fetchall()
        lacking = {table: [right for right in NEEDED if (table, right) in found] for table in TABLES}
        if not may_use:
            grant = f"GRANT USAGE ON SCHEMA {address.quoted_schema} TO {_quoted(user)}"
            return StoreUnavailable(
                f"{where}: user {user} lacks USAGE of schema {address.schema}; let its owner {grant}"
            )
        if any(lacking.values()):
            rights = [right for right in NEEDED if any(right in each for each in lacking.values())]
            grant = f"GRANT {', '.join(rights)} ON ALL TABLES IN SCHEMA {address.quoted_schema} TO {_quoted(user)}"
            kind = ReadOnlyStore if "SELECT" not in rights else StoreUnavailable
            return kind(f"{where}: user {user} lacks {_listed(address.schema, lacking)}; let their owner {grant}")
    return None


def _listed(schema: str, lacking: dict[str, list[str]]) -> str:
    """Return `INSERT, UPDATE on outlast.runs, outlast.records; DELETE on ...`."""
    alike: dict[str, list[str]] = {}
    for table, rights in lacking.items():
        if rights:
            alike.setdefault(", ".join(rights), []).append(f"{schema}.{table}")
    return " and ".join(f"{rights} on {', '.join(tables)}" for rights, tables in alike.items())


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
