"""What becomes a store, what does not, and what is said of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest

from outlast.core.errors import NotAStore, ReadOnlyStore, StoreError, StoreUnavailable
from outlast.core.records import RunRow
from outlast.stores.protocol import RunFilter
from outlast.stores.sqlite import SqliteStore, schema
from outlast.stores.verbs import Failed, Started, StartRun
from tests.conformance.world import SetClock, World, record, run_row, write

NOBODY = 65534


def opened(path: Path, **options: bool) -> SqliteStore:
    return SqliteStore(str(path), SetClock(), **options)


def start(store: SqliteStore, id: str) -> RunRow:
    (answer,) = store.transact([StartRun(run=run_row(id))])
    assert isinstance(answer, Started)
    return answer.run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """Act as a user who may read the folder and its files, and change nothing."""
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """Return a folder that any user may enter, unlike those of tmp_path."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


# -- a store -------------------------------------------------------------------


def test_a_new_file_becomes_a_store_that_is_there_later(path: Path) -> None:
    store = opened(path)
    run = start(store, "run")
    store.close()
    again = opened(path)
    assert again.run("run") == run
    assert again.check() == []
    again.close()


def test_a_store_has_the_pragmas_that_keep_it(path: Path) -> None:
    opened(path).close()
    db = apsw.Connection(str(path))
    assert db.pragma("journal_mode") == "wal"
    assert db.pragma("application_id") == schema.APPLICATION_ID
    assert db.pragma("user_version") == len(schema.MIGRATIONS)
    assert db.pragma("auto_vacuum") == 2
    db.close()


def test_every_connection_syncs_each_commit_and_waits_for_locks(path: Path) -> None:
    seen: list[apsw.Connection] = []
    apsw.connection_hooks.append(seen.append)
    try:
        store = opened(path)
        store.runs(RunFilter())
        store.change()
    finally:
        apsw.connection_hooks.remove(seen.append)
    assert len(seen) == 2
    assert [db.pragma("synchronous") for db in seen] == [2, 2]
    store.close()


def test_info_says_where_and_what_it_is(path: Path) -> None:
    store = opened(path)
    info = store.info()
    assert (info.kind, info.location, info.schema_version) == ("sqlite", str(path), len(schema.MIGRATIONS))
    assert info.engine.startswith("SQLite 3.")
    assert info.size_bytes > 0
    assert info.details["read_only"] is False
    store.close()


def test_a_store_stays_the_same_when_the_process_changes_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    store = SqliteStore("agent.db", SetClock())
    monkeypatch.chdir(tmp_path)
    start(store, "run")
    assert len(store.runs(RunFilter())) == 1
    store.close()
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["agent.db"]


@pytest.mark.parametrize("name", ["file:x.db?mode=ro", "with space.db", "ünïcode.db", "50%.db", "a?b#c.db"])
def test_a_name_is_a_name_and_no_uri(tmp_path: Path, name: str) -> None:
    store = opened(tmp_path / name)
    start(store, "run")
    store.close()
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_store_that_was_closed_says_so(path: Path) -> None:
    store = opened(path)
    store.close()
    with pytest.raises(StoreUnavailable, match="is closed"):
        store.runs(RunFilter())
    with pytest.raises(StoreUnavailable, match="is closed"):
        start(store, "run")


# -- no store --------------------------------------------------------------------


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=rf"no directory {tmp_path}/data/deep; create it"):
        opened(tmp_path / "data" / "deep" / "agent.db")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="is a directory"):
        opened(tmp_path)


