"""The SQLite store: many processes of one machine on one file."""

from outlast.stores.sqlite.locks import write_lock_holder
from outlast.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "write_lock_holder"]
