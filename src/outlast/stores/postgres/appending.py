"""The way of most batches by far, in one statement: records of runs that this process is known to own.

Nothing has to be looked at before: what the fences of `batch.Fences` say of a run that is `running` stays true while
its worker is alive and writes through this store alone. So the statement that adds the records asks for just that, of
the worker's row, which it locks. Where it does not hold, nothing is added, and the batch goes the general way to find
out why.

A statement by itself is a transaction, too, under whatever isolation level the server has for it: at the stricter ones
a worker's row that has changed meanwhile is an error, and the statement is run again.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from outlast.core.records import Record
from outlast.stores.postgres.address import Address
from outlast.stores.postgres.batch import Fence, Fences
from outlast.stores.postgres.connections import DURABLE, Link
from outlast.stores.postgres.journal import NEW_ROW, NEW_ROWS, columns
from outlast.stores.postgres.times import Times
from outlast.stores.rows import RECORD_COLUMNS
from outlast.stores.verbs import Answer, Done, Verb, Write

DONE = Done()
APPEND = f"""
WITH lease AS MATERIALIZED (
    SELECT {DURABLE}, {{for_locks}} FROM {{schema}}.workers
    WHERE id = %s AND state = 'alive' AND boot = %s AND writer = %s AND lease_until > {{lease_now}}
    FOR NO KEY UPDATE
)
INSERT INTO {{schema}}.records (run, {RECORD_COLUMNS}) SELECT new.* FROM lease, {{rows}} AS new
"""


def append(link: Link, address: Address, times: Times, fences: Fences, verbs: Sequence[Verb]) -> list[Answer] | None:
    """Commit a batch that only adds to the ends of journals, and answer it. None: it has to go the general way."""
    plan = _plan(fences, verbs) if fences.certain else None
    if plan is None:
        return None
    worker, new, ends = plan
    fences.begin()
    rows, values = (NEW_ROWS, columns(new)) if len(new) > 1 else (NEW_ROW, (new[0][0], *astuple(new[0][1])))
    statement = APPEND.format(
        schema=address.quoted_schema, for_locks=address.limits.for_locks, lease_now=times.lease_sql(), rows=rows
    )
    added = link.db.execute(statement, (worker, times.epoch(), fences.token, *values))
    if added.rowcount != len(new):
        return None
    for fence, seq in ends.values():
        fence.last_seq = seq
    fences.committed()
    return [DONE] * len(verbs)


Ends = dict[int, tuple[Fence, int]]  # by run: its fence, and the seq that its journal will end with


def _plan(fences: Fences, verbs: Sequence[Verb]) -> tuple[str, list[tuple[int, Record]], Ends] | None:
    """Return whose records are added, which, and where the journals then end; None unless all is as usual."""
    new: list[tuple[int, Record]] = []
    ends: Ends = {}
    worker = verbs[0].worker if isinstance(verbs[0], Write) else ""
    for verb in verbs:
        if type(verb) is not Write or verb.consumes or verb.emits or verb.worker != worker:
            return None
        fence = fences.runs.get(verb.run)
        if fence is None or not _is_plain(fence, verb):
            return None
        seq = ends[verb.run][1] if verb.run in ends else fence.last_seq
        for record in verb.records:
            seq += 1
            if record.seq != seq:
                return None
            new.append((verb.run, record))
        ends[verb.run] = fence, seq
    return (worker, new, ends) if new else None


def _is_plain(fence: Fence, verb: Write) -> bool:
    claimed = (fence.status, fence.holder, fence.claim) == ("running", verb.worker, verb.claim)
    return claimed and not fence.crashes
