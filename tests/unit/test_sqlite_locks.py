"""Who waits for the write lock waits for long, and then says who has it."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import apsw
import pytest

from outlast.core.errors import StoreUnavailable
from outlast.runtime.clock import SystemClock
from outlast.stores.protocol import RunFilter
from outlast.stores.sqlite import SqliteStore, locks, write_lock_holder
from outlast.stores.verbs import Started, StartRun
from tests.conformance.world import run_row
from tests.unit.clean_processes import CLEAN

pytestmark = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this kernel does not tell who holds a lock")


def _hold(there: Connection, path: str) -> None:
    db = apsw.Connection(path)
    db.execute("BEGIN IMMEDIATE")
    there.send("held")
    there.recv()
    db.execute("ROLLBACK")
    there.send("let go")
    there.recv()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "agent.db")


@pytest.fixture
def holder(path: str) -> Iterator[tuple[int, Connection]]:
    """Return (pid, pipe) of another process that holds the write lock until it is told to let go."""
    SqliteStore(path, SystemClock()).close()
    here, there = CLEAN.Pipe()
    process = CLEAN.Process(target=_hold, args=(there, path))
    process.start()
    assert here.recv() == "held"
    yield process.pid or 0, here
    process.kill()
    process.join()


def test_the_holder_is_named_with_its_state(path: str, holder: tuple[int, Connection]) -> None:
    pid, _ = holder
    assert write_lock_holder(path) in {(pid, "S"), (pid, "R"), (pid, "D")}
    os.kill(pid, signal.SIGSTOP)
    _until_stopped(pid)
    assert write_lock_holder(path) == (pid, "T")


def _until_stopped(pid: int) -> None:
    while locks._state(pid) != "T":
        pass


def test_a_link_to_the_file_has_the_same_holder(tmp_path: Path, path: str, holder: tuple[int, Connection]) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    found = write_lock_holder(str(link))
    assert found is not None
    assert found[0] == holder[0]


def test_nobody_holds_the_lock_of_a_store_at_rest(path: str, tmp_path: Path) -> None:
    store = SqliteStore(path, SystemClock())
    assert write_lock_holder(path) is None
    assert write_lock_holder(str(tmp_path / "none.db")) is None
    store.close()


def test_a_write_that_waited_in_vain_names_a_stopped_holder(path: str, holder: tuple[int, Connection]) -> None:
    pid, _ = holder
    os.kill(pid, signal.SIGSTOP)
    _until_stopped(pid)
    store = SqliteStore(path, SystemClock(), busy_s=0.2)
    with pytest.raises(StoreUnavailable, match=rf"locked for 0.2 s: process {pid} holds the lock and is stopped"):
        store.transact([StartRun(run=run_row("x"))])
    assert store.runs(RunFilter()) == []  # reading goes on
    assert store.info().details["write_lock"].startswith(f"process {pid}")
    os.kill(pid, signal.SIGCONT)
    store.close()


def test_a_write_goes_on_when_the_lock_is_free(path: str, holder: tuple[int, Connection]) -> None:
    _, pipe = holder
    store = SqliteStore(path, SystemClock(), busy_s=0.05)
    with pytest.raises(StoreUnavailable):
        store.transact([StartRun(run=run_row("x"))])
    pipe.send("let go")
    assert pipe.recv() == "let go"
    (answer,) = store.transact([StartRun(run=run_row("x"))])
    assert isinstance(answer, Started)
    store.close()


def test_who_waits_for_the_lock_takes_it_that_others_have_changed_something(
    path: str, holder: tuple[int, Connection]
) -> None:
    _, pipe = holder
    store = SqliteStore(path, SystemClock())
    seen = store.change()
    waiting = threading.Thread(target=lambda: store.transact([StartRun(run=run_row("run"))]))
    waiting.start()
    while store.change() == seen:
        assert waiting.is_alive()
    pipe.send("let go")
    assert pipe.recv() == "let go"
    waiting.join()
    seen = store.change()
    assert store.change() == seen
    store.close()


def test_a_long_wait_is_logged_with_the_holder(
    path: str, holder: tuple[int, Connection], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(locks, "WARN_AFTER_S", 0.05)
    store = SqliteStore(path, SystemClock(), busy_s=0.3)
    with caplog.at_level(logging.WARNING, "outlast.store"), pytest.raises(StoreUnavailable):
        store.transact([StartRun(run=run_row("x"))])
    (said,) = caplog.messages
    assert f"process {holder[0]} holds the lock" in said
    store.close()


def test_patience_is_counted_in_sleep_and_ends() -> None:
    patience = locks.Patience("x", 0.02)
    assert sum(1 for _ in iter(patience.wait, False)) > 1
    assert not patience.wait()
    patience.start()
    assert patience.wait()


LINE = "3: POSIX  ADVISORY  WRITE {pid} fd:00:{inode} {range}"


@pytest.mark.parametrize(
    ("line", "pid"),
    [
        (LINE.format(pid=7, inode=11, range="120 120"), 7),
        (LINE.format(pid=7, inode=11, range="120 122"), 7),
        (LINE.format(pid=7, inode=11, range="0 EOF"), 7),
        (LINE.format(pid=7, inode=12, range="120 120"), None),
        (LINE.format(pid=7, inode=11, range="121 127"), None),
        (LINE.format(pid=7, inode=11, range="120 120").replace("WRITE", "READ "), None),
        (LINE.format(pid=7, inode=11, range="120 120").replace("3: POSIX", "3: -> POSIX"), None),
        (LINE.format(pid=7, inode=11, range="120 120").replace("POSIX", "FLOCK"), None),
        ("", None),
    ],
)
def test_a_line_of_the_kernels_table_is_understood(line: str, pid: int | None) -> None:
    assert locks._holder(line, 11) == pid
