"""A disk fills up and has space again; a file does not grow for ever."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from outlast.core.errors import StoreUnavailable
from outlast.core.records import RunRow
from outlast.runtime.clock import SystemClock
from outlast.stores.sqlite import SqliteStore
from outlast.stores.verbs import Done, Prune
from tests.conformance.world import SetClock, World, finish, record, release, write
from tests.unit.clean_processes import CLEAN

CHUNK = os.urandom(50_000)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 3 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a small file system")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(world: World, run: RunRow) -> int:
    """Write records until the disk is full; return how many were acknowledged."""
    seq = len(world.store.records(run.pk))
    while True:
        seq += 1
        try:
            assert world.do(write(run, record(seq, value=CHUNK))) == Done()
        except StoreUnavailable:
            break
    with pytest.raises(StoreUnavailable, match="is full; nothing acknowledged is lost"):
        world.do(write(run, record(seq, value=CHUNK)))
    return seq - 1


def test_a_full_disk_loses_nothing_and_work_goes_on_with_space(small_disk: Path) -> None:
    clock = SetClock()
    world = World(SqliteStore(str(small_disk / "agent.db"), clock), clock)
    run = world.running()
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 1_000_000)
    written = fill(world, run)
    assert fill(world, run) == written  # it says so again, and does not get worse
    assert [row.seq for row in world.store.records(run.pk)] == list(range(1, written + 1))
    ballast.unlink()
    assert world.do(write(run, record(written + 1, value=CHUNK))) == Done()
    assert world.store.check() == []
    world.store.close()
    again = SqliteStore(str(small_disk / "agent.db"), clock)
    assert len(again.records(run.pk)) == written + 1
    assert again.check() == []
    again.close()


def _write_under_a_limit(path: str) -> None:
    clock = SetClock()
    world = World(SqliteStore(path, clock), clock)
    run = world.running()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    written = fill(world, run)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert written > 5
    assert world.do(write(run, record(written + 1, value=CHUNK))) == Done()
    assert [row.seq for row in world.store.records(run.pk)] == list(range(1, written + 2))
    assert world.store.check() == []
    world.store.close()


def test_a_limit_on_the_size_of_files_is_a_full_disk(tmp_path: Path) -> None:
    process = CLEAN.Process(target=_write_under_a_limit, args=(str(tmp_path / "agent.db"),))
    process.start()
    process.join()
    assert process.exitcode == 0


def test_prune_gives_space_back(tmp_path: Path) -> None:
    path, clock = tmp_path / "agent.db", SetClock()
    world = World(SqliteStore(str(path), clock), clock)
    for n in range(40):
        run = world.running(f"r{n}")
        world.do(write(run, *(record(seq, value=CHUNK) for seq in range(1, 6))))
        world.do(finish(run, last_seq=5))
    checkpoint(path)
    full = path.stat().st_size
    assert full > 40 * 5 * len(CHUNK)
    clock.advance(1)
    world.do(Prune(before=clock.wall(), limit=30))
    checkpoint(path)
    assert path.stat().st_size < full * 0.35
    assert world.store.info().details["free_pages"] == 0
    assert world.store.check() == []
    world.store.close()


def checkpoint(path: Path) -> None:
    """Copy the log into the file, as happens by itself after enough commits."""
    db = apsw.Connection(str(path))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()


def test_the_log_stays_small_under_steady_writing(tmp_path: Path) -> None:
    path, clock = tmp_path / "agent.db", SetClock()
    world = World(SqliteStore(str(path), clock), clock)
    run = world.running()
    log = Path(f"{path}-wal")
    largest = 0
    for seq in range(1, 601):
        world.do(write(run, record(seq, value=CHUNK)))
        largest = max(largest, log.stat().st_size)
    assert path.stat().st_size > 20_000_000
    assert largest < 6_000_000
    world.store.close()
    assert not log.exists()


def test_a_log_that_a_long_reader_made_grow_shrinks_again(tmp_path: Path) -> None:
    path, clock = tmp_path / "agent.db", SetClock()
    world = World(SqliteStore(str(path), clock), clock)
    run = world.running()
    log = Path(f"{path}-wal")
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM runs").fetchall()
    for seq in range(1, 601):
        world.do(write(run, record(seq, value=CHUNK)))
    assert log.stat().st_size > 20_000_000
    assert world.store.info().details["wal_bytes"] == log.stat().st_size
    reader.execute("COMMIT")
    for seq in range(601, 604):
        world.do(write(run, record(seq)))
    assert log.stat().st_size <= 16 * 2**20
    reader.close()
    world.store.close()


def test_parking_a_run_with_long_arguments_writes_little(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    world = World(SqliteStore(str(path), SystemClock()), SetClock())
    run = world.running(input=b"x" * 3_000_000)
    checkpoint(path)
    before = Path(f"{path}-wal").stat().st_size
    for _ in range(10):
        world.do(release(run))
        (run,) = world.claim()
    assert Path(f"{path}-wal").stat().st_size - before < 500_000
    world.store.close()
