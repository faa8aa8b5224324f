"""A store lives on both sides of a fork, and no commit of either side is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from outlast.core.errors import StoreUnavailable
from outlast.runtime.clock import SystemClock
from outlast.stores.protocol import RunFilter
from outlast.stores.sqlite import SqliteStore, connections
from outlast.stores.verbs import Started, StartRun
from tests.conformance.world import run_row
from tests.unit.clean_processes import CLEAN


def start(store: SqliteStore, *ids: str) -> None:
    for answer in store.transact([StartRun(run=run_row(name)) for name in ids]):
        assert isinstance(answer, Started)


def ids(store: SqliteStore) -> set[str]:
    return {run.id for run in store.runs(RunFilter(), limit=10_000)}


def in_clean_process(scenario: Callable[[str], object], path: Path) -> None:
    """Run a scenario in a process of one thread, as only such a one may fork on every Python."""
    here, there = CLEAN.Pipe(duplex=False)
    process = CLEAN.Process(target=_report, args=(there, scenario, str(path)))
    process.start()
    there.close()
    said = here.recv()
    process.join()
    assert said == "ok"


def _report(there: Connection, scenario: Callable[[str], object], path: str) -> None:
    try:
        scenario(path)
        there.send("ok")
    except BaseException as error:
        there.send(repr(error))
        raise


def fork(work: Callable[[], object]) -> int:
    """Do something in a child made by os.fork; return its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def ended_well(pid: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def _both_sides_write(path: str) -> None:
    store = SqliteStore(path, SystemClock())
    start(store, "before")
    seen = store.change()

    def child() -> None:
        assert "before" in ids(store)
        for n in range(50):
            start(store, f"child{n}")
        store.close()

    pid = fork(child)
    for n in range(50):
        start(store, f"parent{n}")
    assert ended_well(pid)
    assert store.change() != seen
    assert len(ids(store)) == 101
    assert store.check() == []
    store.close()


def test_parent_and_child_both_go_on_with_the_store(path: Path) -> None:
    in_clean_process(_both_sides_write, path)


def _child_outlives_parents_store(path: str) -> None:
    """What a child commits after its parent has closed the file is the first thing that a naive fork loses."""
    store = SqliteStore(path, SystemClock())
    start(store, "before")
    here, there = os.pipe()

    def child() -> None:
        own = SqliteStore(path, SystemClock())
        start(own, "one")
        os.read(here, 1)
        start(own, "two")
        start(store, "three")
        os._exit(0)  # closes nothing

    pid = fork(child)
    while "one" not in ids(store):
        pass
    store.close()
    os.write(there, b"x")
    assert ended_well(pid)
    again = SqliteStore(path, SystemClock())
    assert ids(again) == {"before", "one", "two", "three"}
    assert again.check() == []
    again.close()


def test_a_child_loses_nothing_when_its_parent_closes_the_file(path: Path) -> None:
    in_clean_process(_child_outlives_parents_store, path)


def _threads_while_forking(path: str) -> None:
    store = SqliteStore(path, SystemClock())
    stop = threading.Event()
    done = [0, 0]

    def work(side: int) -> None:
        while not stop.is_set():
            if side:
                ids(store)
            else:
                start(store, f"thread{done[0]}")
            done[side] += 1

    threads = [threading.Thread(target=work, args=(side,), daemon=True) for side in range(2)]
    for thread in threads:
        thread.start()
    children = [fork(lambda n=n: start(store, f"child{n}")) for n in range(10)]  # type: ignore[misc]
    assert all([ended_well(pid) for pid in children])  # noqa: C419 - wait for each
    stop.set()
    for thread in threads:
        thread.join()
    found = ids(store)
    assert {f"child{n}" for n in range(10)} <= found
    assert len(found) == 10 + done[0]
    assert store.check() == []
    store.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_waits_for_threads_that_use_the_store(path: Path) -> None:
    in_clean_process(_threads_while_forking, path)


def _fork_in_a_transaction(path: str) -> None:
    connections.FORK_PATIENCE_S = 0.05
    store = SqliteStore(path, SystemClock())
    inside, leave = threading.Event(), threading.Event()

    def hold(db: object) -> None:
        inside.set()
        leave.wait()

    holder = threading.Thread(target=store._connections.write, args=(hold,), daemon=True)
    holder.start()
    inside.wait()

    def child() -> None:
        for use in (lambda: ids(store), lambda: start(store, "x"), store.change):
            _assert_refused(use)
        _assert_refused(lambda: SqliteStore(path, SystemClock()))
        other = SqliteStore(path + "2", SystemClock())
        start(other, "fine")
        store.close()

    pid = fork(child)
    assert ended_well(pid)
    leave.set()
    holder.join()
    start(store, "parent")
    assert ids(store) == {"parent"}
    store.close()


def _assert_refused(use: Callable[[], object]) -> None:
    with pytest.raises(StoreUnavailable, match=r"when it forked this one.*spawn"):
        use()


def test_a_child_of_a_busy_store_is_refused_it_and_told_what_to_do(path: Path) -> None:
    in_clean_process(_fork_in_a_transaction, path)


def _grandchildren(path: str) -> None:
    store = SqliteStore(path, SystemClock())

    def child() -> None:
        start(store, "child")
        assert ended_well(fork(lambda: start(store, "grandchild")))
        start(store, "child again")

    assert ended_well(fork(child))
    assert ids(store) == {"child", "grandchild", "child again"}
    store.close()


def test_a_child_may_fork_again(path: Path) -> None:
    in_clean_process(_grandchildren, path)
