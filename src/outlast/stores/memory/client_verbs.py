"""The verbs of anybody on the memory store. Each function looks first; it changes only what can no longer fail."""

from __future__ import annotations

import copy
from collections.abc import Callable
from math import inf
from typing import Any

from outlast.core.records import Kind, Record, RunRow, WorkerState
from outlast.core.transitions import ENDED, Event, Reason, Status, after
from outlast.stores.emits import mark_taken_up
from outlast.stores.memory.families import ask_to_end, woken_family
from outlast.stores.memory.queues import declare_queue, pause_queue
from outlast.stores.memory.tables import LIVE, Entry, Tables
from outlast.stores.memory.verbs import take
from outlast.stores.queue_verbs import DeclareQueue, PauseQueue
from outlast.stores.rules import Hold, debounced, ended_as
from outlast.stores.verbs import (
    Answer,
    Cancel,
    Claimed,
    Conflict,
    Done,
    Fenced,
    ForkRun,
    Prune,
    Refused,
    Resolve,
    Resume,
    Send,
    Started,
    StartRun,
)

SETTLED = frozenset({Kind.RESOLUTION, Kind.LATE, Kind.STEP, Kind.ATTEMPT})


def start_run(t: Tables, verb: StartRun) -> Answer:
    """Create a run, or find it."""
    known = t.by_id(verb.run.id)
    if known and known.started_as().incarnation == verb.run.incarnation:
        return Started(copy.copy(known.row), created=known.first is None, mail=bool(known.inbox))
    held: Hold | Fenced = Hold.OWNED
    if verb.run.parent is not None and verb.parent_claim is not None:
        held = t.hold(verb.run.parent, verb.parent_worker or "", verb.parent_claim)
        if isinstance(held, Fenced):
            return held
    if known:
        return _start_again(t, verb, known, told=held is Hold.PAST)
    if (same := _same_terms(t, verb)) is not None:
        return same
    if held is Hold.PAST:
        return t.fenced(verb.run.parent or 0, verb.parent_worker or "", verb.parent_claim or 0)
    if verb.claim_by is not None and (why := t.lease_lost(verb.claim_by)):
        return Fenced(why, worker_lost=True)
    entry = t.insert(verb.run)
    if verb.claim_by is not None:
        take(t, entry, verb.claim_by)
    return Started(copy.copy(entry.row), created=True, mail=bool(entry.inbox))


def _same_terms(t: Tables, verb: StartRun) -> Answer | None:
    """Answer a start that is another run's by its `dedup` or `debounce`; None where it is a run of its own."""
    run = verb.run
    if run.dedup and (holder := t.holder(run.workflow, run.dedup)):
        first = holder.started_as()
        same = (first.workflow, first.is_step, first.input) == (run.workflow, run.is_step, run.input)
        return Started(copy.copy(holder.row), created=False) if same else Conflict(first)
    for entry in t.runs.values():
        row = entry.row
        if row.workflow != run.workflow or row.status in ENDED:
            continue
        if run.debounce and row.debounce == run.debounce and (again := debounced(row, verb)) is not None:
            entry.row = again
            return Started(copy.copy(again), created=False)
    return None


def _start_again(t: Tables, verb: StartRun, known: Entry, *, told: bool) -> Answer:
    row, run, first = known.row, verb.run, known.started_as()
    if (first.workflow, first.is_step, first.input) != (run.workflow, run.is_step, run.input):
        return Conflict(first)
    parent = t.runs.get(run.parent) if run.parent is not None else None
    if parent is not None and not told and parent.row.status not in ENDED:
        if (parent.pk, run.parent_key) != (row.parent, row.parent_key):
            known.waiters.add((parent.pk, run.parent_key))
        if row.status in ENDED and not parent.knows_child(run.parent_key):
            t.tell(known, parent, run.parent_key)
    return Started(copy.copy(row), created=False)


