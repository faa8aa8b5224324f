"""Write: records into one run's journal; many at once are written in `together`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from outlast.core.records import Record
from outlast.stores.emits import emit, is_there
from outlast.stores.postgres.arrays import Blobs, Bools, Column, Floats, Ints, Texts
from outlast.stores.postgres.batch import Batch, Fence
from outlast.stores.postgres.streams import RunOutput
from outlast.stores.rows import RECORD_COLUMNS
from outlast.stores.rows import record as record_of
from outlast.stores.rules import Hold, other_content, out_of_step
from outlast.stores.verbs import Answer, Done, Failed, Fenced, Write

DONE = Done()
_TYPES: dict[type[Column], str] = {
    Ints: "bigint[]",
    Floats: "float8[]",
    Bools: "boolean[]",
    Texts: "text[]",
    Blobs: "bytea[]",
}
# Of `run` and of the columns in RECORD_COLUMNS.
RECORD_TYPES: tuple[type[Column], ...] = (
    Ints, Ints, Texts, Texts, Floats, Texts, Bools, Blobs, Blobs, Ints, Texts, Floats, Floats, Floats, Ints, Texts,
    Texts,
)  # fmt: skip
NEW_ROWS = f"unnest({', '.join(f'%s::{_TYPES[column]}' for column in RECORD_TYPES)})"
NEW_ROW = f"(VALUES ({', '.join(f'%s::{_TYPES[column][:-2]}' for column in RECORD_TYPES)}))"  # half the work for one


def columns(new: Sequence[tuple[int, Record]]) -> list[Column]:
    """Return the parameters of NEW_ROWS for records, each with its run."""
    rows = ((run, *astuple(record)) for run, record in new)
    return [column(values) for column, values in zip(RECORD_TYPES, zip(*rows, strict=True), strict=True)]


def insert(b: Batch, new: Sequence[tuple[int, Record]]) -> None:
    """Add records, each with its run."""
    if new:
        b.run_sql(f"INSERT INTO records (run, {RECORD_COLUMNS}) SELECT * FROM {NEW_ROWS}", *columns(new))


def write(b: Batch, verb: Write) -> Answer:
    """Apply one verb, some of whose records may be there already."""
    fence = fence_of(b, verb)
    if not isinstance(fence, Fence):
        return fence
    stored = _stored(b, verb)
    last_seq, fresh = fence.last_seq, dict[int, Record]()
    for new in verb.records:
        known = fresh.get(new.seq) or stored.get(new.seq)
        if known is not None and known != new:
            return Failed(other_content(new.seq))
        if known is None:
            if new.seq != last_seq + 1:
                return Failed(out_of_step(new.seq, last_seq))
            last_seq, fresh[new.seq] = new.seq, new
    insert(b, [(verb.run, new) for new in fresh.values()])
    fence.last_seq = last_seq
    deliver(b, verb, fence)
    if fresh or not verb.records:  # with records that are there already, it came with them
        emit(RunOutput(b, verb.run), verb.emits)
    return DONE


def fence_of(b: Batch, verb: Write) -> Fence | Answer:
    """Return the run's fence when the verb may write, else what to answer."""
    held = b.hold(verb.run, verb.worker, verb.claim)
    fence = b.fence(verb.run)
    if isinstance(held, Fenced) or fence is None:
        return held if isinstance(held, Fenced) else b.fenced(verb.run, verb.worker, verb.claim)
    if held is Hold.OWNED:
        return fence
    stored = _stored(b, verb)
    applied = all(stored.get(record.seq) == record for record in verb.records) and not (
        verb.consumes and b.rows("SELECT 1 FROM inbox WHERE id = ANY (%s) AND run = %s", Ints(verb.consumes), verb.run)
    )
    applied = applied and (bool(verb.records) or is_there(RunOutput(b, verb.run), verb.emits))
    return DONE if applied else b.fenced(verb.run, verb.worker, verb.claim)


def _stored(b: Batch, verb: Write) -> dict[int, Record]:
    """Return those of the verb's records that are there already, by their seq."""
    if not verb.records:
        return {}
    seqs = Ints(record.seq for record in verb.records)
    rows = b.rows(f"SELECT {RECORD_COLUMNS} FROM records WHERE run = %s AND seq = ANY (%s)", verb.run, seqs)
    return {record.seq: record for record in map(record_of, rows)}


def deliver(b: Batch, verb: Write, fence: Fence) -> None:
    """Delete the inbox rows that the records deliver, and note that the run has made progress."""
    if verb.consumes:
        b.deliver_rows(verb.run, verb.consumes)
    if fence.crashes and verb.records:
        b.run_sql("UPDATE runs SET crashes = 0 WHERE pk = %s", verb.run)
        fence.crashes = 0
