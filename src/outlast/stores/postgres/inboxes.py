"""What a transaction puts into inboxes: messages, and the ends of children."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from outlast.core.records import InboxRow, Kind, RunRow
from outlast.core.transitions import Status
from outlast.stores.postgres.arrays import Ints
from outlast.stores.rows import Row

LIVE = ("pending", "running", "waiting")


class Inboxes:
    """A part of `outlast.stores.postgres.batch.Batch`."""

    now: float

    def rows(self, sql: str, *values: Any) -> list[Row]:
        """Run a statement and return its rows."""
        raise NotImplementedError

    def run_sql(self, sql: str, *values: Any) -> None:
        """Run a statement whose rows nobody wants."""
        raise NotImplementedError

    def lock_runs(self, runs: Iterable[int]) -> None:
        """Lock further runs."""
        raise NotImplementedError

    def put(self, row: InboxRow) -> None:
        """Put a row in an inbox and make the run due, unless the same message is or was there. The run is locked."""
        added = self.rows(
            "INSERT INTO inbox (run, kind, key, message_id, ok, value, created) "
            "SELECT m.* FROM (VALUES (%s::bigint, %s, %s, %s, %s::boolean, %s::bytea, %s::float8)) "
            "AS m (run, kind, key, message_id, ok, value, created) "
            "WHERE NOT EXISTS (SELECT 1 FROM inbox AS i WHERE (i.run, i.kind, i.message_id) = (m.run, m.kind, "
            "m.message_id)) "
            "AND NOT EXISTS (SELECT 1 FROM taken AS t WHERE (t.run, t.kind, t.message_id) = (m.run, m.kind, "
            "m.message_id)) RETURNING id",
            row.run,
            row.kind.value,
            row.key,
            row.message_id,
            row.ok,
            row.value,
            self.now,
        )
        if added:
            # A run that is pending keeps its time: a start that was put off stays put off.
            self.run_sql(
                "UPDATE runs SET due = %s WHERE pk = %s AND status = 'waiting' AND (due IS NULL OR due > %s)",
                self.now,
                row.run,
                self.now,
            )

    def deliver_rows(self, run: int, rows: Iterable[int]) -> None:
        """Delete inbox rows that a run has taken, and remember the messages."""
        self.run_sql(
            "WITH delivered AS (DELETE FROM inbox WHERE id = ANY (%s) AND run = %s RETURNING run, kind, message_id) "
            "INSERT INTO taken (run, kind, message_id) SELECT run, kind, message_id FROM delivered "
            "WHERE kind <> 'child' ON CONFLICT DO NOTHING",
            Ints(rows),
            run,
        )

    def has_had(self, run: int, kind: Kind, message_id: str) -> bool:
        """Tell whether a message is in a run's inbox, or was."""
        one = "SELECT 1 FROM {} WHERE run = %s AND kind = %s AND message_id = %s"
        asked = (run, kind.value, message_id)
        return bool(self.rows(f"{one.format('inbox')} UNION ALL {one.format('taken')}", *asked, *asked))

    def tell(self, child: RunRow, parent: int, key: str) -> None:
        """Put a child's end in a parent's inbox; a row of an earlier end that is still there gets the new one."""
        self.lock_runs([parent])
        ok = child.status == Status.SUCCEEDED
        value = child.result if ok else child.error
        message_id = f"{child.incarnation}:{key}"
        told = self.rows(
            "UPDATE inbox SET ok = %s, value = %s WHERE run = %s AND kind = 'child' AND message_id = %s RETURNING id",
            ok,
            value,
            parent,
            message_id,
        )
        if not told:
            self.put(InboxRow(id=0, run=parent, kind=Kind.CHILD, key=key, message_id=message_id, ok=ok, value=value))

    def knows_child(self, parent: int, key: str) -> bool:
        """Return whether a parent's journal has the end of the child that it knows as `key`. Reads all of it."""
        return bool(
            self.rows(
                "SELECT 1 FROM records WHERE run = %s AND key = %s AND kind IN ('child', 'late') LIMIT 1", parent, key
            )
        )

    def parents(self, child: RunRow) -> list[tuple[int, str, str]]:
        """Return (run, the key that it knows the child by, its status) of those that wait for it and have not ended.

        They are locked, so that none can come to rest, or end, while it is told.
        """
        waiting = {(child.parent, child.parent_key)} if child.parent is not None else set()
        waiting |= set(self.rows("SELECT parent, parent_key FROM waiters WHERE run = %s", child.pk))
        if not waiting:
            return []
        self.lock_runs(pk for pk, _ in waiting)
        open_runs = "SELECT pk, status FROM runs WHERE pk = ANY (%s) AND ended IS NULL"
        statuses = {row[0]: row[1] for row in self.rows(open_runs, Ints(pk for pk, _ in waiting))}
        return [(pk, key, statuses[pk]) for pk, key in sorted(waiting) if pk in statuses]

    def tell_parents(self, child: RunRow) -> tuple[int, ...]:
        """Tell all who wait for a child that it has ended; return those that this gives something to do."""
        ((resumed,),) = self.rows("SELECT resumed FROM runs WHERE pk = %s", child.pk)
        parents = self.parents(child)
        for pk, key, _ in parents:
            if not (resumed and self.knows_child(pk, key)):
                self.tell(child, pk, key)
        return _live(parents)

    def woken_parents(self, child: RunRow) -> tuple[int, ...]:
        """Return who has something to do since the child ended."""
        return _live(self.parents(child))


def _live(parents: list[tuple[int, str, str]]) -> tuple[int, ...]:
    return tuple(sorted({pk for pk, _, status in parents if status in LIVE}))
