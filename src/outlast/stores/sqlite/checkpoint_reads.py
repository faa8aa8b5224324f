"""Checkpoints: the questions about them."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from outlast.core.arguments import bad_text
from outlast.stores.checkpoint_verbs import ChannelValue, CheckpointFilter, LoadedCheckpoint, PendingWrite
from outlast.stores.checkpoints import CHECKPOINT_COLUMNS, VALUE_COLUMNS, WRITE_COLUMNS, channel_value, checkpoint_row
from outlast.stores.rows import Row

VALUES = ", ".join(f"v.{name}" for name in VALUE_COLUMNS.split(", "))
# Off the primary key for each pair: the order of the join is said.
VALUES_OF = (
    f"SELECT {VALUES} FROM json_each(?) AS j CROSS JOIN channel_values AS v "
    "WHERE v.thread = ? AND v.ns = ? AND v.channel = j.key AND v.version = j.value"
)
PARTS_OF = (
    f"SELECT {VALUES} FROM json_each(?) AS j CROSS JOIN channel_values AS v "
    "WHERE v.thread = ? AND v.ns = ? AND v.channel = ? AND v.version = j.value"
)
WRITES_OF = f"SELECT {WRITE_COLUMNS} FROM checkpoint_writes WHERE checkpoint = ? ORDER BY path, task, idx"


def _rows(db: apsw.Connection, sql: str, *values: Any) -> list[Row]:
    try:
        return db.execute(sql, values).fetchall()
    except UnicodeEncodeError:  # a lone surrogate in a text that is looked for: nothing that is stored has one
        return []


def checkpoint(db: apsw.Connection, thread: str, ns: str, id: str | None) -> LoadedCheckpoint | None:
    """Return a checkpoint, or the head."""
    found = f"SELECT {CHECKPOINT_COLUMNS} FROM checkpoints WHERE thread = ? AND ns = ? "
    if id is None:
        rows = _rows(db, f"{found} ORDER BY pk DESC LIMIT 1", thread, ns)
    else:
        rows = _rows(db, f"{found} AND id = ?", thread, ns, id)
    return _loaded(db, rows[0]) if rows else None


def checkpoints(
    db: apsw.Connection, wanted: CheckpointFilter, limit: int, below: int | None, bare: bool
) -> list[LoadedCheckpoint]:
    """Return checkpoints, those first that were put last."""
    exact = (("thread", wanted.thread), ("ns", wanted.ns), ("id", wanted.id))
    texts = [f"{name} = ?" for name, value in exact if value is not None]
    values: list[Any] = [value for _, value in exact if value is not None]
    if below is not None:
        texts.append("pk < ?")
        values.append(below)
    if wanted.before is not None:
        texts.append(
            "coalesce(pk < (SELECT b.pk FROM checkpoints AS b WHERE b.thread = c.thread AND b.ns = c.ns "
            "AND b.id = ?), id < ?)"
        )
        values += [wanted.before, wanted.before]
    for name, text in wanted.labels:
        if bad_text(name) or (text and bad_text(text)):
            return []  # nothing that is stored has such a text
        there = "EXISTS (SELECT 1 FROM json_each(c.labels) AS l WHERE l.key = ?"
        texts.append(f"NOT {there})" if text is None else f"{there} AND l.value = ?)")
        values += [name] if text is None else [name, text]
    where = f"WHERE {' AND '.join(texts)} " if texts else ""
    sql = f"SELECT {CHECKPOINT_COLUMNS} FROM checkpoints AS c {where}ORDER BY pk DESC LIMIT ?"
    rows = _rows(db, sql, *values, max(limit, 0))
    return [LoadedCheckpoint(checkpoint_row(row)) if bare else _loaded(db, row) for row in rows]


def _loaded(db: apsw.Connection, row: Row) -> LoadedCheckpoint:
    found = checkpoint_row(row)
    place = (found.thread, found.ns)
    versions = msgspec.json.encode(dict(found.versions)).decode()
    values = [channel_value(each) for each in _rows(db, VALUES_OF, versions, *place)]
    values += [part for value in values if value.parts for part in _parts(db, place, value)]
    writes = tuple(PendingWrite(*each) for each in _rows(db, WRITES_OF, found.pk))
    return LoadedCheckpoint(found, tuple({(v.channel, v.version): v for v in values}.values()), writes)


def _parts(db: apsw.Connection, place: tuple[str, str], value: ChannelValue) -> list[ChannelValue]:
    versions = msgspec.json.encode(sorted(set(value.parts))).decode()
    return [channel_value(each) for each in _rows(db, PARTS_OF, versions, *place, value.channel)]


def thread_sizes(db: apsw.Connection, thread: str) -> dict[str, int]:
    """Return how many bytes the values of each channel take."""
    sql = "SELECT channel, sum(length(data)) FROM channel_values WHERE thread = ? GROUP BY channel ORDER BY channel"
    return dict(_rows(db, sql, thread))
