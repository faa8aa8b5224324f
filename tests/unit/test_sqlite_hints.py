"""What one process commits is heard by the others at once, where it gives them something to do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast import App, workflow
from outlast.core.records import WorkerRow
from outlast.runtime import watcher
from outlast.runtime.clock import SystemClock
from outlast.stores.sqlite import SqliteStore, hints
from outlast.stores.verbs import Beat, Register, StartRun
from tests.conformance.world import run_row
from tests.unit.clean_processes import CLEAN
from tests.unit.test_sqlite_fork import ended_well, fork, in_clean_process

SOON_S = 10.0
NEVER_S = 3600.0


@workflow
async def expecting() -> Any:
    return await outlast.receive("go")


class Listener:
    """Counts what it hears, and lets a test wait for the next."""

    def __init__(self) -> None:
        self.count = 0
        self._called = threading.Event()

    def __call__(self) -> None:
        self.count += 1
        self._called.set()

    def hears(self) -> bool:
        """Wait for a call since the last wait."""
        called = self._called.wait(SOON_S)
        self._called.clear()
        return called


@pytest.fixture
def path(tmp_path: Path) -> str:
    Path(f"{tmp_path}/agent.db-workers").mkdir()  # as the lock of the first worker does
    return str(tmp_path / "agent.db")


@pytest.fixture
def listener(path: str) -> Iterator[Listener]:
    """Return the listener of a store that stays open."""
    store, found = SqliteStore(path, SystemClock()), Listener()
    store.hear(found)
    yield found
    store.close()


def _start(path: str, id: str) -> None:
    store = SqliteStore(path, SystemClock())
    store.transact([StartRun(run=run_row(id))])
    store.close()


def test_what_another_process_starts_is_heard_at_once(path: str, listener: Listener) -> None:
    for n in range(3):
        process = CLEAN.Process(target=_start, args=(path, f"run-{n}"))
        process.start()
        assert listener.hears()
        process.join()


def test_who_came_before_the_first_listener_is_heard_too(path: str) -> None:
    early, late, listener = SqliteStore(path, SystemClock()), SqliteStore(path, SystemClock()), Listener()
    early.transact([StartRun(run=run_row("unheard"))])
    late.hear(listener)
    early.transact([StartRun(run=run_row("heard"))])
    assert listener.hears()
    early.close()
    late.close()


def test_what_gives_nobody_work_is_not_told(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(hints.Hints, "say", lambda self: said.append("look"))
    store = SqliteStore(path, SystemClock())
    store.transact([Register(worker=WorkerRow(id="w", pid=1), lease_s=10.0)])
    assert said == ["look"]
    store.transact([Beat(worker="w", lease_s=10.0)])
    store.transact([StartRun(run=run_row("my own"), claim_by="w")])
    assert said == ["look"]
    store.transact([StartRun(run=run_row("anybody's")), StartRun(run=run_row("another"))])
    assert said == ["look", "look"]
    store.close()


def test_a_file_that_was_removed_is_watched_again(path: str, listener: Listener) -> None:
    Path(f"{path}-workers/look").unlink()
    assert listener.hears()
    while not Path(f"{path}-workers/look").exists():  # its thread is about to make it
        pass
    _start(path, "one")
    assert listener.hears()


@pytest.mark.parametrize("folder", ["none", "removed later"])
def test_a_store_works_without_hints(tmp_path: Path, folder: str) -> None:
    path, listener = str(tmp_path / "agent.db"), Listener()
    store = SqliteStore(path, SystemClock())
    if folder == "removed later":
        Path(f"{path}-workers").mkdir()
    store.hear(listener)
    if folder == "removed later":
        gone = Path(f"{path}-workers").rename(tmp_path / "gone")  # before the file, or that is made anew in between
        (gone / "look").unlink()
        assert listener.hears()
    store.transact([StartRun(run=run_row("one"))])
    assert store.run("one") is not None
    store.close()


def test_a_closed_store_leaves_no_thread_and_no_file_open(path: str) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before, files = threading.active_count(), open_files()
    store = SqliteStore(path, SystemClock())
    store.hear(Listener())
    store.hear(Listener())
    assert threading.active_count() == before + 1
    store.close()
    store.close()
    assert (threading.active_count(), open_files()) == (before, files)


def _child_closes_what_it_inherited(path: str) -> None:
    Path(f"{path}-workers").mkdir()
    store, listener = SqliteStore(path, SystemClock()), Listener()
    store.hear(listener)

    def child() -> None:
        own = Listener()
        store.hear(own)
        _start(path, "child")
        assert own.hears()
        store.close()

    assert ended_well(fork(child))
    assert listener.hears()
    _start(path, "parent")
    assert listener.hears()
    store.close()


def test_a_child_that_closes_the_store_leaves_its_parent_listening(tmp_path: Path) -> None:
    in_clean_process(_child_closes_what_it_inherited, tmp_path / "agent.db")


@pytest.mark.parametrize("park_after", [NEVER_S, 0.01])
def test_a_message_reaches_a_run_before_its_worker_looks_by_itself(
    path: str, monkeypatch: pytest.MonkeyPatch, park_after: float
) -> None:
    for rest in ("TICK_S", "IDLE_TICK_S"):
        monkeypatch.setattr(watcher, rest, NEVER_S)

    async def play() -> Any:
        parked = asyncio.Event()

        def listen(notice: outlast.Notice) -> None:
            if notice.name == "run.parked":
                parked.set()

        async with App(path, park_after=park_after, on_event=listen) as app, App(path, worker=False) as client:
            run = await app.start(expecting())
            if park_after < NEVER_S:
                await parked.wait()
            await client.send(run.id, "go", "said")
            return await asyncio.wait_for(run.result(), SOON_S)

    assert asyncio.run(play()) == "said"
