"""Checkpoints: the questions about them."""

from __future__ import annotations

from typing import Any

from outlast.core.arguments import bad_text
from outlast.stores.checkpoint_verbs import CheckpointFilter, LoadedCheckpoint, Pairs, PendingWrite
from outlast.stores.checkpoints import CHECKPOINT_COLUMNS, VALUE_COLUMNS, WRITE_COLUMNS, channel_value, checkpoint_row
from outlast.stores.postgres.arrays import Texts
from outlast.stores.postgres.connections import Db
from outlast.stores.rows import Row

COLUMNS = CHECKPOINT_COLUMNS.replace("labels", "labels::text")
VALUES_OF = (
    f"SELECT {', '.join(f'v.{name}' for name in VALUE_COLUMNS.split(', '))} "
    "FROM unnest(%s::text[], %s::text[]) AS j (channel, version) "
    "JOIN channel_values AS v ON v.thread = %s AND v.ns = %s AND v.channel = j.channel AND v.version = j.version"
)
WRITES_OF = f"SELECT {WRITE_COLUMNS} FROM checkpoint_writes WHERE checkpoint = %s ORDER BY path, task, idx"


def _rows(db: Db, sql: str, *values: Any) -> list[Row]:
    return db.execute(sql, values, binary=True).fetchall()


def checkpoint(db: Db, thread: str, ns: str, id: str | None) -> LoadedCheckpoint | None:
    """Return a checkpoint, or the head."""
    if any(bad_text(text) for text in (thread, ns, id or "")):
        return None  # nothing that is stored has such a text
    found = f"SELECT {COLUMNS} FROM checkpoints WHERE thread = %s AND ns = %s "
    if id is None:
        rows = _rows(db, f"{found} ORDER BY pk DESC LIMIT 1", thread, ns)
    else:
        rows = _rows(db, f"{found} AND id = %s", thread, ns, id)
    return _loaded(db, rows[0]) if rows else None


def checkpoints(db: Db, wanted: CheckpointFilter, limit: int, below: int | None, bare: bool) -> list[LoadedCheckpoint]:
    """Return checkpoints, those first that were put last."""
    exact = (("thread", wanted.thread), ("ns", wanted.ns), ("id", wanted.id))
    texts = [f"{name} = %s" for name, value in exact if value is not None]
    values: list[Any] = [value for _, value in exact if value is not None]
    looked_for = [*values, wanted.before or "", *(text for pair in wanted.labels for text in pair if text)]
    if any(bad_text(text) for text in looked_for):
        return []  # nothing that is stored has such a text
    if below is not None:
        texts.append("pk < %s")
        values.append(below)
    if wanted.before is not None:
        texts.append(
            "coalesce(pk < (SELECT b.pk FROM checkpoints AS b WHERE b.thread = c.thread AND b.ns = c.ns "
            "AND b.id = %s), id < %s)"
        )
        values += [wanted.before, wanted.before]
    for name, text in wanted.labels:
        texts.append("labels ->> %s::text IS NULL" if text is None else "labels ->> %s::text = %s")
        values += [name] if text is None else [name, text]
    where = f"WHERE {' AND '.join(texts)} " if texts else ""
    sql = f"SELECT {COLUMNS} FROM checkpoints AS c {where}ORDER BY pk DESC LIMIT %s"
    rows = _rows(db, sql, *values, max(limit, 0))
    return [LoadedCheckpoint(checkpoint_row(row)) if bare else _loaded(db, row) for row in rows]


def _loaded(db: Db, row: Row) -> LoadedCheckpoint:
    found = checkpoint_row(row)
    writes = db.execute(WRITES_OF, (found.pk,), binary=True)  # sent along with the next
    values = _values(db, found.thread, found.ns, found.versions)
    parts = {(value.channel, part) for value in values for part in value.parts}
    values += _values(db, found.thread, found.ns, tuple(sorted(parts)))
    return LoadedCheckpoint(found, tuple(values), tuple(PendingWrite(*each) for each in writes.fetchall()))


def _values(db: Db, thread: str, ns: str, versions: Pairs) -> list[Any]:
    if not versions:
        return []
    places = (Texts(channel for channel, _ in versions), Texts(version for _, version in versions))
    return [channel_value(each) for each in _rows(db, VALUES_OF, *places, thread, ns)]


def thread_sizes(db: Db, thread: str) -> dict[str, int]:
    """Return how many bytes the values of each channel take."""
    sql = (
        "SELECT channel, sum(length(data))::bigint FROM channel_values WHERE thread = %s GROUP BY channel "
        "ORDER BY channel"
    )
    return dict(_rows(db, sql, thread)) if not bad_text(thread) else {}
