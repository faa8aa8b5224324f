"""What PostgreSQL's errors mean for a store. No error of psycopg reaches a user."""

from __future__ import annotations

import struct

import psycopg
from psycopg import errors

from outlast.core.errors import NotAStore, ReadOnlyStore, StoreError, StoreUnavailable
from outlast.stores.postgres.address import Address

# What the content of one verb can make the server, or the writing of a parameter, say.
REFUSALS = (
    psycopg.DataError,
    psycopg.IntegrityError,
    errors.ProgramLimitExceeded,
    errors.PipelineAborted,  # some statement before was refused; which one is seen when they go one by one
    struct.error,
    OverflowError,
    UnicodeEncodeError,
)

TRANSIENT = (errors.SerializationFailure, errors.DeadlockDetected)

# What a pooler's change of server connections makes of statements that were prepared on another.
NOT_PREPARED = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)

# After these the connection is of no use, though it may still be open: another server may be the one to ask by now.
USELESS = (
    errors.ReadOnlySqlTransaction,
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
    errors.FeatureNotSupported,  # "cached plan must not change result type", after a migration
    *NOT_PREPARED,
)

NO_DATABASE = "3D000"
ENDED_FOR_ITS_AGE = ("25P03", "25P04")  # a transaction that was idle, or open, for too long
WRONG_PASSWORD = ("28P01", "28000")


def is_dead(error: psycopg.Error, db: psycopg.Connection[object] | None) -> bool:
    """Tell whether a connection cannot be used any more after this error."""
    return isinstance(error, USELESS) or db is None or db.closed


def meaning(error: psycopg.Error, address: Address) -> StoreError:
    """Return the error that says what one of PostgreSQL's means for a store."""
    where, words = address.text, " ".join(str(error).split())
    match error:
        case errors.ReadOnlySqlTransaction():
            return ReadOnlyStore(f"{where} can be read but not written: the server is read-only (a standby?)")
        case errors.DiskFull():
            return StoreUnavailable(
                f"the disk of {where} is full; nothing acknowledged is lost, and work goes on when there is space again"
            )
        case errors.InsufficientPrivilege():
            return StoreUnavailable(f"{where}: the user may not do this: {words}")
        case errors.UndefinedTable() | errors.InvalidSchemaName():
            return NotAStore(f"{where}: its tables were dropped while it was in use ({words})")
        case psycopg.Error() if error.sqlstate in ENDED_FOR_ITS_AGE:
            return StoreUnavailable(f"{where}: a transaction took too long: this process fell silent in it ({words})")
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return StoreError(f"{where} is damaged ({words}): run `outlast doctor` and restore a copy")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return StoreUnavailable(f"{where}: {words}")
        case _:
            return StoreError(f"{where}: {type(error).__name__}: {words}")


def why_no_connection(error: psycopg.Error, address: Address) -> StoreError:
    """Return the error for a server that could not be connected to. psycopg gives these no SQLSTATE."""
    where, words = address.text, " ".join(str(error).split())
    if error.sqlstate == NO_DATABASE or ("database" in words and "does not exist" in words):
        return StoreUnavailable(f"cannot open {where}: there is no such database; create it first (createdb)")
    if error.sqlstate in WRONG_PASSWORD or "authentication failed" in words or "no password supplied" in words:
        return StoreUnavailable(f"cannot open {where}: the server refused the user or the password ({words})")
    return StoreUnavailable(f"cannot open {where}: {words}")
