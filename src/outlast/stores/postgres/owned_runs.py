"""What the owner of a run does to it, from the claim to the end."""

from __future__ import annotations

from outlast.core.transitions import CLAIMABLE, Event, Status, after
from outlast.stores.postgres.arrays import Ints, Texts
from outlast.stores.postgres.batch import Batch
from outlast.stores.postgres.families import tell_family, woken_family
from outlast.stores.postgres.queues import note_starts, turns_of
from outlast.stores.postgres.schema import FREE, QUEUED
from outlast.stores.rows import RUN_COLUMNS, Row, run_row
from outlast.stores.rules import END_EVENTS, Hold, missing_record
from outlast.stores.turns import shared
from outlast.stores.verbs import Answer, Claim, Claimed, Done, Failed, Fenced, Finish, Kept, Park, Release, Stick

assert {Status.PENDING, Status.WAITING} == CLAIMABLE  # `due` is set under these two only
assert after(Status.RUNNING, Event.PARK) is Status.WAITING  # what the statements below say
assert after(Status.RUNNING, Event.RELEASE) is Status.PENDING
assert after(Status.RUNNING, Event.STICK) is Status.STUCK
assert all(after(Status.RUNNING, event) is status for status, event in END_EVENTS.items())

# An empty version is "not known" and leaves what is there.
TAKE = (
    "UPDATE runs SET status = 'running', owner = %s, holder = %s, claim = claim + 1, due = NULL, detail = '', "
    "started = coalesce(started, %s), ask = %s, version = coalesce(nullif(%s, ''), version), "
    "python = coalesce(nullif(%s, ''), python) "
)
# For each workflow its runs that are due longest, off the index; what another is just claiming is passed over.
CLAIM = (
    f"{TAKE} WHERE pk = ANY (ARRAY (SELECT due.pk FROM unnest(%s) AS wanted (workflow) CROSS JOIN LATERAL ("
    "SELECT pk, due FROM runs WHERE runs.workflow = wanted.workflow AND {} "
    "ORDER BY runs.due, runs.pk LIMIT %s FOR NO KEY UPDATE SKIP LOCKED) AS due "
    f"ORDER BY due.due, due.pk LIMIT %s)) RETURNING {RUN_COLUMNS}"
)
CLAIM_DUE = CLAIM.format(f"due IS NOT NULL AND due <= %s AND queue = '' AND {FREE}")
CLAIM_AHEAD = CLAIM.format(f"due > %s AND {QUEUED} AND queue = '' AND {FREE}")
# What another has locked is let go of, and so is what it has changed meanwhile.
CLAIM_CHOSEN = (
    f"{TAKE} WHERE pk = ANY (ARRAY (SELECT pk FROM runs WHERE pk = ANY (%s) AND due IS NOT NULL "
    f"FOR NO KEY UPDATE SKIP LOCKED)) RETURNING {RUN_COLUMNS}"
)


def claim(b: Batch, verb: Claim) -> Answer:
    """Take runs that are due."""
    if why := b.lease_lost(verb.worker):
        return Fenced(why, worker_lost=True)
    if verb.key:
        again = b.rows(f"SELECT {RUN_COLUMNS} FROM runs WHERE owner = %s AND ask = %s", verb.worker, verb.key)
        if again:
            return _claimed(b, again)
    limit = max(verb.limit, 0)
    on_queues = turns_of(b, verb) if verb.queues else []
    if any(on_queues):
        return _claimed(b, _take_with_chosen(b, verb, limit, on_queues))
    taken = _take_due(b, verb, CLAIM_DUE, limit)
    if len(taken) < limit:  # queued runs whose time seems to come, since the clock was set back
        taken += _take_due(b, verb, CLAIM_AHEAD, limit - len(taken))
    return _claimed(b, taken)


def _take_due(b: Batch, verb: Claim, statement: str, limit: int) -> list[Row]:
    said = (verb.worker, verb.worker, b.now, verb.key, verb.version, verb.python)
    return b.rows(statement, *said, Texts(set(verb.workflows)), b.now, limit, limit)


def _take_with_chosen(b: Batch, verb: Claim, limit: int, on_queues: list[list[int]]) -> list[Row]:
    """Take runs that are on no queue, and those whose turn it is, each their share."""
    most = limit - len(shared([], on_queues, limit))
    taken = _take_due(b, verb, CLAIM_DUE, max(most, limit // 2))
    chosen = shared([], on_queues, limit - len(taken))
    note_starts(b, chosen)
    said = (verb.worker, verb.worker, b.now, verb.key, verb.version, verb.python)
    return taken + b.rows(CLAIM_CHOSEN, *said, Ints(chosen))


def _claimed(b: Batch, rows: list[Row]) -> Claimed:
    runs = sorted((run_row(row) for row in rows), key=lambda run: run.pk)
    for run in runs:
        b.forget_run(run.pk)
    return Claimed(tuple(runs))


def take(b: Batch, pk: int, worker: str) -> None:
    """Make a worker the owner of a run that was just started."""
    b.run_sql(f"{TAKE} WHERE pk = %s", worker, worker, b.now, "", "", "", pk)
    b.forget_run(pk)


def park(b: Batch, verb: Park) -> Answer:
    """Put a run to rest."""
    held = b.hold(verb.run, verb.worker, verb.claim)
    if held is not Hold.OWNED:
        return _repeated(b, verb, held, Status.WAITING)
    b.lock_runs([verb.run])  # whoever puts something in the inbox holds it, too
    if b.rows("SELECT 1 FROM inbox WHERE run = %s AND id > %s LIMIT 1", verb.run, verb.seen):
        return Kept()
    b.run_sql(
        "UPDATE runs SET status = 'waiting', owner = NULL, due = %s, detail = %s WHERE pk = %s",
        verb.due,
        verb.detail,
        verb.run,
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
    b.run_sql("UPDATE runs SET status = 'pending', owner = NULL, due = %s WHERE pk = %s", b.now, verb.run)
    b.forget_run(verb.run)
    return Done()


def stick(b: Batch, verb: Stick) -> Answer:
    """Mark a run that cannot go on by itself."""
    held = b.hold(verb.run, verb.worker, verb.claim)
    if held is not Hold.OWNED:
        same = "SELECT 1 FROM runs WHERE pk = %s AND reason = %s"
        if held is Hold.PAST and not b.rows(same, verb.run, verb.reason.value):
            return b.fenced(verb.run, verb.worker, verb.claim)
        return _repeated(b, verb, held, Status.STUCK)
    b.run_sql(
        "UPDATE runs SET status = 'stuck', reason = %s, detail = %s, owner = NULL WHERE pk = %s",
        verb.reason.value,
        verb.detail,
        verb.run,
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
    b.lock_runs([verb.run])  # whoever starts it as a child of theirs holds it, too
    b.run_sql(
        "UPDATE runs SET result = %s, error = %s, culprit = %s WHERE pk = %s",
        verb.result,
        verb.error,
        verb.culprit,
        verb.run,
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
