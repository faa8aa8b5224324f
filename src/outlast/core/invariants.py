"""What must hold at every moment, by number.

| rule | in words |
|---|---|
| I1 | a finished step is never executed again |
| I2 | once faults stop, every run ends, or is stuck for a reason that a person can act on |
| I3 | a run has one owner: nobody else changes it, and its claims only grow |
| I4 | nothing leaves a run before the records it rests on are committed |
| I5 | a `once` effect reaches the world at most once unless it was found not to have happened; its intent comes first |
| I6 | a journal only grows at its end, without gaps, and is never rewritten |
| I7 | the result is that of an undisturbed run, and replaying the journal gives it again |
| I8 | a repeated step uses the key of its first attempt, and no other step's |
| I9 | an ended run stays as it ended |
| I10 | nothing that was acknowledged is lost: starts, results, recorded steps |
| I11 | no effect starts on a process whose lease has ended by its own clock |

Each function here looks at rows or records and returns what breaks its rule, in words, or None. They read only what
they are given, so a test may call them at any moment, and a tool on any store. I2, I7 and I10 speak of whole
histories: only a test that watches from outside can tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast.core.certainty import open_intents
from outlast.core.identity import derive
from outlast.core.records import Kind, Record, RunRow
from outlast.core.transitions import ENDED, TABLE, Status

OUTCOMES = frozenset({Kind.STEP, Kind.LATE, Kind.CHILD})

NEXT = frozenset((before, after) for (before, _), after in TABLE.items())


def executed_again(records: Sequence[Record], key: str) -> str | None:
    """I1: the step of this identity may be executed only while the journal holds no outcome of it."""
    outcome = next((r for r in records if r.key == key and r.kind in OUTCOMES), None)
    return None if outcome is None else f"I1: {key} is executed again, though record {outcome.seq} is its outcome"


def unsound(row: RunRow) -> str | None:
    """I2, I3, I9: the parts of a row agree with its status."""
    status = row.status
    if (row.owner is not None) != (status is Status.RUNNING):
        return f"I3: run {row.id} is {status} and its owner is {row.owner}"
    if (row.ended is not None) != (status in ENDED):
        return f"I9: run {row.id} is {status} and ended at {row.ended}"
    if (row.reason is not None) != (status is Status.STUCK):
        return f"I2: run {row.id} is {status} for the reason {row.reason}"
    if status is Status.PENDING and row.due is None:
        return f"I2: run {row.id} is pending and never due, so nobody will claim it"
    if row.due is not None and status not in (Status.PENDING, Status.WAITING):
        return f"I3: run {row.id} is {status} and due at {row.due}, as if it could be claimed"
    return None


def changed_unlawfully(before: RunRow, after: RunRow) -> str | None:
    """I3, I9: a run moves only along the table of transitions; a new owner has a new claim."""
    if before.status in ENDED and after != before:
        return f"I9: run {before.id} had {before.status}, and was changed: {before} -> {after}"
    if before.status is not after.status and (before.status, after.status) not in NEXT:
        return f"I3: run {before.id} went from {before.status} to {after.status}"
    if after.claim < before.claim:
        return f"I3: the claim of run {before.id} went back from {before.claim} to {after.claim}"
    if after.owner is not None and after.owner != before.owner and after.claim != before.claim + 1:
        return f"I3: run {before.id} went to {after.owner} with claim {after.claim} after {before.claim}"
    return None


def not_the_owner(run: RunRow, worker: str, claim: int) -> str | None:
    """I3: who acts for a run owns it, under its current claim."""
    if run.status is Status.RUNNING and run.owner == worker and run.claim == claim:
        return None
    return (
        f"I3: worker {worker} acts for run {run.id} under claim {claim}, but the run is {run.status}, owned by "
        f"{run.owner} under claim {run.claim}"
    )


def left_too_early(run: str, what: str, rests_on: int, committed: int) -> str | None:
    """I4: what leaves a run rests on the record `rests_on`; the journal holds records up to `committed`."""
    if rests_on <= committed:
        return None
    return f"I4: {what} leaves run {run} and rests on record {rests_on}, but only {committed} are committed"


def without_intent(records: Sequence[Record], key: str, attempt: int) -> str | None:
    """I5: a `once` attempt begins only under an intent of its own that is committed and not yet settled."""
    if any(r.key == key and r.attempt == attempt for r in open_intents(records)):
        return None
    return f"I5: attempt {attempt} of {key} begins, but the journal has no open intent of it"


def ended_in_doubt(row: RunRow, records: Sequence[Record]) -> str | None:
    """I5: a run ends only when every `once` attempt that it began has an outcome. (A person may cancel a stuck one.)"""
    intents = open_intents(records)
    if row.status not in ENDED or row.detail.startswith("cancelled") or not intents:
        return None
    return f"I5: run {row.id} has {row.status}, and attempt {intents[0].attempt} of {intents[0].key} is in doubt"


def timer_before_doubt(records: Sequence[Record], known: int, worker: str) -> str | None:
    """I7: after a takeover an attempt in doubt is settled before any timer fires, overdue or not.

    `records` beyond the first `known` were written just now, by this worker.
    """
    fired = next((i for i in range(known, len(records)) if records[i].kind is Kind.TIMER), None)
    if fired is None:
        return None
    doubts = [r for r in open_intents(records[:fired]) if r.worker != worker]
    if not doubts:
        return None
    return f"I7: timer {records[fired].key} fires while attempt {doubts[0].attempt} of {doubts[0].key} is in doubt"


def rewritten(before: Sequence[Record], after: Sequence[Record]) -> str | None:
    """I6: `after` is `before` with records added at the end, each numbered one above the last."""
    for old, new in zip(before, after, strict=False):
        if old is not new and old != new:
            return f"I6: record {old.seq} was rewritten: {old} -> {new}"
    if len(after) < len(before):
        return f"I6: {len(before) - len(after)} records are gone, from {before[len(after)]} on"
    last = before[-1].seq if before else 0
    for record in after[len(before) :]:
        if record.seq != last + 1:
            return f"I6: record {record.seq} follows record {last}"
        last = record.seq
    return None


def other_key(incarnation: str, key: str, used: str) -> str | None:
    """I8: the idempotency key of a step is derived from its run and its identity, whatever the attempt."""
    expected = derive(incarnation, "step", key)
    return None if used == expected else f"I8: {key} uses the key {used}, and its own is {expected}"


def starts_without_lease(what: str, lease_until: float, now: float) -> str | None:
    """I11: an effect starts only while the lease holds; both times are by the lease's clock."""
    return None if now < lease_until else f"I11: {what} starts {now - lease_until:.3f} s after its lease ended"
