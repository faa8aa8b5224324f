"""Write: records into one run's journal; many at once are written in `together`."""

from __future__ import annotations

from msgspec.structs import astuple

from outlast.core.records import Record
from outlast.stores.emits import emit, is_there
from outlast.stores.rows import RECORD_COLUMNS
from outlast.stores.rows import record as record_of
from outlast.stores.rules import Hold, other_content, out_of_step
from outlast.stores.sqlite.batch import Batch, Fence
from outlast.stores.sqlite.streams import RunOutput
from outlast.stores.verbs import Answer, Done, Failed, Fenced, Write

INSERT = f"INSERT INTO records (run, {RECORD_COLUMNS}) VALUES (?{', ?' * (RECORD_COLUMNS.count(',') + 1)})"
DONE = Done()


def write(b: Batch, verb: Write) -> Answer:
    """Apply one verb, some of whose records may be there already."""
    fence = fence_of(b, verb)
    if not isinstance(fence, Fence):
        return fence
    last_seq, fresh = fence.last_seq, dict[int, Record]()
    for new in verb.records:
        known = fresh.get(new.seq) or _stored(b, verb.run, new.seq)
        if known is not None and known != new:
            return Failed(other_content(new.seq))
        if known is None:
            if new.seq != last_seq + 1:
                return Failed(out_of_step(new.seq, last_seq))
            last_seq, fresh[new.seq] = new.seq, new
    b.db.executemany(INSERT, [(verb.run, *astuple(new)) for new in fresh.values()])
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
    applied = all(_stored(b, verb.run, record.seq) == record for record in verb.records) and not any(
        b.rows("SELECT 1 FROM inbox WHERE id = ? AND run = ?", row_id, verb.run) for row_id in verb.consumes
    )
    applied = applied and (bool(verb.records) or is_there(RunOutput(b, verb.run), verb.emits))
    return DONE if applied else b.fenced(verb.run, verb.worker, verb.claim)


def _stored(b: Batch, run: int, seq: int) -> Record | None:
    row = b.row(f"SELECT {RECORD_COLUMNS} FROM records WHERE run = ? AND seq = ?", run, seq)
    return record_of(row) if row else None


def deliver(b: Batch, verb: Write, fence: Fence) -> None:
    """Delete the inbox rows that the records deliver, and note that the run has made progress."""
    b.deliver_rows(verb.run, verb.consumes)
    if fence.crashes and verb.records:
        b.db.execute("UPDATE runs SET crashes = 0 WHERE pk = ?", (verb.run,))
        fence.crashes = 0
