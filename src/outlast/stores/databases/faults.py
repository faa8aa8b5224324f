"""What an error of a driver says of its transaction, whichever driver it is of."""

from __future__ import annotations

LOST_STATES = ("08", "57P01", "57P02", "57P03", "25P03")
"""SQLSTATEs after which a connection is no more: connection exceptions, shutdowns, time in a transaction over."""
NO_SAVEPOINT_STATES = ("3B001", "25P01")
NO_TABLE_STATES = ("42P01",)


def is_lost(error: BaseException) -> bool:
    """Tell whether the connection was lost, so that nobody knows what became of a COMMIT that was on its way."""
    if getattr(error, "connection_invalidated", False):
        return True
    error = _driver_error(error)
    if isinstance(error, ConnectionError):
        return True
    state = _state(error)
    if state:
        return state.startswith(LOST_STATES)
    # These very classes: one that is derived of them, such as the PoolTimeout of a pool, says what else it is.
    return type(error).__name__ in ("OperationalError", "InterfaceError") and not _sqlite_name(error)


def passes(error: BaseException) -> bool:
    """Tell whether the same transaction may succeed when it is tried again: it met another one, or lost its connection.

    Class 40 of SQLSTATE is for transactions that were rolled back so that others could go on: serialization failures
    and deadlocks.
    """
    name = _sqlite_name(_driver_error(error))
    if name:
        return name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
    return _state(_driver_error(error)).startswith("40") or is_lost(error)


def is_no_savepoint(error: BaseException) -> bool:
    """Tell whether a savepoint was not there any more: its transaction had ended."""
    error = _driver_error(error)
    return _state(error) in NO_SAVEPOINT_STATES or "no such savepoint" in str(error)


def is_no_table(error: BaseException) -> bool:
    """Tell whether a table was not there."""
    error = _driver_error(error)
    return _state(error) in NO_TABLE_STATES or (bool(_sqlite_name(error)) and "no such table" in str(error))


def _driver_error(error: BaseException) -> BaseException:
    """Return the driver's own error, which SQLAlchemy wraps."""
    inner = getattr(error, "orig", None)
    return inner if isinstance(inner, BaseException) else error


def _state(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state if isinstance(state, str) else ""


def _sqlite_name(error: BaseException) -> str:
    """Return SQLite's name for an error of its own, such as SQLITE_BUSY; '' for the error of another database."""
    name = getattr(error, "sqlite_errorname", None)
    return name if isinstance(name, str) else "SQLITE" if type(error).__module__ == "sqlite3" else ""
