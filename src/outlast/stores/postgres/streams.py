"""What a run writes to its streams and publishes, on PostgreSQL; see `outlast.stores.emits`.

Who writes for a run has locked the row of the worker that owns it, so writes to its streams come one after the other,
and their positions are visible in their order.
"""

from __future__ import annotations

from typing import Any

from outlast.core.arguments import bad_text
from outlast.core.transitions import Status
from outlast.stores.emits import Source, decode_items, encode_items, final_of
from outlast.stores.postgres.batch import Batch
from outlast.stores.postgres.connections import Db
from outlast.stores.protocol import Chunk, StreamPage, StreamRow
from outlast.stores.rows import SOURCE_COLUMNS, Row

MAX_ROWS = 2**63 - 1
LOOK = (
    "SELECT coalesce((SELECT pos + count - 1 FROM stream_items WHERE run = %s AND name = %s ORDER BY pos DESC LIMIT 1),"
    f" 0) AS last, {SOURCE_COLUMNS} FROM (VALUES (1)) AS one LEFT JOIN stream_sources ON run = %s AND source = %s "
    "AND name = %s"
)


class RunOutput:
    """The streams and values of one run within a transaction: `outlast.stores.emits.Output`."""

    def __init__(self, b: Batch, run: int) -> None:
        self._b = b
        self._run = run

    def source(self, name: str, source: str) -> tuple[Source | None, int]:
        """Return what a source has in a stream, and the stream's last position."""
        ((last, *row),) = self._b.rows(LOOK, self._run, name, self._run, source, name)
        return (Source(*row) if row[0] is not None else None), last

    def sources(self, source: str) -> list[Source]:
        """Return what a source has in all streams; an empty one: all that are not settled."""
        which, values = ("source = %s", (source,)) if source else ("NOT settled", ())
        rows = self._b.rows(
            f"SELECT {SOURCE_COLUMNS} FROM stream_sources WHERE run = %s AND {which} ORDER BY name, source",
            self._run,
            *values,
        )
        return [Source(*row) for row in rows]

    def keep(self, row: Source) -> None:
        """Add or replace what a source has in a stream."""
        self._b.run_sql(
            f"INSERT INTO stream_sources (run, {SOURCE_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s) "
            "ON CONFLICT (run, source, name) DO UPDATE SET token = excluded.token, wrote = excluded.wrote, "
            "first = excluded.first, settled = excluded.settled",
            self._run,
            row.name,
            row.source,
            row.token,
            row.wrote,
            row.first,
            row.settled,
        )

    def add(self, name: str, source: str, pos: int, items: tuple[bytes, ...]) -> None:
        """Add items to a stream."""
        self._add(name, source, pos, len(items), encode_items(items), None)

    def _add(self, name: str, source: str, pos: int, count: int, items: bytes | None, back_to: int | None) -> None:
        self._b.run_sql(
            "INSERT INTO stream_items (run, name, pos, count, source, items, back_to) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s)",
            self._run,
            name,
            pos,
            count,
            source,
            items,
            back_to,
        )

    def cut(self, row: Source, told: int) -> None:
        """Drop a source from a stream."""
        run_sql, back_to = self._b.run_sql, row.first - 1
        here = (self._run, row.name, back_to)
        run_sql(
            "DELETE FROM stream_sources WHERE run = %s AND name = %s AND source = %s", self._run, row.name, row.source
        )
        run_sql(
            "DELETE FROM stream_items WHERE run = %s AND name = %s AND pos > %s "
            "AND (source = %s OR back_to IS NOT NULL)",
            *here,
            row.source,
        )
        shift = told - back_to  # all that moves stands before `told`, so it comes to stand behind it
        run_sql("UPDATE stream_items SET pos = pos + %s WHERE run = %s AND name = %s AND pos > %s", shift, *here)
        run_sql(
            "UPDATE stream_sources SET first = first + %s WHERE run = %s AND name = %s AND first > %s", shift, *here
        )
        self._add(row.name, "", told, 1, None, back_to)

    def publish(self, name: str, value: bytes) -> None:
        """Set a value."""
        self._b.run_sql(
            "INSERT INTO published (run, name, value) VALUES (%s, %s, %s) "
            "ON CONFLICT (run, name) DO UPDATE SET value = excluded.value",
            self._run,
            name,
            value,
        )

    def value(self, name: str) -> bytes | None:
        """Return a value."""
        row = self._b.row("SELECT value FROM published WHERE run = %s AND name = %s", self._run, name)
        return row[0] if row else None


# -- reading -------------------------------------------------------------------

# From the stretch on that the position is in.
PAGE = (
    "SELECT pos, items, back_to FROM stream_items WHERE run = %s AND name = %s AND pos >= coalesce("
    "(SELECT max(pos) FROM stream_items WHERE run = %s AND name = %s AND pos <= %s), 0) "
    "AND pos + count > %s + 1 ORDER BY pos LIMIT %s"
)
UNSETTLED = f"SELECT {SOURCE_COLUMNS} FROM stream_sources WHERE run = %s AND NOT settled"


def stream(db: Db, pk: int, name: str, after: int, limit: int) -> StreamPage | None:
    """Return what stands in a stream of a run after a position."""
    if bad_text(name):
        name = ""
    after, limit = max(after, 0), min(max(limit, 0), MAX_ROWS)
    runs, rows, unsettled = (  # all three are asked for before the first is waited for
        db.execute(sql, values, binary=True)
        for sql, values in (
            ("SELECT status FROM runs WHERE pk = %s", (pk,)),
            (PAGE, (pk, name, pk, name, after, after, limit)),
            (UNSETTLED, (pk,)),
        )
    )
    found = runs.fetchall()
    if not found:
        return None
    chunks = tuple(Chunk(pos, decode_items(items) if items else (), back_to) for pos, items, back_to in rows.fetchall())
    return StreamPage(Status(found[0][0]), chunks, _final(unsettled.fetchall(), name))


def _final(unsettled: list[Row], name: str) -> int | None:
    return final_of(source for source in (Source(*row) for row in unsettled) if source.name == name)


def streams(db: Db, pk: int) -> list[StreamRow]:
    """Return the streams of a run, by name."""
    sql = "SELECT name, max(pos + count) - 1 FROM stream_items WHERE run = %s GROUP BY name ORDER BY name"
    rows, unsettled = _rows(db, sql, pk), _rows(db, UNSETTLED, pk)
    return [StreamRow(name, last, _final(unsettled, name)) for name, last in rows]


def values(db: Db, pk: int) -> dict[str, bytes]:
    """Return what a run has published, by name."""
    return dict(_rows(db, "SELECT name, value FROM published WHERE run = %s ORDER BY name", pk))


# Which steps wrote, and whether all that they wrote stays.
SOURCES = (
    "SELECT run, source, bool_and(settled) FROM stream_sources WHERE run = ANY (%s) AND source <> '' "
    "GROUP BY run, source ORDER BY run, source"
)


def _rows(db: Db, sql: str, *values: Any) -> list[Row]:
    return db.execute(sql, values, binary=True).fetchall()
