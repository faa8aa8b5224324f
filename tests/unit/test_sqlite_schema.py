"""A file is brought up to date once, whoever comes first, and is never left half-way."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path

import apsw
import msgspec
import pytest

from outlast.core.errors import NotAStore, ReadOnlyStore
from outlast.core.records import InboxRow, Record, RunRow, WorkerRow
from outlast.stores import rows
from outlast.stores.sqlite import SqliteStore, schema
from outlast.stores.verbs import Register, Started, StartRun
from tests.conformance.world import SetClock, run_row
from tests.unit.clean_processes import CLEAN

PRESENT = len(schema.MIGRATIONS)
NEXT = "ALTER TABLE runs ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'; CREATE TABLE shades (name TEXT) STRICT;"
HANGS = "CREATE TABLE half (x TEXT) STRICT; INSERT INTO half VALUES (hang()); CREATE TABLE other (x TEXT) STRICT;"


def old_store(path: Path) -> RunRow:
    """Make a store of the present version, with a run; return the run."""
    store = SqliteStore(str(path), SetClock())
    (answer,) = store.transact([StartRun(run=run_row("run"))])
    store.close()
    assert isinstance(answer, Started)
    return answer.run


def tables(path: Path) -> set[str]:
    db = apsw.Connection(str(path))
    names = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()}
    db.close()
    return names


def version(path: Path) -> int:
    db = apsw.Connection(str(path))
    found: int = db.pragma("user_version")
    db.close()
    return found


def test_an_older_store_is_migrated_and_keeps_its_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = old_store(path)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, NEXT))
    store = SqliteStore(str(path), SetClock())
    assert store.run("run") == run
    assert store.info().schema_version == PRESENT + 1
    store.close()
    assert "shades" in tables(path)


def test_the_workers_of_a_store_of_the_first_version_have_not_said_what_they_serve(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        SqliteStore(str(path), SetClock()).close()
        db = apsw.Connection(str(path))
        db.execute("INSERT INTO workers VALUES ('old', 1, '', 'boot-1', '', 0, 'alive', 0, 0, 0, NULL, '', '', '', '')")
        db.close()
    store = SqliteStore(str(path), SetClock())
    store.transact([Register(worker=WorkerRow(id="new", pid=1, serves=("flow",)), lease_s=1.0)])
    assert {row.id: row.serves for row in store.workers()} == {"old": None, "new": ("flow",)}
    store.close()


def test_a_new_store_gets_all_versions_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, NEXT))
    SqliteStore(str(path), SetClock()).close()
    assert (version(path), "shades" in tables(path)) == (PRESENT + 1, True)


def test_an_older_store_cannot_be_migrated_by_a_reader(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_store(path)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, NEXT))
    with pytest.raises(ReadOnlyStore, match="older Outlast"):
        SqliteStore(str(path), SetClock(), read_only=True)
    assert version(path) == PRESENT


def test_a_migration_that_fails_leaves_the_store_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = old_store(path)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, NEXT + "SELECT no_such_function();"))
        with pytest.raises(Exception, match="no_such_function"):
            SqliteStore(str(path), SetClock())
    store = SqliteStore(str(path), SetClock())
    assert store.run("run") == run
    store.close()
    assert "shades" not in tables(path)


def _migrate_and_hang(path: str, ready: Connection) -> None:
    def hang() -> None:
        ready.send("half-way")
        threading.Event().wait(60)

    schema.MIGRATIONS = (*schema.MIGRATIONS, HANGS)
    db = apsw.Connection(path)
    db.create_scalar_function("hang", hang, 0)
    schema.migrate(db, path)


def test_a_migration_that_is_killed_half_way_is_rolled_back_and_done_by_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = old_store(path)
    ours, theirs = CLEAN.Pipe()
    process = CLEAN.Process(target=_migrate_and_hang, args=(str(path), theirs))
    process.start()
    assert ours.poll(30)
    assert ours.recv() == "half-way"
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert (version(path), "half" in tables(path)) == (PRESENT, False)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, NEXT))
    store = SqliteStore(str(path), SetClock())
    assert store.run("run") == run
    store.close()
    assert (version(path), "shades" in tables(path)) == (PRESENT + 1, True)


def _migrate_at_once(folder: str, rounds: int, barrier: object, errors: Connection) -> None:
    schema.MIGRATIONS = (*schema.MIGRATIONS, NEXT, "INSERT INTO shades VALUES ('once');")
    for n in range(rounds):
        barrier.wait()  # type: ignore[attr-defined]
        try:
            SqliteStore(f"{folder}/{n}.db", SetClock()).close()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is to show it
            errors.send(repr(error))
    errors.send(None)


def test_ten_processes_that_migrate_at_once_migrate_once(tmp_path: Path) -> None:
    rounds, racers = 6, 10
    for n in range(rounds):
        old_store(tmp_path / f"{n}.db")
    ours, theirs = CLEAN.Pipe()
    barrier = CLEAN.Barrier(racers)
    processes = [
        CLEAN.Process(target=_migrate_at_once, args=(str(tmp_path), rounds, barrier, theirs)) for _ in range(racers)
    ]
    for process in processes:
        process.start()
    said = [ours.recv() for _ in processes]
    for process in processes:
        process.join()
    assert said == [None] * racers
    for n in range(rounds):
        db = apsw.Connection(str(tmp_path / f"{n}.db"))
        assert db.execute("SELECT name FROM shades").fetchall() == [("once",)]
        assert db.pragma("user_version") == PRESENT + 2
        db.close()


def test_a_version_that_somebody_else_has_just_made_too_new_is_refused(path: Path) -> None:
    old_store(path)
    db = apsw.Connection(str(path))
    db.pragma("user_version", 99)
    db.close()
    with pytest.raises(NotAStore, match="version 99"):
        SqliteStore(str(path), SetClock())


@pytest.mark.parametrize(
    ("struct", "columns"),
    [
        (RunRow, rows.RUN_COLUMNS),
        (Record, rows.RECORD_COLUMNS),
        (InboxRow, rows.INBOX_COLUMNS),
        (WorkerRow, rows.WORKER_COLUMNS),
    ],
)
def test_columns_and_fields_are_the_same_in_the_same_order(struct: type[msgspec.Struct], columns: str) -> None:
    assert tuple(columns.split(", ")) == struct.__struct_fields__


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"
