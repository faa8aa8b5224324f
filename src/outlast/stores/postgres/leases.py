"""Workers: their leases, and what becomes of their runs when they go."""

from __future__ import annotations

import msgspec

from outlast.core.records import WorkerRow, WorkerState
from outlast.core.transitions import Event, Status, after
from outlast.stores.postgres.batch import Again, Batch
from outlast.stores.postgres.connections import ENDED
from outlast.stores.rows import encode_names
from outlast.stores.rules import crash_loop
from outlast.stores.verbs import Answer, Beat, Beaten, Fenced, Leave, Refused, Register, TakenOver, TakeOver

assert after(Status.RUNNING, Event.RELEASE) is Status.PENDING  # what the statements below say
assert after(Status.RUNNING, Event.TAKE_OVER) is Status.PENDING
assert after(Status.RUNNING, Event.STICK) is Status.STUCK

LOCK_OWNED = "SELECT pk FROM runs WHERE owner = %s ORDER BY pk FOR NO KEY UPDATE"

_Lists = tuple[tuple[int, ...], tuple[int, ...]]


def register(b: Batch, verb: Register) -> Answer:
    """Make a worker known, or what it serves by now."""
    w = verb.worker
    b.run_sql(
        "INSERT INTO workers (id, pid, host, boot, lock_path, lock_inode, state, started, beat, lease_until, version, "
        "python, serves, writer) VALUES (%s, %s, %s, %s, %s, %s, 'alive', %s, 0, 0, %s, %s, %s, %s) "
        "ON CONFLICT (id) DO UPDATE SET serves = excluded.serves",
        w.id,
        w.pid,
        w.host,
        b.boot,
        w.lock_path,
        w.lock_inode,
        b.now,
        w.version,
        w.python,
        encode_names(w.serves),
        b.token,
    )
    b.forget_lease(w.id)
    return beat(b, Beat(worker=w.id, lease_s=verb.lease_s))


def beat(b: Batch, verb: Beat) -> Answer:
    """Renew a lease that nobody has taken."""
    lease_until = b.lease_now + verb.lease_s
    renewed = b.rows(
        "UPDATE workers SET beat = %s, lease_until = %s, session = %s "
        "WHERE id = %s AND state = 'alive' AND boot = %s RETURNING id",
        b.now,
        lease_until,
        b.session,
        verb.worker,
        b.boot,
    )
    if not renewed:
        return Fenced(b.lease_lost(verb.worker) or "", worker_lost=True)
    b.forget_lease(verb.worker)
    return Beaten(lease_until)


def leave(b: Batch, verb: Leave) -> Answer:
    """End a worker in order."""
    row = b.worker(verb.worker)
    if row is None or row.state != WorkerState.ALIVE:
        taken_by, answer = _ending(b, verb.worker)
        return answer if taken_by == verb.worker else Fenced(b.lease_lost(verb.worker) or "", worker_lost=True)
    b.rows(LOCK_OWNED, verb.worker)
    back = _pks(
        b.rows(
            "UPDATE runs SET status = 'pending', owner = NULL, due = %s WHERE owner = %s RETURNING pk",
            b.now,
            verb.worker,
        )
    )
    return _end_worker(b, verb.worker, WorkerState.GONE, verb.worker, TakenOver(back))


def take_over(b: Batch, verb: TakeOver) -> Answer:
    """Put a dead worker's runs back in the queue."""
    if verb.worker == verb.dead:
        return Refused(f"worker {verb.dead} cannot take over from itself")
    busy = b.is_busy(verb.dead)  # or else it is locked, and what is read next stays true
    dead = b.worker(verb.dead)
    owns = bool(b.rows("SELECT 1 FROM runs WHERE owner = %s LIMIT 1", verb.dead))
    gone = verb.gone or dead is None or dead.boot != b.boot
    state = WorkerState.GONE if gone else WorkerState.EXPIRED
    if dead and not owns and dead.state == state:
        taken_by, answer = _ending(b, verb.dead)
        if taken_by == verb.worker:
            return answer  # the same verb, sent again
    if why := b.lease_lost(verb.worker):
        return Fenced(why, worker_lost=True)
    if dead and busy:
        return Refused(f"worker {verb.dead} is writing, or taken over by somebody else, at this moment")
    dropped = verb.dropped and bool(b.rows(f"SELECT 1 FROM workers WHERE id = %s AND {ENDED}", verb.dead))
    if why := _alive(b, verb.dead, dead, owns=owns, gone=gone, dropped=dropped):
        return Refused(why)
    if dead is None:
        _add_gone(b, verb.dead)
    answer = _take_runs(b, verb)
    return _end_worker(b, verb.dead, state, verb.worker, answer)


def _alive(b: Batch, worker: str, row: WorkerRow | None, *, owns: bool, gone: bool, dropped: bool) -> str | None:
    """Return why nothing is to be taken from a worker, None when it is dead and this is the first to say so."""
    if row is None:
        return None if owns else f"worker {worker} is not known here and owns no run"
    if row.state == WorkerState.ALIVE:
        expired = gone or dropped or row.lease_until <= b.lease_now
        return None if expired else f"the lease of worker {worker} has not run out"
    if owns or (gone and row.state != WorkerState.GONE):
        return None
    return f"worker {worker} is {row.state} already: somebody else took it over"


def _add_gone(b: Batch, worker: str) -> None:
    """Make a row for a worker that has none, so that only one can take it over."""
    added = b.rows(
        "INSERT INTO workers (id, pid, host, boot, lock_path, lock_inode, state, started, beat, lease_until, "
        "version, python) VALUES (%s, 0, '', '', '', 0, 'gone', 0, 0, 0, '', '') ON CONFLICT (id) DO NOTHING "
        "RETURNING id",
        worker,
    )
    if not added:
        raise Again


def _take_runs(b: Batch, verb: TakeOver) -> TakenOver:
    b.rows(LOCK_OWNED, verb.dead)
    # First those that crashed too often, so that the second statement gets what is left.
    stuck = b.rows(
        "UPDATE runs SET status = 'stuck', reason = 'crash_loop', owner = NULL, crashes = crashes + 1 "
        "WHERE owner = %s AND crashes + 1 >= %s RETURNING pk, crashes",
        verb.dead,
        verb.max_crashes,
    )
    for pk, crashes in stuck:
        b.run_sql("UPDATE runs SET detail = %s WHERE pk = %s", crash_loop(crashes), pk)
    back = b.rows(
        "UPDATE runs SET status = 'pending', owner = NULL, due = %s, crashes = crashes + 1 WHERE owner = %s "
        "RETURNING pk",
        b.now,
        verb.dead,
    )
    return TakenOver(_pks(back), _pks(stuck))


def _pks(rows: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted(row[0] for row in rows))


def _end_worker(b: Batch, worker: str, state: WorkerState, by: str, answer: TakenOver) -> TakenOver:
    lists = msgspec.json.encode((answer.runs, answer.stuck)).decode()
    b.run_sql(
        'UPDATE workers SET state = %s, "left" = %s, taken_by = %s, answer = %s WHERE id = %s',
        state.value,
        b.now,
        by,
        lists,
        worker,
    )
    b.forget_all()
    return answer


def _ending(b: Batch, worker: str) -> tuple[str, TakenOver]:
    """Return who ended a worker, and the answer it got; an empty name for a worker that nobody ended."""
    row = b.row("SELECT taken_by, answer FROM workers WHERE id = %s", worker)
    if row is None or not row[0]:
        return "", TakenOver(())
    return row[0], TakenOver(*msgspec.json.decode(row[1], type=_Lists))
