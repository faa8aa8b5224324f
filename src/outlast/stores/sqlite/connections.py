"""The connections of one process to one file, and what the file's errors mean.

One connection writes, guarded by a lock. Readers come from a small pool, each
used by one thread at a time, so that threads that come and go leave nothing
open. One more only watches for changes.

No code here or elsewhere may open the file, or its `-wal` and `-shm`, by any
other means: when a process closes any descriptor of a file, the kernel drops
all locks that the process has on it.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import apsw

from outlast.core.errors import NotAStore, ReadOnlyStore, StoreError, StoreUnavailable
from outlast.stores.sqlite.locks import Patience, describe_holder
from outlast.stores.sqlite.schema import migrate, version_of

T = TypeVar("T")

IDLE_READERS = 4
WAL_PAGES = 1000  # a commit that leaves more than this in the WAL copies them to the file: about 4 MB
WAL_LEFT_BYTES = 16 * 2**20  # what stays of a WAL that once had to grow
BUSY = (apsw.BusyError, apsw.LockedError)
# What the content of one verb can make the database, or the binding of a value, say.
REFUSALS = (apsw.ConstraintError, apsw.TooBigError, apsw.MismatchError, OverflowError, UnicodeEncodeError)


class Connections:
    """Opens and keeps connections. Not to be used in a child process after fork: see `check_process`."""

    def __init__(self, path: str, *, read_only: bool, busy_s: float) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100 - resolve() would follow links; chdir must not matter
        self._place = Path(self.path)
        self.busy_s = busy_s
        self.read_only = read_only
        self.write_lock = threading.RLock()
        self._pid = os.getpid()
        self._idle: deque[tuple[apsw.Connection, Patience]] = deque()
        self._closed = False
        self._check_place()
        self._writer, self._patience = self._open(write=not read_only)
        try:
            self.patiently(self._patience, lambda: self._prepare(self._writer))
            self.read_only = self._writer.readonly("main")
            self._watcher, self._watching = self._open(write=False)
        except BaseException:
            self._writer.close()
            raise
        self._watch_lock = threading.Lock()
        self._file = self._identity()

    # -- opening -----------------------------------------------------------------

    def _check_place(self) -> None:
        if not self._place.parent.is_dir():
            raise StoreUnavailable(
                f"cannot open {self.path}: there is no directory {self._place.parent}; create it first"
            )
        if self._place.is_dir():
            raise NotAStore(f"{self.path} is a directory, not a file")

    def _open(self, *, write: bool) -> tuple[apsw.Connection, Patience]:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE if write else apsw.SQLITE_OPEN_READONLY
        try:
            db = apsw.Connection(self.path, flags=flags, statementcachesize=200)
        except apsw.CantOpenError:
            db = self._open_otherwise(write=write)
        patience = Patience(self.path, self.busy_s)
        db.set_busy_handler(patience)
        db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
        db.execute(f"PRAGMA journal_size_limit = {WAL_LEFT_BYTES}")
        return db, patience

    def _open_otherwise(self, *, write: bool) -> apsw.Connection:
        if not self._place.exists():
            what = "cannot be created: its directory cannot be written" if write else "does not exist"
            raise StoreUnavailable(f"cannot open {self.path}: the file {what}")
        raise StoreUnavailable(f"cannot open {self.path}: this process may not read it")

    def _prepare(self, db: apsw.Connection) -> None:
        version = version_of(db, self.path)
        if db.readonly("main"):
            if version == 0:
                raise ReadOnlyStore(f"{self.path} is empty and cannot be written, so no store can be made of it")
        else:
            if version == 0:
                db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has to come before the first table
            mode = db.pragma("journal_mode", "wal")
            if mode != "wal":
                raise StoreUnavailable(f"{self.path}: no write-ahead log is possible here (a network file system?)")
        migrate(db, self.path)

    def _identity(self) -> tuple[int, int]:
        found = self._place.stat()  # opens nothing
        return found.st_dev, found.st_ino

    # -- using -------------------------------------------------------------------

    def patiently(self, patience: Patience, action: Callable[[], T]) -> T:
        """Do something, again while the file is locked. Raises StoreUnavailable when that lasts too long."""
        patience.start()
        while True:
            try:
                return action()
            except BUSY as error:
                if not patience.wait():
                    raise StoreUnavailable(
                        f"{self.path} has been locked for {self.busy_s:.0f} s; {describe_holder(self.path)}"
                    ) from error
            except apsw.Error as error:
                raise self.meaning(error) from error

    @contextmanager
    def writer(self) -> Iterator[apsw.Connection]:
        """Hold the connection that writes, inside a transaction that is rolled back unless the caller commits it."""
        with self.write_lock:
            self.check_process()
            if self.read_only:
                raise ReadOnlyStore(f"{self.path} can be read but not written")
            self._check_file()
            db = self._writer
            try:
                self.patiently(self._patience, lambda: db.execute("BEGIN IMMEDIATE"))
                yield db
            except REFUSALS:
                raise
            except apsw.Error as error:
                raise self.meaning(error) from error
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextmanager
    def reader(self) -> Iterator[apsw.Connection]:
        """Hold a connection that reads, for one short look inside one snapshot."""
        self.check_process()
        try:
            db, patience = self._idle.pop()
        except IndexError:
            db, patience = self._open(write=False)
        try:
            self.patiently(patience, lambda: db.execute("BEGIN"))
            yield db
        except apsw.Error as error:
            raise self.meaning(error) from error
        finally:
            if db.in_transaction:
                db.execute("COMMIT")
            if self._closed or len(self._idle) >= IDLE_READERS:
                db.close()
            else:
                self._idle.append((db, patience))

    def change(self) -> int:
        """Return a number that differs after any other connection has committed something."""
        self.check_process()
        with self._watch_lock:
            return int(self.patiently(self._watching, lambda: self._watcher.pragma("data_version")))

    def check_process(self) -> None:
        """Refuse to work in a child of the process that opened the file, and after close."""
        if self._closed:
            raise StoreUnavailable(f"the store {self.path} is closed")
        if os.getpid() != self._pid:
            raise StoreUnavailable(
                f"the store {self.path} was opened by process {self._pid} before it forked this one; "
                "open it in the child, after the fork"
            )

    def _check_file(self) -> None:
        try:
            same = self._identity() == self._file
        except OSError:
            same = False
        if not same:
            raise StoreUnavailable(
                f"{self.path} was moved, deleted or replaced while it was in use; put it back, or restart this process"
            )

    def meaning(self, error: apsw.Error) -> StoreError:
        """Return the error that says what one of SQLite's means for a store."""
        full = isinstance(error, apsw.FullError)
        if isinstance(error, apsw.IOError):
            full = self._writer.system_errno in (errno.ENOSPC, errno.EDQUOT)
        match error:
            case apsw.NotADBError():
                return NotAStore(
                    f"{self.path} is not a SQLite file, so it is not an Outlast store; choose another file"
                )
            case apsw.CorruptError():
                return StoreError(f"{self.path} is damaged ({error}); run `outlast doctor`, restore a copy")
            case apsw.ReadOnlyError():
                return ReadOnlyStore(f"{self.path} can be read but not written ({error})")
            case _ if full:
                return StoreUnavailable(
                    f"the disk that holds {self.path} is full; nothing acknowledged is lost, and work goes on "
                    "when there is space again"
                )
            case _:
                return StoreUnavailable(f"{self.path}: {error}")

    def close(self) -> None:
        """Close all connections; a reader that is in use closes its own when it is done."""
        with self.write_lock:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
            with self._watch_lock:
                self._watcher.close()
            while self._idle:
                self._idle.pop()[0].close()
            self._writer.close()
