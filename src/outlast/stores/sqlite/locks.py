"""Waiting for the lock that a SQLite file has for its one writer, and naming who holds it."""

from __future__ import annotations

import logging
import os
import random
import threading
from pathlib import Path

logger = logging.getLogger("outlast.store")

# The `-shm` file's byte that the writer of a file in WAL mode locks; fixed by SQLite's file format.
WRITE_LOCK_BYTE = 120

FIRST_SLEEP_S = 0.0005
LONGEST_SLEEP_S = 0.03
WARN_AFTER_S = 5.0


def write_lock_holder(path: str) -> tuple[int, str] | None:
    """Return (pid, state) of the process that holds the write lock of the store at `path`, None when none is seen.

    `state` is the kernel's letter: `R` and `S` are alive, `T` is stopped
    (Ctrl-Z, SIGSTOP, a debugger) and holds the lock until it goes on or is
    killed; it is `?` where the process cannot be seen. Works where the kernel
    has /proc/locks; reads nothing of the store itself, since closing any file
    descriptor of it would drop this process's own locks.
    """
    try:
        inode = Path(os.path.realpath(path) + "-shm").stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        pid = _holder(line, inode)
        if pid is not None:
            return pid, _state(pid)
    return None


def _holder(line: str, inode: int) -> int | None:
    """Return the pid in a line of /proc/locks like `1: POSIX  ADVISORY  WRITE 4711 fd:01:1234 120 120`."""
    match line.split():
        case [_, "POSIX", _, "WRITE", pid, file, first, last] if int(file.split(":")[2]) == inode:
            end = WRITE_LOCK_BYTE if last == "EOF" else int(last)
            return int(pid) if int(first) <= WRITE_LOCK_BYTE <= end else None
        case _:
            return None  # another file, another kind of lock, or one that waits ("->")


def _state(pid: int) -> str:
    try:
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("State:"):
                return line.split()[1]
    except (OSError, IndexError):
        pass
    return "?"


def describe_holder(path: str) -> str:
    """Say who holds the write lock, for a message."""
    holder = write_lock_holder(path)
    if holder is None:
        return "it is not known who holds the lock"
    pid, state = holder
    if pid <= 0:
        return "a process that cannot be seen from here holds the lock (in another container?)"
    if state in ("T", "t"):
        return f"process {pid} holds the lock and is stopped: let it go on (kill -CONT {pid}) or end it"
    return f"process {pid} holds the lock"


class Patience:
    """Waits for a lock with back-off, up to a limit. It counts what it has slept, so it needs no clock.

    An instance is a connection's busy handler: SQLite calls it between two
    tries. Some locks fail at once without that (switching to WAL is one), so
    `wait` is also called by hand around whole statements.
    """

    def __init__(self, path: str, limit_s: float) -> None:
        self._path = path
        self._limit_s = limit_s
        self._tries = 0
        self._slept_s = 0.0
        self._warned = False

    def start(self) -> None:
        """Start anew, with all the time there is."""
        self._tries, self._slept_s, self._warned = 0, 0.0, False

    def wait(self) -> bool:
        """Sleep a little; False when the time is used up."""
        if self._slept_s >= self._limit_s:
            return False
        longest = min(FIRST_SLEEP_S * 2.0 ** min(self._tries, 10), LONGEST_SLEEP_S)
        nap_s = random.uniform(longest / 2, longest)
        self._tries += 1
        self._slept_s += nap_s
        threading.Event().wait(nap_s)
        if self._slept_s > WARN_AFTER_S and not self._warned:
            self._warned = True
            logger.warning("waiting for the write lock of %s: %s", self._path, describe_holder(self._path))
        return True

    def __call__(self, tries: int) -> bool:
        """Return whether SQLite is to try again."""
        return self.wait()
