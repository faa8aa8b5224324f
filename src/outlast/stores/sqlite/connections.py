"""The connections of one process to one file.

One connection writes, guarded by a lock, and tells what others have committed:
for SQLite what it commits itself is no change. Readers come from a small pool,
each used by one thread at a time, so that threads that come and go leave nothing
open.

No code here or elsewhere may open the file, its `-wal` or its `-shm` by any
other means: when a process closes any descriptor of a file, the kernel drops
all locks that the process has on it.

**Fork.** SQLite keeps its locks in tables of the process, and a child inherits
the tables but not the locks. A connection that the child opens by itself then
believes that it holds locks which it does not, and what it commits can vanish.
So before Python forks, all connections are closed, and parent and child open
new ones when they need them. Where that cannot be done (a transaction that
waits, a fork from outside Python), the child is refused the file.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import apsw

from outlast.core.errors import ReadOnlyStore, StoreUnavailable
from outlast.stores.sqlite.opening import BUSY, REFUSALS, Handle, StoreFile

T = TypeVar("T")

IDLE_READERS = 4
FORK_PATIENCE_S = 5.0


class Connections:
    """Keeps connections, opens them when they are needed, and lets one thread at a time use each."""

    def __init__(self, path: str, *, read_only: bool, busy_s: float) -> None:
        self.file = StoreFile(os.path.abspath(path), read_only, busy_s)  # noqa: PTH100 - resolve() follows links
        _refuse_inherited(self.file)
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.RLock()  # guards what follows, is never held for long, and is held during a fork
        self._gate = threading.Condition(self._lock)
        self._shut = False  # nobody may begin to use a connection: the process is about to fork
        self._users = 1  # this thread, which opens the file
        self._idle: deque[Handle] = deque()
        self._write_lock = threading.Lock()  # of the connection that writes; taken by users only
        self._writer: Handle | None = None
        self._writers = 0  # how many there have been before that
        self._waits = False  # for other processes to let a write begin
        self._unseen = 0  # looks for changes meanwhile
        self.version = 0  # of what others have committed, as the connection that writes saw it last
        self.identity: tuple[int, int] | None = None
        _open.add(self)
        try:
            self._writer = self.file.first()
            self.identity = self.file.identity()
        except BaseException:
            self._closed = True
            raise
        finally:
            self._leave()

    @property
    def pid(self) -> int:
        """Return the process whose connections these are."""
        return self._pid

    # -- using -------------------------------------------------------------------

    def write(self, action: Callable[[apsw.Connection], T]) -> T:
        """Run `action` in a transaction that holds the file's write lock, and commit. Any error rolls it back.

        Raises StoreUnavailable when the lock cannot be had, what the disk or the file say, or what `action` raises.
        """
        self._enter()
        try:
            with self._write_lock:
                handle = self._ready_to_write()
                handle.patience.start()
                self._waits = True
                while True:
                    try:
                        return self._commit(handle.db, action)
                    except BUSY as error:
                        if not handle.patience.wait():
                            raise self.file.locked() from error
                    except REFUSALS:
                        raise
                    except apsw.Error as error:
                        meaning = self.file.meaning(error, handle.db)
                        if handle.db.in_transaction or isinstance(error, apsw.IOError | apsw.CantOpenError):
                            self._drop_writer()  # what it knows of the file may be wrong from now on
                        raise meaning from error
        finally:
            self._waits = False
            self._leave()

    def _commit(self, db: apsw.Connection, action: Callable[[apsw.Connection], T]) -> T:
        db.execute("BEGIN IMMEDIATE")
        self._waits = False
        try:
            self._see_version(db)
            result = action(db)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                with suppress(apsw.Error):  # the first error says more
                    db.execute("ROLLBACK")
            raise
        return result

    def _see_version(self, db: apsw.Connection) -> None:
        version: Any = db.execute("PRAGMA data_version").get  # half the time of `db.pragma`
        self.version = (self._writers << 32) + int(version)

    def _ready_to_write(self) -> Handle:
        if self.file.read_only:
            raise ReadOnlyStore(f"{self.file.path} can be read but not written")
        if self.file.identity() != self.identity:
            raise StoreUnavailable(
                f"{self.file.path} was moved, deleted or replaced while it was in use: put it back, or start again"
            )
        if self._writer is None:
            self._writer = self.file.again(write=True)
        return self._writer

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        self._writers += 1
        if writer:
            writer.db.close(True)

    def read(self, action: Callable[[apsw.Connection], T]) -> T:
        """Run `action`, which only reads, inside one snapshot; again when the file was locked."""
        self._enter()
        handle: Handle | None = None
        try:
            handle = self._idle.pop() if self._idle else self.file.again(write=False)
            handle.patience.start()
            while True:
                try:
                    return _look(handle.db, action)
                except BUSY as error:
                    if not handle.patience.wait():
                        raise self.file.locked() from error
                except apsw.Error as error:
                    raise self.file.meaning(error, handle.db) from error
        finally:
            self._leave(handle)

    def change(self) -> int:
        """Return a number that differs after another process, or another store in this one, may have committed."""
        self._enter()
        try:
            if self._write_lock.acquire(blocking=False):
                try:
                    self._look_for_changes()
                finally:
                    self._write_lock.release()
            elif self._waits:  # nobody can say what they commit until it has begun; then it says so itself
                self._unseen += 1
            return self.version + (self._unseen << 64)
        finally:
            self._leave()

    def _look_for_changes(self) -> None:
        handle = self._writer = self._writer or self.file.again(write=not self.file.read_only)
        try:
            self._see_version(handle.db)
        except apsw.Error as error:
            raise self.file.meaning(error, handle.db) from error

    def _enter(self) -> None:
        if os.getpid() != self._pid:  # before the gate: a lock that was inherited may be held for ever
            raise inherited(self.file.path, self._pid)
        with self._lock:
            while self._shut:
                self._gate.wait()
            if self._closed:
                raise StoreUnavailable(f"the store {self.file.path} is closed")
            self._users += 1

    def _leave(self, handle: Handle | None = None) -> None:
        with self._lock:
            if handle and (self._closed or len(self._idle) >= IDLE_READERS):
                handle.db.close(True)
            elif handle:
                self._idle.append(handle)
            self._users -= 1
            if self._shut or self._closed:  # somebody waits for the last user
                self._gate.notify_all()

    # -- closing -----------------------------------------------------------------

    def close(self) -> None:
        """Let nobody begin to use a connection any more, wait for those who do, and close all."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._gate.wait_for(lambda: not self._users)
                self._close_all()

    def _close_all(self) -> None:
        for handle in self._idle:
            handle.db.close(True)
        self._idle.clear()
        self._drop_writer()  # last: only who may write can tidy the log away

    def before_fork(self) -> None:
        """Close everything and hold the gate until `after_fork`. Gives up on users that take too long."""
        self._lock.acquire()
        self._shut = True
        if not self._closed and self._gate.wait_for(lambda: not self._users, FORK_PATIENCE_S):
            for handle in (self._writer, *self._idle):
                if handle:  # copying the log into the file can wait for a better time
                    handle.db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._close_all()

    def after_fork(self) -> bool:
        """Go on, in the parent or in the child; False in a child that inherited open connections."""
        clean = not self._users
        if clean:
            self._pid = os.getpid()
        self._shut = False
        self._gate.notify_all()
        self._lock.release()
        return clean


