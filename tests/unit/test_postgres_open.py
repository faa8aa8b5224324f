"""What a person is told of a database that cannot serve, and how tables come to one that can."""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from outlast.core.errors import NotAStore, ReadOnlyStore, StoreUnavailable, WrongUse
from outlast.runtime.clock import SystemClock
from outlast.stores.open import open_store, shown
from outlast.stores.postgres import PostgresStore, schema
from outlast.stores.postgres.address import parse
from outlast.stores.verbs import Started, StartRun
from tests.conformance.world import run_row
from tests.support.postgres import drop, server_url, with_schema

PRESENT = len(schema.MIGRATIONS)
OPTION_READ_ONLY = "options=-c%20default_transaction_read_only%3Don"


def execute(statement: str) -> None:
    with psycopg.connect(server_url(), autocommit=True) as db:
        db.execute(statement.encode())


@pytest.fixture
def name() -> Iterator[str]:
    """Return the name of a schema that is not there."""
    made = f"test_{secrets.token_hex(6)}"
    yield made
    drop(made)


def opened(url: str, **settings: bool) -> PostgresStore:
    return PostgresStore(url, SystemClock(), **settings)


# -- URLs --------------------------------------------------------------------------


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [m for m in sys.modules if m.startswith("outlast.stores.postgres")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(WrongUse, match=r"pip install 'outlast\[postgres\]'") as told:
        open_store("postgresql://ann:secret@db/agents", SystemClock())
    assert "secret" not in str(told.value)


def test_the_schema_is_taken_from_the_url_and_the_rest_is_libpqs() -> None:
    address = parse("postgresql://ann:secret@db:5433/agents?schema=team%20a&sslmode=require&application_name=mine")
    assert address.schema == "team a"
    assert address.libpq["sslmode"] == "require"
    assert (address.libpq["application_name"], address.libpq["connect_timeout"]) == ("mine", 10)
    assert address.text == "postgresql://ann@db:5433/agents?schema=team%20a"
    assert parse("postgres:///agents").schema == "outlast"


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("postgresql://ann:secret@db/agents", "postgresql://ann@db/agents"),
        ("postgresql://db/a?user=ann&password=secret&schema=x", "postgresql://db/a?user=ann&schema=x"),
        ("sqlite:///a@b:c.db", "sqlite:///a@b:c.db"),
        ("./agent.db", "./agent.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, seen: str) -> None:
    assert shown(url) == seen


# -- servers that cannot serve ---------------------------------------------------


def test_a_server_that_is_away_is_named_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="postgresql://ann@/agents") as told:
        opened(f"postgresql://ann:secret@/agents?host={tmp_path}")
    assert "secret" not in str(told.value)


def test_a_database_that_is_missing_is_named() -> None:
    place, mark, options = server_url().partition("?")
    missing = f"{place.rpartition('/')[0]}/no_such_database{mark}{options}"
    with pytest.raises(StoreUnavailable, match="no_such_database: there is no such database"):
        opened(missing)


def test_a_wrong_password_is_called_one(request: pytest.FixtureRequest) -> None:
    with psycopg.connect(server_url(), autocommit=True) as db:
        ((hba,),) = db.execute("SELECT current_setting('hba_file')").fetchall()
        file = Path(hba)
        try:
            before = file.read_text()
        except OSError:
            pytest.skip("who may connect to this server cannot be set from here")
        db.execute("DROP ROLE IF EXISTS outlast_locked")
        db.execute("CREATE ROLE outlast_locked LOGIN PASSWORD 'right'")
        file.write_text(f"local all outlast_locked scram-sha-256\nhost all outlast_locked all scram-sha-256\n{before}")
        request.addfinalizer(lambda: execute("DROP ROLE outlast_locked"))
        request.addfinalizer(lambda: execute("SELECT pg_reload_conf()"))
        request.addfinalizer(lambda: file.write_text(before))
        db.execute("SELECT pg_reload_conf()")
        params = psycopg.conninfo.conninfo_to_dict(server_url())
    url = f"postgresql://outlast_locked:wr0ng@/{params['dbname']}?host={params['host']}&port={params.get('port', 5432)}"
    with pytest.raises(StoreUnavailable, match="refused the user or the password") as told:
        opened(url)
    assert "wr0ng" not in str(told.value)


def test_a_read_only_server_without_tables_says_what_to_do(name: str) -> None:
    with pytest.raises(ReadOnlyStore, match="holds no Outlast store yet"):
        opened(f"{with_schema(name)}&{OPTION_READ_ONLY}")
    with pytest.raises(ReadOnlyStore, match="holds no Outlast store yet"):
        opened(with_schema(name), read_only=True)


def test_a_read_only_server_is_read_and_refuses_to_write(name: str) -> None:
    writer = opened(with_schema(name))
    writer.transact([StartRun(run=run_row("x"))])
    reader = opened(f"{with_schema(name)}&{OPTION_READ_ONLY}")
    assert reader.run("x") is not None
    with pytest.raises(ReadOnlyStore, match="read-only"):
        reader.transact([StartRun(run=run_row("y"))])
    assert writer.run("y") is None
    writer.close()
    reader.close()


def test_a_schema_of_somebody_else_is_left_alone(name: str) -> None:
    execute(f"CREATE SCHEMA {name} CREATE TABLE runs (mine text)")
    with pytest.raises(NotAStore, match=r"'runs' that is not Outlast's.*\?schema="):
        opened(with_schema(name))


def test_a_schema_of_a_newer_outlast_is_not_touched(name: str) -> None:
    opened(with_schema(name)).close()
    execute(f"UPDATE {name}.outlast_schema SET version = {PRESENT + 1}")
    with pytest.raises(NotAStore, match=f"schema version {PRESENT + 1}, made by a newer Outlast"):
        opened(with_schema(name))


# -- migrations ------------------------------------------------------------------


def test_an_older_schema_is_migrated_and_keeps_its_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(with_schema(name))
    (started,) = store.transact([StartRun(run=run_row("x"))])
    store.close()
    assert isinstance(started, Started)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE shades (name text);"))
    store = opened(with_schema(name))
    assert store.info().schema_version == PRESENT + 1
    assert store.run("x") == started.run
    store.close()


def test_a_migration_that_fails_leaves_the_schema_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(with_schema(name)).close()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE shades (name text); SELECT 1 / 0;"))
        with pytest.raises(Exception, match="division by zero"):
            opened(with_schema(name))
    store = opened(with_schema(name))
    assert store.info().schema_version == PRESENT
    store.close()


def test_ten_that_start_at_once_make_one_store(name: str) -> None:
    barrier, stores, errors = threading.Barrier(10), list[PostgresStore](), list[BaseException]()

    def start() -> None:
        barrier.wait()
        try:
            stores.append(opened(with_schema(name)))
        except BaseException as error:  # noqa: BLE001 - the test shows it
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert {store.info().schema_version for store in stores} == {PRESENT}
    for store in stores:
        store.close()


def test_two_schemas_of_a_database_know_nothing_of_each_other(name: str) -> None:
    mine, other = opened(with_schema(name)), opened(with_schema(f"{name}_2"))
    mine.transact([StartRun(run=run_row("x"))])
    assert other.run("x") is None
    assert sql.Identifier(name).as_string() in mine.address.search_path
    mine.close()
    other.close()
    drop(f"{name}_2")


# -- connections that break ------------------------------------------------------


def test_a_session_that_the_server_ended_is_replaced_in_silence(name: str) -> None:
    store = opened(with_schema(name) + f"&application_name={name}")
    store.transact([StartRun(run=run_row("x"))])
    assert store.run("x") is not None
    execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'")
    (again,) = store.transact([StartRun(run=run_row("y"))])
    assert isinstance(again, Started)
    assert store.run("y") is not None
    store.close()


def test_a_closed_store_says_so(name: str) -> None:
    store = opened(with_schema(name))
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="is closed"):
        store.run("x")
    with pytest.raises(StoreUnavailable, match="is closed"):
        store.transact([StartRun(run=run_row("x"))])
