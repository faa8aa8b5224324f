"""Many processes on one file: none is turned away, nothing that was acknowledged is lost."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from outlast.core.records import WorkerRow
from outlast.core.transitions import Status
from outlast.runtime.clock import SystemClock
from outlast.stores.protocol import RunFilter
from outlast.stores.sqlite import SqliteStore
from outlast.stores.verbs import Claim, Claimed, Done, Register, Started, StartRun
from tests.conformance.world import finish, record, run_row, write
from tests.unit.clean_processes import CLEAN


def in_processes(count: int, work: Callable[..., Any], *args: object) -> list[Any]:
    """Do the same in several processes at once, and return what each returned. An exception is raised here."""
    barrier = CLEAN.Barrier(count)
    pipes = [CLEAN.Pipe(duplex=False) for _ in range(count)]
    processes = [
        CLEAN.Process(target=_report, args=(there, barrier, work, (n, *args))) for n, (_, there) in enumerate(pipes)
    ]
    for process, (_, there) in zip(processes, pipes, strict=True):
        process.start()
        there.close()
    said = [here.recv() for here, _ in pipes]
    for process in processes:
        process.join()
    errors = [what for ok, what in said if not ok]
    assert errors == []
    return [what for _, what in said]


def _report(there: Connection, barrier: Any, work: Callable[..., Any], args: tuple[object, ...]) -> None:
    try:
        barrier.wait()
        there.send((True, work(*args)))
    except Exception as error:  # noqa: BLE001 - shown by the test
        there.send((False, repr(error)))


# -- what others commit --------------------------------------------------------


def test_what_a_store_commits_itself_is_no_change_to_it(tmp_path: Path) -> None:
    mine, other = (SqliteStore(str(tmp_path / "agent.db"), SystemClock()) for _ in range(2))
    seen = mine.change(), other.change()
    mine.transact([StartRun(run=run_row("mine"))])
    assert mine.change() == seen[0]
    assert other.change() != seen[1]
    other.transact([StartRun(run=run_row("theirs"))])
    mine.transact([StartRun(run=run_row("mine again"))])
    assert mine.change() != seen[0]
    mine.close()
    other.close()


# -- opening -------------------------------------------------------------------


def _open_each(n: int, folder: str, rounds: int) -> int:
    for number in range(rounds):
        store = SqliteStore(f"{folder}/{number}.db", SystemClock())
        (answer,) = store.transact([StartRun(run=run_row(f"r{n}", incarnation=f"inc-{n}"))])
        assert isinstance(answer, Started)
        store.close()
    return rounds


def test_eight_processes_that_open_a_new_file_at_once_all_can(tmp_path: Path) -> None:
    rounds = 20
    assert in_processes(8, _open_each, str(tmp_path), rounds) == [rounds] * 8
    for number in range(rounds):
        store = SqliteStore(str(tmp_path / f"{number}.db"), SystemClock())
        assert len(store.runs(RunFilter())) == 8
        assert store.check() == []
        store.close()


# -- writing -------------------------------------------------------------------


def _write_at_full_speed(n: int, path: str, transactions: int) -> int:
    """Write from two threads, each with a store of its own, as two Apps of one process would."""
    written: list[int] = []
    errors: list[BaseException] = []

    def thread(t: int) -> None:
        try:
            name = f"w{n}.{t}"
            store = SqliteStore(path, SystemClock())
            store.transact([Register(worker=WorkerRow(id=name, pid=os.getpid()), lease_s=600.0)])
            (answer,) = store.transact([StartRun(run=run_row(name, incarnation=name), claim_by=name)])
            assert isinstance(answer, Started)
            for seq in range(1, transactions + 1):
                assert store.transact([write(answer.run, record(seq))]) == [Done()]
                store.records(answer.run.pk, after=seq - 1)
            written.append(transactions)
            store.close()
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=thread, args=(t,)) for t in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise errors[0]
    return sum(written)


def test_no_lock_error_reaches_who_writes_at_full_speed(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.db")
    processes, transactions = 4, 100
    assert in_processes(processes, _write_at_full_speed, path, transactions) == [2 * transactions] * processes
    store = SqliteStore(path, SystemClock())
    runs = store.runs(RunFilter())
    assert [len(store.records(run.pk)) for run in runs] == [transactions] * (2 * processes)
    assert store.check() == []
    store.close()


def _claim_all(n: int, path: str) -> list[int]:
    name = f"w{n}"
    store = SqliteStore(path, SystemClock())
    store.transact([Register(worker=WorkerRow(id=name, pid=os.getpid()), lease_s=600.0)])
    taken: list[int] = []
    while True:
        (answer,) = store.transact([Claim(worker=name, workflows=("flow",), limit=5)])
        assert isinstance(answer, Claimed)
        if not answer.runs:
            return taken
        taken += [run.pk for run in answer.runs]
        assert store.transact([finish(run) for run in answer.runs]) == [Done()] * len(answer.runs)


def test_eight_processes_never_claim_a_run_twice(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.db")
    store = SqliteStore(path, SystemClock())
    started = store.transact([StartRun(run=run_row(f"r{n}")) for n in range(300)])
    pks = [answer.run.pk for answer in started if isinstance(answer, Started)]
    taken = in_processes(8, _claim_all, path)
    assert Counter(pk for each in taken for pk in each) == Counter(pks)
    assert store.info().counts == {Status.SUCCEEDED: 300}
    assert store.check() == []
    store.close()


def _start_the_same(n: int, path: str) -> tuple[int, bool]:
    store = SqliteStore(path, SystemClock())
    (answer,) = store.transact([StartRun(run=run_row("same", incarnation=f"inc-{n}", input=b"[1]"))])
    assert isinstance(answer, Started)
    return answer.run.pk, answer.created


def test_two_processes_that_start_the_same_start_one_run(tmp_path: Path) -> None:
    said = in_processes(5, _start_the_same, str(tmp_path / "agent.db"))
    assert len({pk for pk, _ in said}) == 1
    assert [created for _, created in said].count(True) == 1


# -- dying ---------------------------------------------------------------------


def _write_until_killed(there: Connection, path: str, name: str) -> None:
    store = SqliteStore(path, SystemClock())
    store.transact([Register(worker=WorkerRow(id=name, pid=os.getpid()), lease_s=600.0)])
    (answer,) = store.transact([StartRun(run=run_row(name, incarnation=name), claim_by=name)])
    assert isinstance(answer, Started)
    seq = 0
    while True:
        batch = [write(answer.run, record(seq + n, value=b"x" * 500)) for n in range(1, 4)]
        assert store.transact(batch) == [Done()] * 3
        seq += 3
        there.send(seq)


@pytest.mark.parametrize("seed", range(4))
def test_what_was_acknowledged_survives_a_writer_that_is_killed(tmp_path: Path, seed: int) -> None:
    path = str(tmp_path / "agent.db")
    chance = random.Random(seed)
    for life in range(3):
        name = f"w{life}"
        here, there = CLEAN.Pipe(duplex=False)
        process = CLEAN.Process(target=_write_until_killed, args=(there, path, name))
        process.start()
        there.close()
        acknowledged = 0
        for _ in range(chance.randrange(1, 60)):
            acknowledged = here.recv()
        threading.Event().wait(chance.random() * 0.002)  # somewhere in the middle of a commit
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        try:
            while here.poll(0):
                acknowledged = here.recv()
        except EOFError:
            pass
        store = SqliteStore(path, SystemClock())
        run = store.run(name)
        assert run is not None
        seqs = [row.seq for row in store.records(run.pk)]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) >= acknowledged
        assert len(seqs) % 3 == 0  # a batch is there whole or not at all
        assert store.check() == []
        store.close()