def fork_run(t: Tables, verb: ForkRun) -> Answer:
    """Create a run from records of another."""
    known = t.by_id(verb.run.id)
    if known:
        first = known.started_as()
        same = first.incarnation == verb.run.incarnation
        return Started(copy.copy(known.row), created=known.first is None) if same else Conflict(first)
    source = t.runs.get(verb.source)
    if source is None:
        return Refused(f"there is no run {verb.source} to fork")
    missing = sorted(set(verb.keep) - set(source.records))
    if missing:
        return Refused(f"run {source.row.id!r} has no record {missing[0]}", copy.copy(source.row))
    entry = t.insert(verb.run)
    entry.records = {seq: source.records[seq] for seq in verb.keep}
    return Started(copy.copy(entry.row), created=True)


def send(t: Tables, verb: Send) -> Answer:
    """Put something in a run's inbox."""
    entry = t.by_id(verb.id)
    if entry is None:
        if not verb.early:
            return Refused(f"there is no run {verb.id!r}")
        t.early.setdefault(verb.id, {}).setdefault(verb.message_id, (t.clock.wall(), verb))
        return Done()
    if entry.row.status in ENDED:
        if t.has_had(entry, verb.kind, verb.message_id):
            return Done()
        return Refused(f"run {verb.id!r} {ended_as(entry.row.status)}", copy.copy(entry.row))
    t.put(entry, verb.kind, verb.key, verb.message_id, True, verb.value)
    return Done(_woken(entry))


def _woken(entry: Entry) -> tuple[int, ...]:
    return (entry.pk,) if entry.row.status in LIVE else ()


def cancel(t: Tables, verb: Cancel) -> Answer:
    """Ask a run to end."""
    entry = t.by_id(verb.id)
    if entry is None:
        return Refused(f"there is no run {verb.id!r}")
    row = entry.row
    if verb.parent not in (None, row.parent):
        return Refused(f"run {verb.id!r} is no child of run {verb.parent}", copy.copy(row))
    again = verb.message_id in entry.given_up
    if verb.message_id:
        entry.given_up.add(verb.message_id)
    if row.status is Status.CANCELLED:
        return Done(woken_family(t, entry))
    if row.status in ENDED:
        return Done() if verb.message_id else Refused(f"run {verb.id!r} {ended_as(row.status)}", copy.copy(row))
    if again:
        return Done(_woken(entry))
    return Done(ask_to_end(t, entry, verb.by))


def resolve(t: Tables, verb: Resolve) -> Answer:
    """Record a person's decision."""
    entry = t.by_id(verb.id)
    if entry is None:
        return Refused(f"there is no run {verb.id!r}")
    journal = [record for record in entry.journal() if record.key == verb.key]
    intents = [record for record in journal if record.kind is Kind.INTENT]
    begun = max((record.seq for record in intents if record.attempt == verb.attempt), default=0)
    for record in journal:
        if record.kind is Kind.RESOLUTION and record.attempt == verb.attempt and record.seq > begun:
            if (record.note, record.value) == (verb.decision, verb.value):
                return Done(_woken(entry))
            return Refused(f"attempt {verb.attempt} of {verb.key} was decided already: {record.note}")
    row = entry.row
    if row.status is not Status.STUCK or row.reason is not Reason.IN_DOUBT:
        return Refused(f"run {verb.id!r} is not in doubt: it is {row.status}", copy.copy(row))
    intent = intents[-1] if intents else None
    if intent is None or intent.attempt != verb.attempt:
        shown = f"the last attempt is {intent.attempt}" if intent else "it has no attempt in doubt"
        return Refused(f"attempt {verb.attempt} of {verb.key} is not in doubt: {shown}", copy.copy(row))
    for record in journal:
        if record.seq > intent.seq and record.attempt == verb.attempt and record.kind in SETTLED:
            return Refused(f"attempt {verb.attempt} of {verb.key} has an outcome: {record.kind}", copy.copy(row))
    last = entry.records[max(entry.records)]
    now = max(t.clock.wall(), last.at)
    entry.records[last.seq + 1] = Record(
        seq=last.seq + 1,
        kind=Kind.RESOLUTION,
        key=verb.key,
        at=now,
        name=intent.name,
        ok=verb.decision != "fail",
        value=verb.value,
        attempt=verb.attempt,
        effect=intent.effect,
        worker=verb.by,
        note=verb.decision,
    )
    _pending(t, entry, Event.RESOLVE)
    return Done((entry.pk,))


