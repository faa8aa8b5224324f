"""The verbs of workers on the memory store. Each function looks first; it changes only what can no longer fail."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from outlast.core.records import Kind, Record, WorkerRow, WorkerState
from outlast.core.transitions import CLAIMABLE, Event, Reason, Status, after
from outlast.stores import turns
from outlast.stores.emits import emit, is_there
from outlast.stores.memory.families import expire, tell_family, woken_family
from outlast.stores.memory.queues import draw_rate, note_start, turns_of
from outlast.stores.memory.tables import Entry, Member, Tables
from outlast.stores.queue_verbs import DrawRate
from outlast.stores.rules import END_EVENTS, Hold, crash_loop, is_queued, missing_record, other_content, out_of_step
from outlast.stores.time_verbs import Expire
from outlast.stores.verbs import (
    Answer,
    Beat,
    Beaten,
    Claim,
    Claimed,
    Done,
    Failed,
    Fenced,
    Finish,
    Kept,
    Leave,
    Park,
    Refused,
    Register,
    Release,
    Stick,
    TakenOver,
    TakeOver,
    Write,
)

# -- leases --------------------------------------------------------------------


def register(t: Tables, verb: Register) -> Answer:
    """Make a worker known, or what it serves by now."""
    known = t.workers.get(verb.worker.id)
    if known is None:
        row = replace(verb.worker, state=WorkerState.ALIVE, started=t.clock.wall(), left=None)
        row.boot = row.boot or t.clock.boot_id()
        t.workers[row.id] = Member(row)
    else:
        known.row.serves = verb.worker.serves
    return beat(t, Beat(worker=verb.worker.id, lease_s=verb.lease_s))


def beat(t: Tables, verb: Beat) -> Answer:
    """Renew a lease that nobody has taken."""
    member = t.workers.get(verb.worker)
    why = t.lease_lost(verb.worker)
    if member is None or member.row.state is not WorkerState.ALIVE or member.row.boot != t.clock.boot_id():
        return Fenced(why or "", worker_lost=True)
    member.row.beat = t.clock.wall()
    member.row.lease_until = t.clock.boot() + verb.lease_s
    return Beaten(member.row.lease_until)


def leave(t: Tables, verb: Leave) -> Answer:
    """End a worker in order."""
    member = t.workers.get(verb.worker)
    if member is None:
        return Fenced(f"worker {verb.worker} is not known here", worker_lost=True)
    if member.row.state is not WorkerState.ALIVE:
        left = member.taken_by == verb.worker
        return member.answer if left else Fenced(t.lease_lost(verb.worker) or "", worker_lost=True)
    owned = t.owned(verb.worker)
    for entry in owned:
        _back_in_queue(t, entry, Event.RELEASE)
    _end_worker(t, member, WorkerState.GONE, verb.worker, TakenOver(tuple(entry.pk for entry in owned)))
    return member.answer


def take_over(t: Tables, verb: TakeOver) -> Answer:
    """Put a dead worker's runs back in the queue."""
    if verb.worker == verb.dead:
        return Refused(f"worker {verb.dead} cannot take over from itself")
    dead, owned = t.workers.get(verb.dead), t.owned(verb.dead)
    gone = verb.gone or dead is None or dead.row.boot != t.clock.boot_id()
    state = WorkerState.GONE if gone else WorkerState.EXPIRED
    if dead and not owned and dead.taken_by == verb.worker and dead.row.state is state:
        return dead.answer  # the same verb, sent again
    if why := t.lease_lost(verb.worker):
        return Fenced(why, worker_lost=True)
    if dead is None:
        if not owned:
            return Refused(f"worker {verb.dead} is not known here and owns no run")
        dead = t.workers[verb.dead] = Member(WorkerRow(id=verb.dead, pid=0, state=WorkerState.GONE))
    elif dead.row.state is WorkerState.ALIVE:
        if not gone and dead.row.lease_until > t.clock.boot():
            return Refused(f"the lease of worker {verb.dead} has not run out")
    elif not owned and (not gone or dead.row.state is WorkerState.GONE):
        return Refused(f"worker {verb.dead} is {dead.row.state} already: somebody else took it over")
    stuck = [entry for entry in owned if entry.row.crashes + 1 >= verb.max_crashes]
    for entry in owned:
        entry.row.crashes += 1
        if entry in stuck:
            _stick(entry, Reason.CRASH_LOOP, crash_loop(entry.row.crashes))
        else:
            _back_in_queue(t, entry, Event.TAKE_OVER)
    back = tuple(entry.pk for entry in owned if entry not in stuck)
    _end_worker(t, dead, state, verb.worker, TakenOver(back, tuple(entry.pk for entry in stuck)))
    return dead.answer


def _end_worker(t: Tables, member: Member, state: WorkerState, by: str, answer: TakenOver) -> None:
    member.row.state = state
    member.row.left = t.clock.wall()
    member.taken_by, member.answer = by, answer


def _back_in_queue(t: Tables, entry: Entry, event: Event) -> None:
    assert after(entry.row.status, event) is Status.PENDING
    entry.row.status, entry.row.owner, entry.row.due = Status.PENDING, None, t.clock.wall()


def _stick(entry: Entry, reason: Reason, detail: str) -> None:
    entry.row.status, entry.row.reason, entry.row.detail = Status.STUCK, reason, detail
    entry.row.owner = entry.row.due = None


# -- runs ------------------------------------------------------------------------


