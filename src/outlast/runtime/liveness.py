"""How one process on this machine knows at once that another has died.

Each worker holds a POSIX record lock on a file of its own. The kernel releases
it the instant the process is gone, however it died, and no child process
inherits it. The file's inode and the machine's boot id stand in the worker's row: a file that
does not match them proves nothing.

The file says, too, whether a thread of its process executes an attempt of a `once` step, or since when none does: a
thread cannot be stopped, so it outlives its attempt's time, the App that is closed, and a lease that was lost.

POSIX locks belong to the process: closing ANY descriptor of the file
releases them. So a process never opens a lock file of its own a second time
(`_held` remembers them), and each file has one descriptor, kept open until the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import threading
from collections.abc import Callable
from enum import Enum
from math import inf

from outlast.core.records import WorkerRow

_held: dict[tuple[int, int], LockFile] = {}  # (device, inode) of the lock files that this process holds
os.register_at_fork(after_in_child=_held.clear)  # the locks stay with the parent, and so does what is known of its life

_IDLE = "executes no once step in a thread since "
_SAID_BYTES = 96
LOOK_AGAIN_S = 0.25
_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, len, pid


class Alive(Enum):
    """What a lock file says of its worker's process."""

    YES = "alive"
    NO = "dead"
    UNKNOWN = "unknown"


class LockFile:
    """The lock of this process's own worker."""

    def __init__(self, folder: str, worker: str, boot_clock: Callable[[], float]) -> None:
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, f"{worker}.lock")
        self._pid = os.getpid()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._clock = boot_clock
        self._guard = threading.Lock()
        self._threads = 0  # that execute attempts of `once` steps
        self._had_threads = False
        self._idle_since = self._until = boot_clock()
        self._say()
        stat = os.fstat(self._fd)
        self.inode = stat.st_ino
        self._name = (stat.st_dev, stat.st_ino)
        _held[self._name] = self

    @property
    def last_sent(self) -> float:
        """When, by the boot clock, a thread last executed an attempt of a `once` step here; inf while one does."""
        return inf if self._threads else self._idle_since

    def once_begins(self, timeout: float) -> None:
        """An attempt of a `once` step begins, which may take so long."""
        self._until = max(self._until, self._clock() + timeout)

    def thread_begins(self) -> None:
        """A thread is about to execute it. Raises OSError where that cannot be said."""
        with self._guard:
            self._threads += 1
            self._had_threads = True
            try:
                self._say()
            except OSError:
                self._threads -= 1
                raise

    def thread_is_over(self) -> None:
        """The thread has left the step. (Called in it.)"""
        with self._guard:
            self._threads -= 1
            self._idle_since = self._clock()
            with contextlib.suppress(OSError):  # then it counts as executing, which is safe
                self._say()

    def _say(self) -> None:
        if self._fd >= 0 and os.getpid() == self._pid:
            said = "executes a once step in a thread" if self._threads else f"{_IDLE}{self._idle_since:.6f}"
            os.pwrite(self._fd, f"{self._pid} {said}".ljust(_SAID_BYTES - 1).encode() + b"\n", 0)

    def give_up_when_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the lock up as soon as no attempt of a `once` step that was begun under it may still send.

        Where there was a thread the file stays: who finds it unlocked knows that nothing is sent from then on.
        """
        if self._threads or self._clock() < self._until:
            loop.call_later(LOOK_AGAIN_S, self.give_up_when_idle, loop)
        else:
            self._close(unlink=not self._had_threads)

    def release(self) -> None:
        """Give the lock up and remove the file. In a forked child this does nothing: the lock is the parent's."""
        self._close(unlink=True)

    def _close(self, *, unlink: bool) -> None:
        with self._guard:
            if self._fd < 0 or os.getpid() != self._pid:
                return
            if unlink:
                with contextlib.suppress(OSError):
                    os.unlink(self.path)
            os.close(self._fd)
            self._fd = -1
            _held.pop(self._name, None)


def probe(row: WorkerRow, boot_id: str) -> Alive:
    """Ask the kernel whether a worker's process lives. Only a matching file whose lock is free says NO."""
    if not row.lock_path:
        return Alive.UNKNOWN
    if row.boot != boot_id:
        return Alive.UNKNOWN  # another machine, or before a restart: the lease decides
    try:
        stat = os.stat(row.lock_path)
    except OSError:
        return Alive.UNKNOWN  # removed: the lease decides
    if stat.st_ino != row.lock_inode:
        return Alive.UNKNOWN
    if (stat.st_dev, stat.st_ino) in _held:
        return Alive.YES
    try:
        fd = os.open(row.lock_path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return Alive.UNKNOWN
    try:
        return Alive.YES if _is_locked(fd) else Alive.NO
    finally:
        os.close(fd)


def last_sent(row: WorkerRow, boot_id: str) -> float | None:
    """Return when, by the boot clock, a thread of a worker last executed an attempt of a `once` step.

    inf while it may execute one, or its process has just ended; None where there is no lock to ask.
    """
    match probe(row, boot_id):
        case Alive.UNKNOWN:
            return None
        case Alive.NO:
            return inf  # that will stand in its row in a moment, with the time
        case Alive.YES:
            try:
                stat = os.stat(row.lock_path)
                mine = _held.get((stat.st_dev, stat.st_ino))
                if mine is not None:
                    return mine.last_sent
                with open(row.lock_path, "rb") as file:
                    said = file.read(_SAID_BYTES).decode()
                return float(said.partition(_IDLE)[2])
            except (OSError, ValueError):
                return inf


def _is_locked(fd: int) -> bool:
    """Look whether another process holds the lock, without taking it even for a moment."""
    try:
        query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind: int = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, query))[0]
    except (OSError, struct.error):  # a platform with another layout: try the lock itself
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.lockf(fd, fcntl.LOCK_UN)
        return False
    return kind != fcntl.F_UNLCK


def remove_lock_file(row: WorkerRow) -> None:
    """Remove what a dead worker left behind."""
    with contextlib.suppress(OSError):
        if row.lock_path and os.stat(row.lock_path).st_ino == row.lock_inode:
            os.unlink(row.lock_path)