def _pending(t: Tables, entry: Entry, event: Event) -> None:
    row = entry.row
    assert after(row.status, event) is Status.PENDING
    row.status, row.due, row.crashes = Status.PENDING, t.clock.wall(), 0
    row.reason, row.detail = None, ""


def resume(t: Tables, verb: Resume) -> Answer:
    """Take an ended or stuck run up again."""
    entry = t.by_id(verb.id)
    if entry is None:
        return Refused(f"there is no run {verb.id!r}")
    row, last_seq = entry.row, max(entry.records, default=0)
    if row.status is not verb.status or last_seq != verb.last_seq or after(row.status, Event.RESUME) is None:
        if entry.resumed == verb:
            return Done(_woken(entry))
        return Refused(
            f"run {verb.id!r} is {row.status} at record {last_seq}, not {verb.status} at {verb.last_seq}",
            copy.copy(row),
        )
    for seq in verb.drop:
        entry.records.pop(seq, None)
    if verb.again is not None:
        entry.records[verb.again.seq] = verb.again
    if row.status is Status.FAILED and not verb.drop:
        mark_taken_up(entry.output, verb.last_seq)
    t.give_up_keys(entry, row.workflow, entry.started_as().workflow)
    if row.status in ENDED and row.deadline is not None and row.deadline <= t.clock.wall():
        row.deadline = None
    _pending(t, entry, Event.RESUME)
    row.ended = row.result = row.error = None
    row.culprit, row.cancelling = "", None
    row.options = verb.options if verb.options is not None else row.options
    entry.resumed = verb
    return Done((entry.pk,))


def prune(t: Tables, verb: Prune) -> Answer:
    """Delete runs that ended long ago, and workers that nothing can name any more."""
    old = sorted((entry.row.ended, pk) for pk, entry in t.runs.items() if entry.row.ended is not None)
    gone: list[RunRow] = []
    for ended, pk in old:
        if len(gone) >= verb.limit or ended >= verb.before:
            break
        if not t.parents(t.runs[pk]):
            gone.append(t.runs.pop(pk).row)
            del t.ids[gone[-1].id]
            t.approvals = {name: kept for name, kept in t.approvals.items() if kept.run != pk}
            t.children.pop(pk, None)
            t.children.get(gone[-1].parent or 0, set()).discard(pk)
    for run_id, messages in list(t.early.items()):
        t.early[run_id] = {key: kept for key, kept in messages.items() if kept[0] >= verb.before}
        if not t.early[run_id]:
            del t.early[run_id]
    _forget_workers(t, verb.before)
    return Claimed(tuple(gone))


def _forget_workers(t: Tables, before: float) -> None:
    """A worker that left before every open run began is named by none of their records (save what a fork copied)."""
    open_runs = [entry.row for entry in t.runs.values() if entry.row.status not in ENDED]
    since = min((min(row.created, row.started or inf) for row in open_runs), default=inf)
    for name, member in list(t.workers.items()):
        row = member.row
        if row.state is WorkerState.GONE and row.left is not None and row.left < min(before, since):
            del t.workers[name]


VERBS: dict[type[Any], Callable[[Tables, Any], Answer]] = {
    StartRun: start_run,
    Send: send,
    Cancel: cancel,
    Resolve: resolve,
    Resume: resume,
    ForkRun: fork_run,
    Prune: prune,
    DeclareQueue: declare_queue,
    PauseQueue: pause_queue,
}
