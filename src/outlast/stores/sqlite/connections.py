"""The connections of one process to one file.

One connection writes, guarded by a lock. Readers come from a small pool, each
used by one thread at a time, so that threads that come and go leave nothing
open. One more only watches for changes.

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
from typing import TypeVar

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
        self._write_lock = threading.RLock()
        self._gate = threading.Condition()  # guards all below
        self._shut = False  # while the process forks
        self._reading = 0
        self._idle: deque[Handle] = deque()
        self._generation = 0  # how often all connections were closed
        self._watcher: Handle | None = None
        self._writer: Handle | None = self.file.first()
        self._identity = self.file.identity()
        _open.add(self)

    # -- using -------------------------------------------------------------------

    def write(self, action: Callable[[apsw.Connection], T]) -> T:
        """Run `action` in a transaction that holds the file's write lock, and commit. Any error rolls it back.

        Raises StoreUnavailable when the lock cannot be had, what the disk or the file say, or what `action` raises.
        """
        with self._write_lock:
            handle = self._ready_to_write()
            handle.patience.start()
            while True:
                try:
                    return _commit(handle.db, action)
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

    def _ready_to_write(self) -> Handle:
        if self._closed or os.getpid() != self._pid:
            self._check_process()
        if self.file.read_only:
            raise ReadOnlyStore(f"{self.file.path} can be read but not written")
        if self.file.identity() != self._identity:
            raise StoreUnavailable(
                f"{self.file.path} was moved, deleted or replaced while it was in use: put it back, or start again"
            )
        if self._writer is None:
            self._writer = self.file.open(write=True)
        return self._writer

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer:
            writer.db.close(True)

    def read(self, action: Callable[[apsw.Connection], T]) -> T:
        """Run `action`, which only reads, inside one snapshot; again when the file was locked."""
        handle = self._borrow()
        try:
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
            self._give_back(handle)

    def _borrow(self) -> Handle:
        self._check_process()
        with self._gate:
            while self._shut:
                self._gate.wait()
            self._reading += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self.file.open(write=False)
        except BaseException:
            with self._gate:
                self._reading -= 1
                self._gate.notify_all()
            raise

    def _give_back(self, handle: Handle) -> None:
        with self._gate:
            if self._closed or len(self._idle) >= IDLE_READERS:
                handle.db.close(True)
            else:
                self._idle.append(handle)
            self._reading -= 1
            self._gate.notify_all()

    def change(self) -> int:
        """Return a number that differs after any other connection has committed something."""
        self._check_process()
        with self._gate:
            while self._shut:
                self._gate.wait()
            if self._watcher is None:
                self._watcher = self.file.open(write=False)
            db = self._watcher.db
            try:
                return (self._generation << 32) + int(db.pragma("data_version"))
            except apsw.Error as error:
                raise self.file.meaning(error, db) from error

    def _check_process(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"the store {self.file.path} is closed")
        if os.getpid() != self._pid:
            raise _inherited_error(self.file.path, self._pid)

    # -- closing -----------------------------------------------------------------

    def close(self) -> None:
        """Close all connections; a reader that is in use closes its own when it is done."""
        with self._write_lock, self._gate:
            if not self._closed and os.getpid() == self._pid:
                self._closed = True
                self._close_all()

    def _close_all(self) -> None:
        self._generation += 1
        self._drop_writer()
        watcher, self._watcher = self._watcher, None
        for handle in (*self._idle, *((watcher,) if watcher else ())):
            handle.db.close(True)
        self._idle.clear()

    def before_fork(self) -> None:
        """Close everything and let nobody open anything until `after_fork`; give up after a while."""
        if not self._write_lock.acquire(timeout=FORK_PATIENCE_S):
            return
        with self._gate:
            if not self._gate.wait_for(lambda: self._reading == 0, FORK_PATIENCE_S):
                self._write_lock.release()
                return
            self._shut = True
            for handle in (self._writer, self._watcher, *self._idle):
                if handle:  # copying the log into the file can wait for a better time
                    handle.db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._close_all()

    def after_fork(self) -> bool:
        """Go on, in the parent or in the child; False in a child that inherited open connections."""
        if self._shut:
            with self._gate:
                self._shut = False
                self._gate.notify_all()
            self._write_lock.release()
            self._pid = os.getpid()
        return self._pid == os.getpid()


def _commit(db: apsw.Connection, action: Callable[[apsw.Connection], T]) -> T:
    db.execute("BEGIN IMMEDIATE")
    try:
        result = action(db)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            with suppress(apsw.Error):  # the first error says more
                db.execute("ROLLBACK")
        raise
    return result


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
        if identity is not None and connections._identity == identity:
            raise _inherited_error(file.path, connections._pid)


def _inherited_error(path: str, parent: int) -> StoreUnavailable:
    return StoreUnavailable(
        f"the store {path} was in use by process {parent} when it forked this one, so it cannot be used here; "
        "start the child with the method 'spawn' or 'forkserver'"
    )
