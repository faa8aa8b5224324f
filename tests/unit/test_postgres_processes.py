"""Several processes on one database: one dies, or freezes, and another goes on."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from outlast.core.records import WorkerRow, WorkerState
from outlast.runtime.clock import SystemClock
from outlast.runtime.seen import seen_workers
from outlast.runtime.writer import Lease
from outlast.stores.postgres import PostgresStore, hints
from outlast.stores.verbs import Beat, Claim, Claimed, Refused, Register, StartRun, TakenOver
from tests.conformance.world import run_row, take_over
from tests.support.postgres import drop, server_url, with_schema

PATIENCE_S = 30.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def url() -> Iterator[str]:
    """Return the URL of an empty store, whose sessions bear its name."""
    schema = f"test_{secrets.token_hex(6)}"
    yield f"{with_schema(schema)}&application_name={schema}"
    drop(schema)


@pytest.fixture
def open_store(url: str) -> Iterator[Callable[[], PostgresStore]]:
    """Return a function that opens the store once more."""
    opened: list[PostgresStore] = []

    def one_more() -> PostgresStore:
        opened.append(PostgresStore(url, SystemClock()))
        return opened[-1]

    yield one_more
    for each in opened:
        each.close()


def until(what: str, condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"this never came: {what}"
        time.sleep(0.005)


def register(store: PostgresStore, worker: str, lease_s: float = 60.0) -> None:
    store.transact([Register(worker=WorkerRow(id=worker, pid=1), lease_s=lease_s)])


def session_of(url: str, worker: str) -> str:
    schema = url.partition("schema=")[2].partition("&")[0]
    with psycopg.connect(server_url(), autocommit=True) as db:
        found = db.execute(f"SELECT session FROM {schema}.workers WHERE id = %s".encode(), (worker,)).fetchone()
        assert found is not None
        return str(found[0])


def end_session(session: str) -> None:
    with psycopg.connect(server_url(), autocommit=True) as db:
        db.execute("SELECT pg_terminate_backend(%s)", (int(session.split(maxsplit=1)[0]),))


# -- sessions ------------------------------------------------------------------------


def test_a_worker_is_taken_over_when_its_session_has_ended_and_not_before(
    open_store: Callable[[], PostgresStore],
) -> None:
    dead, other = open_store(), open_store()
    register(dead, "w1")
    register(other, "w2")
    other.transact([StartRun(run=run_row("x"), claim_by="w1")])
    verb = take_over("w1", "w2", gone=False, dropped=True)
    (answer,) = other.transact([verb])
    assert isinstance(answer, Refused)
    dead.close()
    until("the server has seen it", lambda: isinstance(other.transact([verb])[0], TakenOver))
    states = {row.id: row.state for row in other.workers()}
    assert states["w1"] is WorkerState.EXPIRED  # its process may live: that judges no attempt of its


def test_who_is_cut_off_is_told_of_in_the_second_look(
    open_store: Callable[[], PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "COME_BACK_S", 0.0)
    dead, other = open_store(), open_store()
    register(dead, "w1")
    register(other, "w2")
    dead.close()
    found: list[str] = []

    def look() -> list[str]:
        other.change()
        found.extend(other.dropped())
        return found

    until("it is told of", look)
    assert found == ["w1"]
    assert other.dropped() == []


def test_who_lives_is_not_even_suspected_to_be_cut_off(
    open_store: Callable[[], PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    suspected: list[frozenset[str]] = []
    real = hints.Hints._ask

    def ask(self: hints.Hints, db: Any) -> None:
        real(self, db)
        suspected.append(self._ended)

    monkeypatch.setattr(hints.Hints, "_ask", ask)
    first, second = open_store(), open_store()
    register(first, "w1")
    register(second, "w2")
    until("both have asked", lambda: len(suspected) >= 8)
    assert not any(suspected), "or else each would ask for more than it need, again and again"


def test_people_are_shown_who_is_cut_off_long_before_its_lease_ends(open_store: Callable[[], PostgresStore]) -> None:
    dead, other = open_store(), open_store()
    register(dead, "w1")
    register(other, "w2")
    assert {seen.row.id: seen.condition for seen in seen_workers(other)} == {"w1": "alive", "w2": "alive"}
    dead.close()
    until("its session is over", other.cut_off)
    assert {seen.row.id: seen.condition for seen in seen_workers(other)} == {"w1": "disconnected", "w2": "alive"}


def test_people_are_shown_no_worker_as_cut_off_that_comes_back_at_once(
    url: str, open_store: Callable[[], PostgresStore]
) -> None:
    store = open_store()
    register(store, "w1")
    session = store._hints.session
    with psycopg.connect(server_url(), autocommit=True) as db:
        db.execute("SELECT pg_terminate_backend(%s)", (int(session.split()[0]),))
    assert store.cut_off() == []
    until("it has a new one", lambda: store._hints.session not in ("", session))


def test_who_has_just_come_back_judges_nobody(open_store: Callable[[], PostgresStore]) -> None:
    dead, other = open_store(), open_store()
    register(dead, "w1")
    register(other, "w2")
    dead.close()
    end = time.monotonic() + hints.COME_BACK_S / 2
    while time.monotonic() < end:
        other.change()
        assert other.dropped() == []
        time.sleep(0.02)


def test_who_lives_has_a_new_session_at_once_and_starts_nothing_before_it_has_renewed(
    url: str, open_store: Callable[[], PostgresStore]
) -> None:
    mine = open_store()
    register(mine, "w1")
    lease = Lease(mine, 60.0)
    lease.until = mine.lease_now() + 60.0
    assert lease.holds()
    before = session_of(url, "w1")
    end_session(before)
    until("it starts nothing", lambda: not lease.holds())
    assert lease.renewal_in() == 0.0
    until("it has another session", lambda: session_of(url, "w1") not in ("", before))
    session = mine.session()
    mine.transact([Beat(worker="w1", lease_s=60.0)])
    lease.session = session
    assert lease.holds()


def test_a_commit_elsewhere_is_heard_of(open_store: Callable[[], PostgresStore]) -> None:
    mine, other = open_store(), open_store()
    heard = threading.Event()
    mine.hear(heard.set)
    mine.change()
    until("it listens", lambda: mine._hints.listening)
    before = mine.change()
    other.transact([StartRun(run=run_row("x"))])
    assert heard.wait(PATIENCE_S)
    until("it is seen", lambda: mine.change() != before)


# -- many claim ------------------------------------------------------------------------


def test_no_run_is_claimed_twice_by_many_at_once(open_store: Callable[[], PostgresStore]) -> None:
    first = open_store()
    first.transact([StartRun(run=run_row(f"r{n}")) for n in range(300)])
    names = [f"w{n}" for n in range(6)]
    stores = [open_store() for _ in names]
    barrier, got = threading.Barrier(len(names)), dict[str, list[int]]()

    def claim(name: str, store: PostgresStore) -> None:
        register(store, name)
        barrier.wait()
        got[name] = []
        while len([pk for pks in got.values() for pk in pks]) < 300:
            (answer,) = store.transact([Claim(worker=name, workflows=("flow",), limit=7)])
            assert isinstance(answer, Claimed)
            got[name] += [run.pk for run in answer.runs]

    threads = [threading.Thread(target=claim, args=pair) for pair in zip(names, stores, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(pk for pks in got.values() for pk in pks) == sorted({pk for pks in got.values() for pk in pks})
    for name in names:
        assert [pk for pk, _ in first.owned(name)] == sorted(got[name])


# -- a death and a freeze ---------------------------------------------------------------


class Scene:
    """Worker processes, and the ledger of what their steps did."""

    def __init__(self, url: str, ledger: Path) -> None:
        self._url = url
        self._ledger = ledger
        self._started: list[subprocess.Popen[bytes]] = []
        ledger.touch()

    def worker(self, lease_s: float, *run: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.unit.postgres_worker", self._url, str(self._ledger), str(lease_s), *run]
        self._started.append(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL))
        return self._started[-1]

    def steps(self, worker: subprocess.Popen[bytes] | None = None) -> list[int]:
        lines = [line.split() for line in self._ledger.read_text().splitlines()]
        return [int(n) for pid, n in lines if worker is None or int(pid) == worker.pid]

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()


@pytest.fixture
def scene(url: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(url, tmp_path / "ledger")
    yield made
    made.end()


def goes_on(scene: Scene, second: subprocess.Popen[bytes]) -> None:
    """Assert that a run goes on at another worker where it was left, with at most the step in flight repeated."""
    until("the other goes on", lambda: len(scene.steps(second)) > 3)
    steps = scene.steps()
    assert sorted(set(steps)) == list(range(max(steps) + 1))
    assert len(steps) - len(set(steps)) <= 1


def test_a_dead_worker_is_noticed_long_before_its_lease_ends(
    scene: Scene, open_store: Callable[[], PostgresStore]
) -> None:
    looking = open_store()
    first = scene.worker(8.0, "run")
    until("it runs", lambda: len(scene.steps()) > 5)
    second = scene.worker(8.0)
    until("there are two", lambda: len(looking.workers()) == 2)
    time.sleep(4.5)  # who has just come judges nobody for half a lease
    first.kill()
    died = time.monotonic()
    until("the other goes on", lambda: scene.steps(second))
    assert time.monotonic() - died < 3.0
    goes_on(scene, second)


def test_a_frozen_worker_is_replaced_when_its_lease_ends_and_does_nothing_more(scene: Scene) -> None:
    first = scene.worker(2.0, "run")
    until("it runs", lambda: len(scene.steps()) > 5)
    second = scene.worker(2.0)
    os.kill(first.pid, signal.SIGSTOP)
    until("the other goes on", lambda: scene.steps(second))
    before = len(scene.steps(first))
    os.kill(first.pid, signal.SIGCONT)
    goes_on(scene, second)
    assert len(scene.steps(first)) == before