@pytest.mark.parametrize("content", [b"not a database, but long enough to look like something " * 50, b"short"])
def test_a_file_that_is_no_database_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(NotAStore, match="is not a SQLite file"):
        opened(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("application_id", [0, 42])
def test_the_database_of_another_application_is_left_alone(path: Path, application_id: int) -> None:
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE runs (x)")
    db.pragma("application_id", application_id)
    db.close()
    content = path.read_bytes()
    with pytest.raises(NotAStore, match="another application"):
        opened(path)
    assert path.read_bytes() == content


def test_a_store_of_a_newer_outlast_is_left_alone_and_both_versions_are_named(path: Path) -> None:
    opened(path).close()
    db = apsw.Connection(str(path))
    db.pragma("user_version", 99)
    db.close()
    content = path.read_bytes()
    with pytest.raises(NotAStore, match=rf"version 99.*up to {len(schema.MIGRATIONS)}"):
        opened(path)
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    store = opened(path)
    start(store, "run")
    store.close()


def test_a_damaged_store_says_so(path: Path) -> None:
    store = opened(path)
    for n in range(200):
        start(store, f"run{n}")
    store.close()
    content = bytearray(path.read_bytes())
    content[4096 * 2 :] = os.urandom(len(content) - 4096 * 2)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is damaged"):
        opened(path).runs(RunFilter(), limit=1000)


# -- only to be read ---------------------------------------------------------------


def test_read_only_reads_and_does_not_write(path: Path) -> None:
    writer = opened(path)
    run = start(writer, "run")
    reader = opened(path, read_only=True)
    assert reader.run("run") == run
    with pytest.raises(ReadOnlyStore, match="can be read but not written"):
        start(reader, "other")
    other = start(writer, "other")
    assert reader.run("other") == other
    assert reader.info().details["read_only"] is True
    reader.close()
    writer.close()


def test_read_only_makes_no_file(path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="there is no such file"):
        opened(path, read_only=True)
    assert not path.exists()


def test_a_store_that_may_not_be_written_can_be_read(public_folder: Path) -> None:
    path = public_folder / "agent.db"
    store = opened(path)
    run = start(store, "run")
    store.close()
    with without_rights(public_folder):
        store = opened(path)
        assert store.run("run") == run
        assert store.check() == []
        store.change()
        with pytest.raises(ReadOnlyStore, match="can be read but not written"):
            start(store, "other")
        store.close()


def test_a_store_that_may_not_be_written_can_be_read_while_others_write(public_folder: Path) -> None:
    path = public_folder / "agent.db"
    writer = opened(path)
    run = start(writer, "run")
    with without_rights(public_folder):
        reader = opened(path)
        assert reader.run("run") == run
    other = start(writer, "other")
    with without_rights(public_folder):
        assert reader.run("other") == other
        reader.close()
    writer.close()


def test_a_directory_that_may_not_be_written_gets_no_store(public_folder: Path) -> None:
    with without_rights(public_folder), pytest.raises(ReadOnlyStore, match="directory cannot be written"):
        opened(public_folder / "agent.db")


def test_a_file_that_may_not_be_read_is_named(public_folder: Path) -> None:
    path = public_folder / "agent.db"
    opened(path).close()
    with without_rights(public_folder):
        if os.geteuid() == NOBODY:
            os.seteuid(0)
            path.chmod(0)
            os.seteuid(NOBODY)
        else:
            path.chmod(0)
        with pytest.raises(StoreUnavailable, match="may not read it"):
            opened(path)


# -- while in use --------------------------------------------------------------------


def test_a_file_that_is_deleted_in_use_acknowledges_nothing_more(path: Path) -> None:
    store = opened(path)
    start(store, "run")
    hidden = path.with_name("hidden.db")
    path.rename(hidden)
    with pytest.raises(StoreUnavailable, match="moved, deleted or replaced"):
        start(store, "lost")
    path.write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="moved, deleted or replaced"):
        start(store, "lost")
    hidden.rename(path)
    start(store, "kept")
    assert {run.id for run in store.runs(RunFilter())} == {"run", "kept"}
    store.close()


def test_what_the_database_finds_too_big_fails_alone(path: Path) -> None:
    """The rule of its own that a database has besides those that all stores share."""
    limited: list[apsw.Connection] = []
    apsw.connection_hooks.append(limited.append)
    try:
        clock = SetClock()
        world = World(SqliteStore(str(path), clock), clock)
    finally:
        apsw.connection_hooks.remove(limited.append)
    first, second = world.running("a"), world.running("b")
    for db in limited:
        db.limit(apsw.SQLITE_LIMIT_LENGTH, 100_000)
    big = b"x" * 200_000
    answers = world.store.transact(
        [
            write(first, record(1)),
            write(second, record(1, value=big)),
            write(first, record(2)),
            write(second, record(2)),
        ]
    )
    assert [type(answer).__name__ for answer in answers] == ["Done", "Failed", "Done", "Failed"]
    assert isinstance(answers[1], Failed)
    assert "refused" in answers[1].why
    assert [len(world.store.records(run.pk)) for run in (first, second)] == [2, 0]
    world.store.close()


def test_a_listing_shows_the_other_runs_beside_one_that_was_spoiled(path: Path) -> None:
    store = opened(path)
    for name in ("a", "b", "c"):
        start(store, name)
    db = apsw.Connection(str(path))
    db.execute("UPDATE runs SET forks = '[oops' WHERE id = 'b'")
    db.close()
    first, spoiled, last = store.runs(RunFilter())
    assert (first.id, last.id) == ("c", "a")
    assert (spoiled.id, spoiled.reason) == ("b", "undecodable")
    assert "cannot be read" in spoiled.detail
    assert store.info().counts == {"pending": 3}
    store.close()


def test_check_finds_what_does_not_fit_together(path: Path) -> None:
    store = opened(path)
    run = start(store, "run")
    assert store.check() == []
    db = apsw.Connection(str(path))
    db.execute("INSERT INTO inputs VALUES (77, x'00')")
    db.execute("INSERT INTO inbox (run, kind, key, message_id, ok, created) VALUES (78, 'message', '', 'm', 1, 0)")
    db.execute("UPDATE runs SET status = 'running', owner = 'ghost', due = NULL")
    db.close()
    found = store.check()
    assert len(found) == 3
    assert any("77" in text for text in found)
    assert any("78" in text for text in found)
    assert any("ghost" in text and "'run'" in text for text in found)
    assert run.pk == 1
    store.close()
