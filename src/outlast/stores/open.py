"""From a URL to a store."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from outlast.core.errors import WrongUse
from outlast.stores.protocol import Clock, Store

if TYPE_CHECKING:
    from outlast.stores.memory import MemoryStore

ACCEPTED = (
    "sqlite:///relative.db, sqlite:////absolute/path.db, a plain path such as ./agent.db, "
    "postgresql://user@host/database, memory:// or memory://name"
)

SCHEMES = ("sqlite", "memory", "postgresql", "postgres", "file")

_shared: dict[str, MemoryStore] = {}
_shared_lock = threading.Lock()


def open_store(url: str, clock: Clock, *, read_only: bool = False) -> Store:
    """Open the store that a URL or a path names.

    `sqlite:///agent.db` and `agent.db` are a file beside the current directory,
    `sqlite:////var/lib/agent.db` one with an absolute path. `memory://` is a new
    store of this process, `memory://name` the one of that name, shared by all
    of the process that ask for it. `postgresql://user@host/database` is the schema
    `outlast` of a database, or the one that `?schema=` names; other options are libpq's.

    Raises WrongUse for a URL that means nothing here, NotAStore, ReadOnlyStore
    or StoreUnavailable where the file cannot serve.
    """
    scheme, separator, rest = url.partition("://")
    before, colon, _ = url.partition(":")
    if colon and not separator and before.lower() in SCHEMES:
        said = f"{before}:..." if "@" in url else url  # there may be a password in it
        raise WrongUse(f"{said} is no path, and as a URL it lacks slashes after {before}:; it takes {ACCEPTED}")
    if not separator or scheme == "sqlite":
        return _sqlite(path_of(url), clock, read_only)
    match scheme:
        case "memory":
            return _memory(rest, clock)
        case "postgresql" | "postgres":
            return _postgres(url, clock, read_only)
        case _:
            raise WrongUse(f"{shown(url)} is no store that Outlast knows; it takes {ACCEPTED}")


def path_of(url: str) -> str:
    """Return the path of a file that a URL of SQLite, or a plain path, names. Raises WrongUse."""
    _, separator, rest = url.partition("://")
    return _path(_after_host(rest, url) if separator else url, url)


def _after_host(rest: str, url: str) -> str:
    if not rest.startswith("/"):
        raise WrongUse(f"{url} has two slashes where SQLite needs three: sqlite:///{rest}; four for an absolute path")
    if "?" in rest:
        raise WrongUse(f"{url} has options after '?', and there are none for SQLite")
    from urllib.parse import unquote  # noqa: PLC0415 - seldom needed, and slow to import

    return unquote(rest[1:])


def _path(path: str, url: str) -> str:
    if path == ":memory:":
        raise WrongUse(f"{url} would be a separate database for each connection; use memory://")
    if not path or path.endswith("/"):
        raise WrongUse(f"{url!r} names no file; it takes {ACCEPTED}")
    if "\0" in path:
        raise WrongUse("the path of a store holds a NUL character")
    return path


def _sqlite(path: str, clock: Clock, read_only: bool) -> Store:
    from outlast.stores.sqlite import SqliteStore  # noqa: PLC0415 - only the store that is used is loaded

    return SqliteStore(path, clock, read_only)


def _postgres(url: str, clock: Clock, read_only: bool) -> Store:
    try:
        from outlast.stores.postgres import PostgresStore  # noqa: PLC0415 - only the store that is used is loaded
    except ImportError as error:  # psycopg is missing, or has found no libpq
        raise WrongUse(f"{shown(url)} needs psycopg ({error}): pip install 'outlast[postgres]'") from error
    return PostgresStore(url, clock, read_only)


def _memory(name: str, clock: Clock) -> Store:
    from outlast.stores.memory import MemoryStore  # noqa: PLC0415 - only the store that is used is loaded

    if not name:
        return MemoryStore(clock)
    with _shared_lock:
        if name not in _shared:
            _shared[name] = MemoryStore(clock, name)
        return _shared[name]


def shown(url: str) -> str:
    """Return a URL as it may be shown: without the password of `scheme://user:password@host`, or of an option."""
    place, _, query = url.partition("?")
    scheme, separator, rest = place.partition("://")
    if not separator or scheme in ("sqlite", "memory"):
        return url
    credentials, at, host = rest.rpartition("@")
    options = "&".join(o for o in query.split("&") if o and "password" not in o.partition("=")[0].lower())
    return f"{scheme}://{credentials.partition(':')[0]}{at}{host}" + (f"?{options}" if options else "")