def claim(t: Tables, verb: Claim) -> Answer:
    """Take runs that are due."""
    if why := t.lease_lost(verb.worker):
        return Fenced(why, worker_lost=True)
    if verb.key:
        again = [entry for entry in t.owned(verb.worker) if entry.ask == verb.key]
        if again:
            return Claimed(tuple(copy.copy(entry.row) for entry in again))
    now = t.clock.wall()
    due = [
        (entry.row.due, pk, entry)
        for pk, entry in t.runs.items()
        if entry.row.status in CLAIMABLE
        and entry.row.workflow in verb.workflows
        and not entry.row.queue
        and not entry.row.held
        and entry.row.due is not None
        and (entry.row.due <= now or is_queued(entry.row.status, entry.row.claim, entry.row.due, entry.row.created))
    ]
    limit = max(verb.limit, 0)
    alone = [entry for _, _, entry in sorted(due)[:limit]]
    taken = turns.shared(alone, turns_of(t, verb, now), limit)
    for entry in taken:
        note_start(t, entry, now)
        take(t, entry, verb.worker, verb.key)
        entry.row.version = verb.version or entry.row.version
        entry.row.python = verb.python or entry.row.python
    return Claimed(tuple(copy.copy(t.runs[pk].row) for pk in sorted(entry.pk for entry in taken)))


def take(t: Tables, entry: Entry, worker: str, ask: str = "") -> None:
    """Make a worker the owner of a run."""
    row = entry.row
    assert after(row.status, Event.CLAIM) is Status.RUNNING
    row.status, row.owner, row.due, row.detail = Status.RUNNING, worker, None, ""
    row.claim += 1
    if row.started is None:
        row.started = t.clock.wall()
    entry.holder, entry.ask = worker, ask


def write(t: Tables, verb: Write) -> Answer:
    """Add records to a journal."""
    held = t.hold(verb.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    entry = t.runs[verb.run]
    if held is Hold.PAST:
        same = all(entry.records.get(record.seq) == record for record in verb.records)
        applied = same and not any(row in entry.inbox for row in verb.consumes)
        applied = applied and (bool(verb.records) or is_there(entry.output, verb.emits))
        return Done() if applied else t.fenced(verb.run, verb.worker, verb.claim)
    last_seq, fresh = max(entry.records, default=0), dict[int, Record]()
    for record in verb.records:
        known = entry.records.get(record.seq) or fresh.get(record.seq)
        if known is not None and known != record:
            return Failed(other_content(record.seq))
        if known is None:
            if record.seq != last_seq + 1:
                return Failed(out_of_step(record.seq, last_seq))
            last_seq, fresh[record.seq] = record.seq, record
    entry.records.update(fresh)
    for consumed in verb.consumes:
        row = entry.inbox.pop(consumed, None)
        if row and row.kind is not Kind.CHILD:  # a child's end is told once by its own rules
            entry.taken.add((row.kind, row.message_id))
    if fresh or not verb.records:  # with records that are there already, it came with them
        emit(entry.output, verb.emits)
    if verb.records:
        entry.row.crashes = 0
    return Done()


def park(t: Tables, verb: Park) -> Answer:
    """Put a run to rest."""
    held = t.hold(verb.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    row, inbox = t.runs[verb.run].row, t.runs[verb.run].inbox
    if held is Hold.PAST:
        return Done() if row.status is Status.WAITING else t.fenced(verb.run, verb.worker, verb.claim)
    if next(reversed(inbox), 0) > verb.seen:
        return Kept()
    row.status, row.owner, row.due, row.detail = Status.WAITING, None, verb.due, verb.detail
    return Done()


def release(t: Tables, verb: Release) -> Answer:
    """Hand a run back."""
    held = t.hold(verb.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    entry = t.runs[verb.run]
    if held is Hold.PAST:
        # A takeover leaves the same row behind as a release; only a lease that holds tells them apart.
        if entry.row.status is Status.PENDING and not t.lease_lost(verb.worker):
            return Done()
        return t.fenced(verb.run, verb.worker, verb.claim)
    _back_in_queue(t, entry, Event.RELEASE)
    return Done()


def stick(t: Tables, verb: Stick) -> Answer:
    """Mark a run that cannot go on by itself."""
    held = t.hold(verb.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    row = t.runs[verb.run].row
    if held is Hold.PAST:
        same = row.status is Status.STUCK and row.reason is verb.reason
        return Done() if same else t.fenced(verb.run, verb.worker, verb.claim)
    _stick(t.runs[verb.run], verb.reason, verb.detail)
    return Done()


def finish(t: Tables, verb: Finish) -> Answer:
    """End a run and tell its parents."""
    held = t.hold(verb.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    entry, row = t.runs[verb.run], t.runs[verb.run].row
    if held is Hold.PAST:
        if row.status is verb.status:
            return Done(woken_family(t, entry))
        return t.fenced(verb.run, verb.worker, verb.claim)
    assert after(row.status, END_EVENTS[verb.status]) is verb.status
    last_seq = max(entry.records, default=0)
    if last_seq != verb.last_seq:
        return Failed(missing_record(last_seq, verb.last_seq))
    t.end(entry, verb.status)
    row.result, row.error, row.culprit, row.detail = verb.result, verb.error, verb.culprit, verb.detail
    return Done(tell_family(t, entry))


VERBS: dict[type[Any], Callable[[Tables, Any], Answer]] = {
    Register: register,
    Beat: beat,
    Leave: leave,
    TakeOver: take_over,
    Claim: claim,
    Write: write,
    Park: park,
    Release: release,
    Stick: stick,
    DrawRate: draw_rate,
    Finish: finish,
    Expire: expire,
}