def _look(db: apsw.Connection, action: Callable[[apsw.Connection], T]) -> T:
    db.execute("BEGIN")
    try:
        return action(db)
    finally:
        if db.in_transaction:
            db.execute("COMMIT")


# -- fork ------------------------------------------------------------------------

_open: weakref.WeakSet[Connections] = weakref.WeakSet()
_inherited: list[Connections] = []  # kept for ever: closing them in the child would be as wrong as using them


def _before_fork() -> None:
    for connections in list(_open):
        connections.before_fork()


def _after_fork_in_parent() -> None:
    for connections in list(_open):
        connections.after_fork()


def _after_fork_in_child() -> None:
    _inherited.extend(connections for connections in list(_open) if not connections.after_fork())


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def _refuse_inherited(file: StoreFile) -> None:
    identity = file.identity()
    for connections in _inherited:
        if connections.file.path == file.path or (identity is not None and connections.identity == identity):
            raise inherited(file.path, connections.pid)


def inherited(path: str, parent: int) -> StoreUnavailable:
    """Return the error for a store whose connections were open when the process was forked."""
    return StoreUnavailable(
        f"the store {path} was in use by process {parent} when it forked this one, so it cannot be used here; "
        "start the child with the method 'spawn' or 'forkserver'"
    )


def is_open_here(path: str) -> bool:
    """Tell whether a file is open as a store in this process. Opens nothing."""
    try:
        found = os.stat(path)  # noqa: PTH116 - as for the store's own
    except OSError:
        return False
    return any(not each._closed and each.identity == (found.st_dev, found.st_ino) for each in list(_open))
