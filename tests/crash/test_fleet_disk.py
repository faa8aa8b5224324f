"""The disk of the server's log is full in the middle of a commit: the server falls over, and nothing is lost by it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.crash.harness.fleet import Fleet
from tests.crash.harness.scene import Zygote
from tests.crash.harness.verdict import judge
from tests.crash.harness.worker import find
from tests.support.server import Server, run_as_server

SEGMENT = 1_000_000


@pytest.fixture
def log_disk() -> Iterator[Path]:
    """Return a file system of 32 MB that the server may write to."""
    place = Path(tempfile.mkdtemp(prefix="outlast-disk-"))
    place.chmod(0o755)
    command = ["mount", "-t", "tmpfs", "-o", "size=32m,mode=777", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small file system")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
    place.rmdir()


@pytest.fixture
def server(log_disk: Path) -> Iterator[Server]:
    """Return a server whose log, in segments of 1 MB, has that disk to itself."""
    log = log_disk / "wal"
    run_as_server("mkdir", "--mode=700", str(log))
    with Server(min_wal_size="2MB", max_wal_size="100MB") as made:
        yield made.make("--wal-segsize=1", f"--waldir={log}").start()


@pytest.fixture
def fleet(zygote: Zygote, server: Server, tmp_path: Path) -> Iterator[Fleet]:
    url = f"{server.url}&answer_timeout=1&connect_timeout=2"
    made = Fleet(zygote, tmp_path / "scene", url, f"{server.url}&open_timeout=30", lease=2.0, pace_s=0.02)
    yield made
    made.close()


def fill(disk: Path) -> Path:
    """Leave less space than the next segment of the log takes."""
    ballast, free = disk / "ballast", os.statvfs(disk)
    ballast.write_bytes(b"x" * (free.f_bavail * free.f_frsize - SEGMENT // 2))
    return ballast


def start_runs(server: Server, fleet: Fleet) -> None:
    """Start runs, each in another segment of the log; who asks while the server is away waits for it."""
    with fleet.client() as app:
        for n in range(12):
            with suppress(psycopg.Error):
                server.execute("SELECT pg_switch_wal()")
            run = app.start(find("errand")(f"n{n}"), id=f"errand-n{n}")
            fleet.accepted[run.id] = ("errand", [f"n{n}"])


def test_a_server_that_falls_over_since_its_log_s_disk_is_full_loses_nothing(
    fleet: Fleet, server: Server, log_disk: Path
) -> None:
    crew = [fleet.worker() for _ in range(2)]
    fleet.start(("gated", "one"))
    fleet.until("it waits at its gate", lambda: fleet.effects("pass_gate"))
    ballast = fill(log_disk)
    starting = threading.Thread(target=start_runs, args=[server, fleet])
    starting.start()
    log = server.folder / "log"
    fleet.until("the server has fallen over", lambda: "No space left on device" in log.read_text())
    for worker in crew:
        worker.wait("store.unavailable")
    fleet.open_gate("one")  # its step ends while nothing can be recorded
    ballast.unlink()
    server.restart(signal.SIGKILL)  # it has come up by itself, has ended, or (PostgreSQL 18) hangs in its recovery
    starting.join()
    assert len(fleet.accepted) == 13
    assert judge(fleet) == []
    assert fleet.repeats() == []
    assert not any(worker.ended for worker in crew)
