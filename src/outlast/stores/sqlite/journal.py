"""Write: records into journals. The hot path: one statement per batch of records where all goes well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import astuple

from outlast.core.records import Record
from outlast.stores.protocol import Answer, Done, Failed, Fenced, Write
from outlast.stores.rules import Hold, lost_claim, objection
from outlast.stores.sqlite.batch import Batch, Surprise
from outlast.stores.sqlite.rows import RECORD_COLUMNS
from outlast.stores.sqlite.rows import record as record_of

INSERT = (
    f"INSERT INTO records (run, {RECORD_COLUMNS}) VALUES (?{', ?' * (RECORD_COLUMNS.count(',') + 1)}) "
    "ON CONFLICT (run, seq) DO NOTHING"
)
DONE = Done()


def write_all(b: Batch, verbs: Sequence[Write]) -> list[Answer]:
    """Apply verbs that follow each other. Raises Surprise when a record was there before: then each has to look."""
    answers: list[Answer] = []
    new: list[tuple[Any, ...]] = []
    for verb in verbs:
        answer = objection(verb) or _fence(b, verb)
        if answer is None:
            new += [(verb.run, *astuple(record)) for record in verb.records]
            _deliver(b, verb)
            answer = DONE
        answers.append(answer)
    if new:
        before = b.db.total_changes()
        b.db.executemany(INSERT, new)
        if b.db.total_changes() - before != len(new):
            raise Surprise
    return answers


def write(b: Batch, verb: Write) -> Answer:
    """Apply one verb, some of whose records may be there already."""
    if (answer := _fence(b, verb)) is not None:
        return answer
    fresh: dict[int, Record] = {}
    for new in verb.records:
        known = _stored(b, verb.run, new.seq) or fresh.setdefault(new.seq, new)
        if known != new:
            return Failed(f"record {new.seq} is there already and says something else")
    if fresh:
        b.db.executemany(INSERT, [(verb.run, *astuple(new)) for new in fresh.values()])
    _deliver(b, verb)
    return DONE


def _fence(b: Batch, verb: Write) -> Answer | None:
    held = b.hold(verb.run, verb.worker, verb.claim)
    if held is Hold.OWNED:
        return None
    if isinstance(held, Fenced):
        return held
    applied = all(_stored(b, verb.run, record.seq) == record for record in verb.records) and not any(
        b.rows("SELECT 1 FROM inbox WHERE id = ? AND run = ?", row_id, verb.run) for row_id in verb.consumes
    )
    return DONE if applied else Fenced(lost_claim(verb.run, verb.worker, verb.claim))


def _stored(b: Batch, run: int, seq: int) -> Record | None:
    row = b.row(f"SELECT {RECORD_COLUMNS} FROM records WHERE run = ? AND seq = ?", run, seq)
    return record_of(row) if row else None


def _deliver(b: Batch, verb: Write) -> None:
    for row_id in verb.consumes:
        b.db.execute(
            "INSERT OR IGNORE INTO taken (run, kind, message_id) "
            "SELECT run, kind, message_id FROM inbox WHERE id = ? AND run = ? AND kind <> 'child'",
            (row_id, verb.run),
        )
        b.db.execute("DELETE FROM inbox WHERE id = ? AND run = ?", (row_id, verb.run))
    fence = b.fence(verb.run)
    if fence and fence.crashes:
        b.db.execute("UPDATE runs SET crashes = 0 WHERE pk = ?", (verb.run,))
        b.forget_run(verb.run)
