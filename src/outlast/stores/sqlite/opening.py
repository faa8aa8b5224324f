"""Opening a file as a store, and what SQLite's errors mean for one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import apsw

from outlast.core.errors import NotAStore, ReadOnlyStore, StoreError, StoreUnavailable
from outlast.stores.sqlite.locks import Patience, describe_holder
from outlast.stores.sqlite.schema import migrate, version_of

WAL_PAGES = 1000  # a commit that leaves more than this in the log copies it to the file: about 4 MB at a time
WAL_LEFT_BYTES = 16 * 2**20  # what stays on disk of a log that once had to grow longer

BUSY = (apsw.BusyError, apsw.LockedError)
# What the content of one verb can make the database, or the binding of a value, say.
REFUSALS = (apsw.ConstraintError, apsw.TooBigError, apsw.MismatchError, OverflowError, UnicodeEncodeError)
# What SQLite says where it can read a file, but cannot make or use the lock file beside it.
NEEDS_LOCK_FILE = (apsw.CantOpenError, apsw.ReadOnlyError)


@dataclass(frozen=True, slots=True)
class Handle:
    """A connection, and how long it waits for locks."""

    db: apsw.Connection
    patience: Patience


@dataclass
class StoreFile:
    """The file of a store: where it is, and how this process may open it."""

    path: str  # absolute: the process may change its directory
    read_only: bool
    busy_s: float
    immutable: bool = False  # nothing can be written beside it either, so no lock is possible and none is needed

    def first(self) -> Handle:
        """Open the file for the first time: make or migrate its tables, or find that it can only be read.

        Raises NotAStore, ReadOnlyStore or StoreUnavailable.
        """
        place = Path(self.path)
        if not place.parent.is_dir():
            raise StoreUnavailable(f"cannot open {self.path}: there is no directory {place.parent}; create it first")
        if place.is_dir():
            raise NotAStore(f"{self.path} is a directory, not a file; give the store a file")
        try:
            handle = self.open(write=not self.read_only)
        except NEEDS_LOCK_FILE as error:
            return self._first_without_locks(error)
        try:
            self.patiently(handle, lambda: self._prepare(handle.db))
        except NEEDS_LOCK_FILE as error:
            handle.db.close(True)
            return self._first_without_locks(error)
        except BaseException:
            handle.db.close(True)
            raise
        self.read_only = handle.db.readonly("main")
        return handle

    def _first_without_locks(self, error: apsw.Error) -> Handle:
        """Open a file in a place where no lock file can be made; only safe while no log has to be read."""
        if self.immutable or Path(self.path + "-wal").exists():
            raise StoreUnavailable(f"cannot open {self.path}: its lock file cannot be used ({error})") from error
        self.immutable = True
        return self.first()

    def again(self, *, write: bool) -> Handle:
        """Open a further connection to a file that was opened before. Raises StoreUnavailable."""
        try:
            return self.open(write=write)
        except NEEDS_LOCK_FILE as error:
            raise self.meaning(error) from error

    def open(self, *, write: bool) -> Handle:
        """Open a connection with the pragmas that every one of them needs."""
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE if write else apsw.SQLITE_OPEN_READONLY
        name = self.path
        if self.immutable:
            name, flags = f"file:{quote(self.path)}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        try:
            db = apsw.Connection(name, flags=flags, statementcachesize=200)
        except apsw.CantOpenError as error:
            raise self._no_access(write=write) from error
        handle = Handle(db, Patience(self.path, self.busy_s))
        db.set_busy_handler(handle.patience)
        try:
            self.patiently(handle, lambda: _configure(db))
        except BaseException:
            db.close(True)
            raise
        return handle

    def patiently(self, handle: Handle, action: Callable[[], object]) -> None:
        """Do something, again while the file is locked: SQLite does not wait by itself for some locks."""
        handle.patience.start()
        while True:
            try:
                action()
            except BUSY as error:
                if not handle.patience.wait():
                    raise self.locked() from error
            except NEEDS_LOCK_FILE:
                raise
            except apsw.Error as error:
                raise self.meaning(error, handle.db) from error
            else:
                return

    def _no_access(self, *, write: bool) -> StoreError:
        if Path(self.path).exists():
            return StoreUnavailable(f"cannot open {self.path}: this process may not read it")
        if write:
            return ReadOnlyStore(f"cannot create {self.path}: its directory cannot be written by this process")
        return StoreUnavailable(f"cannot open {self.path}: there is no such file")

    def _prepare(self, db: apsw.Connection) -> None:
        version = version_of(db, self.path)
        if not db.readonly("main"):
            if version == 0:
                db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has to come before the first table
            if db.pragma("journal_mode", "wal") != "wal":
                raise StoreUnavailable(f"{self.path}: no write-ahead log is possible here (a network file system?)")
        elif version == 0:
            raise ReadOnlyStore(f"{self.path} is empty and cannot be written, so no store can be made of it")
        migrate(db, self.path)

    def identity(self) -> tuple[int, int] | None:
        """Return what names the file itself, whatever its path; None when there is none. Opens nothing."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - on the way of every commit, and twice as fast
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def locked(self) -> StoreUnavailable:
        """Return the error for a lock that was waited for too long."""
        return StoreUnavailable(f"{self.path} has been locked for {self.busy_s:g} s: {describe_holder(self.path)}")

    def meaning(self, error: apsw.Error, db: apsw.Connection | None = None) -> StoreError:
        """Return the error that says what one of SQLite's means for a store."""
        match error:
            case apsw.NotADBError():
                return NotAStore(
                    f"{self.path} is not a SQLite file, so it is not an Outlast store; choose another file"
                )
            case apsw.CorruptError():
                return StoreError(f"{self.path} is damaged ({error}): run `outlast doctor` and restore a copy")
            case apsw.ReadOnlyError():
                return ReadOnlyStore(f"{self.path} can be read but not written ({error})")
            case apsw.FullError():
                return self._full()
            case apsw.IOError() if db is not None and db.system_errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                return self._full()
            case _:
                return StoreUnavailable(f"{self.path}: {error}")

    def _full(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"the disk that holds {self.path} is full; nothing acknowledged is lost, and work goes on when there is "
            "space again"
        )


def _configure(db: apsw.Connection) -> None:
    db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}").fetchall()
    db.execute(f"PRAGMA journal_size_limit = {WAL_LEFT_BYTES}").fetchall()
