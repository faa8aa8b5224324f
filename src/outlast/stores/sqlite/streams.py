"""What a run writes to its streams and publishes, on SQLite; see `outlast.stores.emits`."""

from __future__ import annotations

from typing import Any

import apsw

from outlast.core.transitions import Status
from outlast.stores.emits import Source, decode_items, encode_items, final_of
from outlast.stores.protocol import Chunk, StreamPage, StreamRow
from outlast.stores.rows import SOURCE_COLUMNS, Row
from outlast.stores.sqlite.batch import Batch

LAST = "SELECT pos + count - 1 FROM stream_items WHERE run = ?1 AND name = ?2 ORDER BY pos DESC LIMIT 1"


class RunOutput:
    """The streams and values of one run within a transaction: `outlast.stores.emits.Output`."""

    def __init__(self, b: Batch, run: int) -> None:
        self._b = b
        self._run = run

    def source(self, name: str, source: str) -> tuple[Source | None, int]:
        """Return what a source has in a stream, and the stream's last position."""
        last = self._b.row(LAST, self._run, name)
        row = self._b.row(
            f"SELECT {SOURCE_COLUMNS} FROM stream_sources WHERE run = ? AND name = ? AND source = ?",
            self._run,
            name,
            source,
        )
        return _source(row) if row else None, last[0] if last else 0

    def sources(self, source: str) -> list[Source]:
        """Return what a source has in all streams; an empty one: all that are not settled."""
        rows = self._b.rows(
            f"SELECT {SOURCE_COLUMNS} FROM stream_sources WHERE run = ?1 "
            "AND CASE ?2 WHEN '' THEN NOT settled ELSE source = ?2 END",
            self._run,
            source,
        )
        return [_source(row) for row in rows]

    def keep(self, row: Source) -> None:
        """Add or replace what a source has in a stream."""
        self._b.db.execute(
            f"INSERT OR REPLACE INTO stream_sources (run, {SOURCE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (self._run, row.name, row.source, row.token, row.wrote, row.first, row.settled),
        )

    def add(self, name: str, source: str, pos: int, items: tuple[bytes, ...]) -> None:
        """Add items to a stream."""
        self._add(name, source, pos, len(items), encode_items(items), None)

    def _add(self, name: str, source: str, pos: int, count: int, items: bytes | None, back_to: int | None) -> None:
        self._b.db.execute(
            "INSERT INTO stream_items (run, name, pos, count, source, items, back_to) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (self._run, name, pos, count, source, items, back_to),
        )

    def cut(self, row: Source, told: int) -> None:
        """Drop a source from a stream."""
        execute, back_to = self._b.db.execute, row.first - 1
        here = (self._run, row.name, back_to)
        execute(
            "DELETE FROM stream_sources WHERE run = ? AND name = ? AND source = ?", (self._run, row.name, row.source)
        )
        execute(
            "DELETE FROM stream_items WHERE run = ? AND name = ? AND pos > ? AND (source = ? OR back_to IS NOT NULL)",
            (*here, row.source),
        )
        shift = told - back_to  # all that moves stands before `told`, so it comes to stand behind it
        execute("UPDATE stream_items SET pos = pos + ? WHERE run = ? AND name = ? AND pos > ?", (shift, *here))
        execute("UPDATE stream_sources SET first = first + ? WHERE run = ? AND name = ? AND first > ?", (shift, *here))
        self._add(row.name, "", told, 1, None, back_to)

    def publish(self, name: str, value: bytes) -> None:
        """Set a value."""
        self._b.db.execute(
            "INSERT OR REPLACE INTO published (run, name, value) VALUES (?, ?, ?)", (self._run, name, value)
        )

    def value(self, name: str) -> bytes | None:
        """Return a value."""
        row = self._b.row("SELECT value FROM published WHERE run = ? AND name = ?", self._run, name)
        return row[0] if row else None


def _source(row: Row) -> Source:
    name, source, token, wrote, first, settled = row
    return Source(name, source, token, wrote, first, bool(settled))


# -- reading -------------------------------------------------------------------


def stream(db: apsw.Connection, pk: int, name: str, after: int, limit: int) -> StreamPage | None:
    """Return what stands in a stream of a run after a position."""
    found = _rows(db, "SELECT status FROM runs WHERE pk = ?", pk)
    if not found:
        return None
    first = (  # of the stretch that the position is in
        "coalesce((SELECT max(pos) FROM stream_items WHERE run = ?1 AND name = ?2 AND pos <= ?3), 0)"
    )
    rows = _rows(
        db,
        f"SELECT pos, items, back_to FROM stream_items WHERE run = ?1 AND name = ?2 AND pos >= {first} "
        "AND pos + count > ?3 + 1 ORDER BY pos LIMIT ?4",
        pk,
        name,
        max(after, 0),
        max(limit, 0),
    )
    chunks = tuple(Chunk(pos, decode_items(items) if items else (), back_to) for pos, items, back_to in rows)
    return StreamPage(Status(found[0][0]), chunks, _final(db, pk, name))


def _final(db: apsw.Connection, pk: int, name: str) -> int | None:
    # Without statistics SQLite takes the table's own order, and walks over all that the run's steps have settled.
    sql = (
        f"SELECT {SOURCE_COLUMNS} FROM stream_sources INDEXED BY stream_unsettled "
        "WHERE run = ? AND NOT settled AND name = ?"
    )
    return final_of(_source(row) for row in _rows(db, sql, pk, name))


def streams(db: apsw.Connection, pk: int) -> list[StreamRow]:
    """Return the streams of a run, by name."""
    sql = "SELECT name, max(pos + count) - 1 FROM stream_items WHERE run = ? GROUP BY name ORDER BY name"
    return [StreamRow(name, last, _final(db, pk, name)) for name, last in _rows(db, sql, pk)]


def values(db: apsw.Connection, pk: int) -> dict[str, bytes]:
    """Return what a run has published, by name."""
    return dict(_rows(db, "SELECT name, value FROM published WHERE run = ? ORDER BY name", pk))


def sources(db: apsw.Connection, pk: int) -> tuple[tuple[str, bool], ...]:
    """Return which steps wrote, and whether all that they wrote stays."""
    sql = "SELECT source, min(settled) FROM stream_sources WHERE run = ? AND source <> '' GROUP BY source"
    return tuple((source, bool(settled)) for source, settled in _rows(db, sql, pk))


def _rows(db: apsw.Connection, sql: str, *values: Any) -> list[Row]:
    try:
        return db.execute(sql, values).fetchall()
    except UnicodeEncodeError:  # a lone surrogate in a name that is looked for: nothing that is stored has one
        return []
