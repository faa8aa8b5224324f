"""What the owner of a run does to it, from the claim to the end."""

from __future__ import annotations

from heapq import nsmallest

from outlast.core.transitions import CLAIMABLE, Event, Status, after
from outlast.stores.rows import run_row
from outlast.stores.rules import END_EVENTS, Hold, missing_record
from outlast.stores.sqlite.batch import Batch
from outlast.stores.sqlite.families import tell_family, woken_family
from outlast.stores.sqlite.queues import note_starts, turns_of
from outlast.stores.sqlite.schema import FREE, QUEUED, RUN_COLUMNS
from outlast.stores.turns import shared
from outlast.stores.verbs import Answer, Claim, Claimed, Done, Failed, Fenced, Finish, Kept, Park, Release, Stick

assert {Status.PENDING, Status.WAITING} == CLAIMABLE  # `due` is set under these two only
assert after(Status.RUNNING, Event.PARK) is Status.WAITING  # what the statements below say
assert after(Status.RUNNING, Event.RELEASE) is Status.PENDING
assert after(Status.RUNNING, Event.STICK) is Status.STUCK
assert all(after(Status.RUNNING, event) is status for status, event in END_EVENTS.items())

# An empty version is "not known" and leaves what is there.
TAKE = (
    "UPDATE runs SET status = 'running', owner = ?2, holder = ?2, claim = claim + 1, due = NULL, detail = '', "
    "started = coalesce(started, ?3), ask = ?4, version = coalesce(nullif(?5, ''), version), "
    "python = coalesce(nullif(?6, ''), python) WHERE pk = ?1"
)
DUE = (
    f"SELECT due, pk FROM runs WHERE workflow = ? AND due IS NOT NULL AND queue = '' AND {FREE} AND due <= ? "
    "ORDER BY due, pk LIMIT ?"
)
AHEAD = (
    "SELECT due, pk FROM runs INDEXED BY runs_queued WHERE workflow = ? AND due > ? "
    f"AND {QUEUED} AND queue = '' AND {FREE} ORDER BY due, pk LIMIT ?"
)


def claim(b: Batch, verb: Claim) -> Answer:
    """Take runs that are due."""
    if why := b.lease_lost(verb.worker):
        return Fenced(why, worker_lost=True)
    if verb.key:
        again = b.rows(f"SELECT {RUN_COLUMNS} FROM runs WHERE owner = ? AND ask = ? ORDER BY pk", verb.worker, verb.key)
        if again:
            return Claimed(tuple(run_row(row) for row in again))
    limit = max(verb.limit, 0)
    due = [row for name in set(verb.workflows) for row in b.rows(DUE, name, b.now, limit)]
    if len(due) < limit:  # queued runs whose time seems to come, since the clock was set back
        due += [row for name in set(verb.workflows) for row in b.rows(AHEAD, name, b.now, limit)]
    taken = [pk for _, pk in nsmallest(limit, due)]
    if verb.queues:
        taken = shared(taken, turns_of(b, verb), limit)
        note_starts(b, taken)
    for pk in taken:
        take(b, pk, verb.worker, verb.key, verb.version, verb.python)
    return Claimed(tuple(b.run(pk) for pk in sorted(taken)))


def take(b: Batch, pk: int, worker: str, ask: str = "", version: str = "", python: str = "") -> None:
    """Make a worker the owner of a run."""
    b.db.execute(TAKE, (pk, worker, b.now, ask, version, python))
    b.forget_run(pk)


def park(b: Batch, verb: Park) -> Answer:
    """Put a run to rest."""
    held = b.hold(verb.run, verb.worker, verb.claim)
    if held is not Hold.OWNED:
        return _repeated(b, verb, held, Status.WAITING)
    if b.rows("SELECT 1 FROM inbox INDEXED BY inbox_run WHERE run = ? AND id > ? LIMIT 1", verb.run, verb.seen):
        return Kept()
    b.db.execute(
        "UPDATE runs SET status = 'waiting', owner = NULL, due = ?, detail = ? WHERE pk = ?",
        (verb.due, verb.detail, verb.run),
    )
    b.forget_run(verb.run)
    return Done()


def release(b: Batch, verb: Release) -> Answer:
    """Hand a run back."""
    held = b.hold(verb.run, verb.worker, verb.claim)
    if held is not Hold.OWNED:
        # A takeover leaves the same row behind as a release; only a lease that holds tells them apart.
        if held is Hold.PAST and (why := b.lease_lost(verb.worker)):
            return Fenced(why, worker_lost=True)
        return _repeated(b, verb, held, Status.PENDING)
    b.db.execute("UPDATE runs SET status = 'pending', owner = NULL, due = ? WHERE pk = ?", (b.now, verb.run))
    b.forget_run(verb.run)
    return Done()


def stick(b: Batch, verb: Stick) -> Answer:
    """Mark a run that cannot go on by itself."""
    held = b.hold(verb.run, verb.worker, verb.claim)
    if held is not Hold.OWNED:
        if held is Hold.PAST and not b.rows("SELECT 1 FROM runs WHERE pk = ? AND reason = ?", verb.run, verb.reason):
            return b.fenced(verb.run, verb.worker, verb.claim)
        return _repeated(b, verb, held, Status.STUCK)
    b.db.execute(
        "UPDATE runs SET status = 'stuck', reason = ?, detail = ?, owner = NULL WHERE pk = ?",
        (verb.reason, verb.detail, verb.run),
    )
    b.forget_run(verb.run)
    return Done()


def finish(b: Batch, verb: Finish) -> Answer:
    """End a run and tell its parents."""
    held = b.hold(verb.run, verb.worker, verb.claim)
    if held is not Hold.OWNED:
        answer = _repeated(b, verb, held, verb.status)
        return Done(woken_family(b, b.run(verb.run))) if isinstance(answer, Done) else answer
    fence = b.fence(verb.run)
    if fence and fence.last_seq != verb.last_seq:
        return Failed(missing_record(fence.last_seq, verb.last_seq))
    b.db.execute(
        "UPDATE runs SET result = ?, error = ?, culprit = ? WHERE pk = ?",
        (verb.result, verb.error, verb.culprit, verb.run),
    )
    b.end_run(verb.run, verb.status, verb.detail)
    return Done(tell_family(b, b.run(verb.run)))


def _repeated(b: Batch, verb: Park | Release | Stick | Finish, held: Hold | Fenced, status: Status) -> Answer:
    """Answer a verb that does not own its run: it was applied before when the run is what it would have made of it."""
    if isinstance(held, Fenced):
        return held
    fence = b.fence(verb.run)
    if held is Hold.PAST and fence and fence.status == status:
        return Done()
    return b.fenced(verb.run, verb.worker, verb.claim)
