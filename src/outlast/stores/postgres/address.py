"""Where a store is: what a URL says of server, database and schema, and how it is shown to people."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from outlast.core.errors import WrongUse
from outlast.stores.open import shown
from outlast.stores.postgres.limits import NAMES, Limits, limits_of

DEFAULT_SCHEMA = "outlast"
SCHEMA_MAX_BYTES = 63  # of a PostgreSQL identifier; a longer one would be cut in silence

# What libpq is told unless the URL says otherwise. A peer that is gone without a word (a firewall, a lost machine) is
# noticed within about ten seconds.
DEFAULTS: dict[str, str | int] = {
    "connect_timeout": 10,
    "application_name": "outlast",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # ms
}


@dataclass(frozen=True, slots=True)
class Address:
    """A schema of a database. `libpq` are the parameters to connect with; only `text` may be shown."""

    libpq: dict[str, str | int]
    schema: str
    limits: Limits = field(default_factory=Limits)

    @property
    def text(self) -> str:
        """Return the URL without its password and options, for people."""
        said = {name: str(self.libpq.get(name) or "") for name in ("user", "host", "port", "dbname")}
        at = f"{said['user']}@" if said["user"] else ""
        port = f":{said['port']}" if said["port"] else ""
        schema = f"?schema={quote(self.schema)}" if self.schema != DEFAULT_SCHEMA else ""
        host = "" if said["host"].startswith("/") else said["host"]
        return f"postgresql://{at}{host}{port}/{said['dbname']}{schema}"

    @property
    def quoted_schema(self) -> str:
        """Return the schema's name as SQL takes it."""
        doubled = self.schema.replace('"', '""')
        return f'"{doubled}"'

    @property
    def search_path(self) -> str:
        """Return the search path of a transaction: temporary tables last, so that none can stand for one of ours."""
        return f"{self.quoted_schema}, pg_temp"


def parse(url: str) -> Address:
    """Return the address that a URL names: `postgresql://user:password@host:port/database?schema=agents`.

    The names of `Limits` are options, too, and all others are libpq's (`sslmode`, `target_session_attrs`, several
    hosts...). Raises WrongUse.
    """
    place, _, query = url.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    schemas = [value for name, value in options if name == "schema"] or [DEFAULT_SCHEMA]
    schema = schemas[-1]
    if not schema or len(schema.encode()) > SCHEMA_MAX_BYTES or schema.startswith("pg_") or "\0" in schema:
        raise WrongUse(
            f"{schema!r} cannot be the name of a schema: it takes 1 to {SCHEMA_MAX_BYTES} bytes, not beginning with pg_"
        )
    misread = WrongUse(
        f"{shown(url)} is not a URL that libpq understands: it takes postgresql://user:password@host:port/database"
        "?option=value, with special characters as %XX"
    )
    if place.partition("://")[2].partition("/")[0].count("@") > 1:
        raise misread  # libpq would take the rest of the password for the host, and show it
    limits = limits_of({name: value for name, value in options if name in NAMES})
    others = urlencode([option for option in options if option[0] not in ("schema", *NAMES)], quote_via=quote)
    try:
        given = conninfo_to_dict(f"{place}?{others}" if others else place)
    except psycopg.Error:  # its text repeats the URL, password and all
        raise misread from None
    return Address(DEFAULTS | {name: value for name, value in given.items() if value is not None}, schema, limits)
