"""Queues and rates on the memory store."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence

from outlast.core.records import QueueRow, QueueState
from outlast.core.transitions import CLAIMABLE, Status
from outlast.stores import turns
from outlast.stores.memory.tables import Entry, Tables, Use
from outlast.stores.queue_verbs import DeclareQueue, Drawn, DrawRate, PauseQueue
from outlast.stores.rules import is_queued
from outlast.stores.turns import QUEUE, RATE, Begun, Places, Waiting
from outlast.stores.verbs import Answer, Claim, Done, Fenced, Refused


def declare_queue(t: Tables, verb: DeclareQueue) -> Answer:
    """Say the limits of a queue."""
    t.queues.setdefault(verb.name, QueueRow(name=verb.name)).limits = verb.limits
    return Done()


def pause_queue(t: Tables, verb: PauseQueue) -> Answer:
    """Begin nothing more of a queue, or go on with it."""
    row = t.queues.get(verb.name)
    if row is None:
        return Refused(turns.no_queue(verb.name))
    if not verb.paused:
        row.paused, row.paused_by = None, ""
    elif row.paused is None:
        row.paused, row.paused_by = t.clock.wall(), verb.by
    return Done()


def turns_of(t: Tables, verb: Claim, now: float) -> list[list[Entry]]:
    """Return, for each queue that the worker serves, the runs whose turn it is."""
    found = []
    for name in sorted(set(verb.queues)):
        row = t.queues.get(name)
        if row is not None and row.paused is None:
            found.append([t.runs[pk] for pk in _turns_in(t, row, verb.worker, verb.workflows, verb.limit, now)])
    return found


def _turns_in(t: Tables, row: QueueRow, worker: str, workflows: Sequence[str], limit: int, now: float) -> list[int]:
    taken = _places(t, row.name, worker)
    room = turns.free(row.limits, taken, limit)
    begun = turns.chosen(_waiting(t, row.name, workflows, now, begun=True), row.limits, taken, room)
    room = min(room - len(begun), turns.room_in_rate(row.limits, _begun(t, row, now)))
    return begun + turns.chosen(_waiting(t, row.name, workflows, now, begun=False), row.limits, taken, room)


def _places(t: Tables, name: str, worker: str) -> Places:
    rows = [e.row for e in t.runs.values() if e.row.queue == name and e.row.status is Status.RUNNING]
    return turns.places([(row.queue_key, row.owner or "", 1) for row in rows], worker)


def _waiting(t: Tables, name: str, workflows: Sequence[str], now: float, *, begun: bool) -> list[Waiting]:
    last: dict[str, float] = {}
    for entry in t.runs.values():
        if entry.row.queue == name and entry.row.started is not None:
            last[entry.row.queue_key] = max(last.get(entry.row.queue_key, 0.0), entry.row.started)
    return [
        Waiting(row.priority, row.queue_key, last.get(row.queue_key, 0.0), row.due, row.pk)
        for row in (entry.row for entry in t.runs.values())
        if row.queue == name
        and row.status in CLAIMABLE
        and row.workflow in workflows
        and not row.held
        and row.due is not None
        and (row.due <= now or is_queued(row.status, row.claim, row.due, row.created))
        and (row.started is not None) is begun
    ]


def _begun(t: Tables, row: QueueRow, now: float) -> Begun:
    if row.limits.rate is None:
        return Begun(0, 0.0)
    window, name = row.limits.window, QUEUE + row.name
    newest = sorted((u.at for u in t.uses if u.name == name and now - window < u.at <= now + window), reverse=True)
    newest = newest[: row.limits.rate]
    return Begun(len(newest), min(newest, default=0.0))


def note_start(t: Tables, entry: Entry, now: float) -> None:
    """Note the first claim of a run whose queue has a rate; forget what no rate counts any more."""
    row = t.queues.get(entry.row.queue)
    if row is not None and row.limits.rate is not None and entry.row.started is None:
        name, window = QUEUE + row.name, row.limits.window
        t.uses = [u for u in t.uses if u.name != name or now - window < u.at <= now + window]
        t.uses.append(Use(name, now, 1.0, taken=True))


def next_due(t: Tables, workflows: Sequence[str], queues: Sequence[str], worker: str, now: float) -> float | None:
    """Return when the next run on these queues may be claimed, as far as time alone decides."""
    found: list[float] = []
    for name in set(queues):
        row = t.queues.get(name)
        if row is None or row.paused is not None or not turns.free(row.limits, _places(t, name, worker), 1):
            continue
        if _turns_in(t, row, worker, workflows, 1, now):
            return now
        begun = _begun(t, row, now)
        since = now if turns.room_in_rate(row.limits, begun) else 0.0
        rows = [e.row for e in t.runs.values() if e.row.queue == name and e.row.due is not None and not e.row.held]
        old = [r.due for r in rows if r.started is not None and r.due is not None and r.due > now]
        new = [r.due for r in rows if r.started is None and r.due is not None and r.due > since]
        found += turns.later(row.limits, begun, [min(old, default=None)], [min(new, default=None)])
    return min(found, default=None)


def queue_states(t: Tables, keys: int) -> list[QueueState]:
    """Return what is on each queue, by name."""
    waiting: dict[tuple[str, str], list[float]] = {}
    running: Counter[tuple[str, str]] = Counter()
    now = t.clock.wall()
    for row in (entry.row for entry in t.runs.values() if entry.row.queue):
        if row.status is Status.RUNNING:
            running[row.queue, row.queue_key] += 1
        elif row.due is not None:
            waiting.setdefault((row.queue, row.queue_key), []).append(row.due)
    return turns.states(
        {n: QueueState(row=copy.copy(row), begun=_begun(t, row, now).count) for n, row in t.queues.items()},
        [(*place, len(dues), min(dues)) for place, dues in waiting.items()],
        [(*place, count) for place, count in running.items()],
        now,
        keys,
    )


def draw_rate(t: Tables, verb: DrawRate) -> Answer:
    """Give a step's attempt its turn."""
    held = t.hold(verb.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    now = t.clock.wall()
    names = {RATE + draw.rate: draw for draw in verb.draws}
    t.uses = [u for u in t.uses if u.name not in names or u.at > now - 2 * names[u.name].window]
    for name, draw in names.items():
        last = max((u.at for u in t.uses if u.name == name and u.taken), default=None)
        if (since := turns.given_before_set_back(now, draw.window, last)) is not None:
            t.uses = [u for u in t.uses if u.name != name or u.taken or u.at <= since]
    taken_key = turns.taken_key(verb.key, verb.claim)
    mine = [u for u in t.uses if u.key in (verb.key, taken_key)]
    at = turns.given([u.at for u in mine], len(names), now, verb.slack)
    if at is None:
        t.uses = [u for u in t.uses if u.taken or u not in mine]
        uses = {
            name: [(min(u.at, now) if u.taken else u.at, u.amount) for u in t.uses if u.name == name] for name in names
        }
        at = turns.turn_in_all(now, verb.draws, uses)
        mine = [Use(RATE + draw.rate, at, draw.amount, key=verb.key) for draw in verb.draws]
        t.uses += mine
    if at <= now:
        for use in mine:
            if use.key == verb.key:
                use.taken, use.key = True, taken_key
    return Drawn(at)
