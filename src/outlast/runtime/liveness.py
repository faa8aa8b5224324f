"""How one process on this machine knows at once that another has died.

Each worker holds a POSIX record lock on a file of its own. The kernel releases
it the instant the process is gone, however it died, and no child process
inherits it. The file's inode and the machine's boot id stand in the worker's row: a file that
does not match them proves nothing.

POSIX locks belong to the process: closing ANY descriptor of the file
releases them. So a process never opens a lock file of its own a second time
(`_held` remembers them), and each file has one descriptor, kept open until the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from enum import Enum

from outlast.core.records import WorkerRow

_held: set[tuple[int, int]] = set()  # (device, inode) of the lock files that this process holds
os.register_at_fork(after_in_child=_held.clear)  # the locks stay with the parent, and so does what is known of its life

_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, len, pid


class Alive(Enum):
    """What a lock file says of its worker's process."""

    YES = "alive"
    NO = "dead"
    UNKNOWN = "unknown"


class LockFile:
    """The lock of this process's own worker."""

    def __init__(self, folder: str, worker: str) -> None:
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, f"{worker}.lock")
        self._pid = os.getpid()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self._fd, f"{self._pid}\n".encode())
        stat = os.fstat(self._fd)
        self.inode = stat.st_ino
        self._name = (stat.st_dev, stat.st_ino)
        _held.add(self._name)

    def release(self) -> None:
        """Give the lock up and remove the file. In a forked child this does nothing: the lock is the parent's."""
        if self._fd < 0 or os.getpid() != self._pid:
            return
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        os.close(self._fd)
        self._fd = -1
        _held.discard(self._name)


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
