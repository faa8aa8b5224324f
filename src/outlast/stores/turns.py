"""Whose turn it is: what every store decides alike about queues and rates.

A store looks up rows; here is what follows from them. Nothing is counted up or down anywhere: a place in a queue is
taken by a run that is `running`, and a rate by what began within its window, so that no crash can lose either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from operator import itemgetter
from typing import TypeVar

import msgspec

from outlast.core.queues import Draw, Limits
from outlast.core.records import QueueRow, QueueState

T = TypeVar("T")

QUEUE, RATE = "queue:", "rate:"
"""Before the names of queues and rates, where both stand in one table."""

UNLIMITED = 1 << 40


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """A run that waits in a queue. `last` is when a run of its key began last, 0 for never."""

    priority: int
    key: str
    last: float
    due: float
    pk: int


class Begun(msgspec.Struct, frozen=True, gc=False):
    """How many runs have begun within the time of a rate, and when the oldest of them did; no more than it allows."""

    count: int
    oldest: float


class Places(msgspec.Struct):
    """What is taken in a queue: by key, by one worker, and by all."""

    keys: Counter[str]
    mine: int
    all: int


def places(running: Iterable[tuple[str, str, int]], worker: str) -> Places:
    """Count what is taken. `running` are (key, owner, number of runs)."""
    keys: Counter[str] = Counter()
    mine = 0
    for key, owner, count in running:
        keys[key] += count
        mine += count if owner == worker else 0
    return Places(keys, mine, keys.total())


def free(limits: Limits, taken: Places, limit: int) -> int:
    """Return how many more runs of a queue a worker may have that wants `limit`."""
    fleet = UNLIMITED if limits.concurrency is None else limits.concurrency - taken.all
    worker = UNLIMITED if limits.per_worker is None else limits.per_worker - taken.mine
    return max(0, min(fleet, worker, limit))


def chosen(waiting: Iterable[Waiting], limits: Limits, taken: Places, room: int) -> list[int]:
    """Return the keys of up to `room` runs whose turn it is, in order, and note them in `taken.keys`.

    The highest priority first. Among equals the key with the fewest runs, counting those that are chosen before;
    then that which has begun nothing for the longest; then who was due first.
    """
    in_order = sorted(waiting, key=lambda run: (-run.priority, run.due, run.pk))
    if limits.fair:
        in_order = _by_turns(in_order, taken.keys)
    found: list[int] = []
    for run in in_order:
        if len(found) >= room:
            break
        if limits.per_key is None or taken.keys[run.key] < limits.per_key:
            taken.keys[run.key] += 1
            found.append(run.pk)
    return found


def _by_turns(waiting: Sequence[Waiting], running: Counter[str]) -> list[Waiting]:
    seen: Counter[tuple[int, str]] = Counter()
    turns = []
    for run in waiting:
        seen[run.priority, run.key] += 1
        turns.append(((-run.priority, running[run.key] + seen[run.priority, run.key], run.last, run.due, run.pk), run))
    turns.sort(key=itemgetter(0))
    return [run for _, run in turns]


def shared(alone: list[T], in_queues: Sequence[list[T]], limit: int) -> list[T]:
    """Return up to `limit` of the runs that may be claimed: those on no queue, and those of each queue in turn.

    Where there are too many, no kind takes more than its half from the other, and no queue all from the next.
    """
    mixed = [run for row in zip_longest(*in_queues) for run in row if run is not None]
    most = max(limit - len(alone), (limit + 1) // 2)
    mixed = mixed[:most]
    return alone[: limit - len(mixed)] + mixed


def room_in_rate(limits: Limits, begun: Begun) -> int:
    """Return how many runs of a queue may begin now."""
    return UNLIMITED if limits.rate is None else max(0, limits.rate - begun.count)


def later(limits: Limits, begun: Begun, old: Iterable[float | None], new: Iterable[float | None]) -> list[float]:
    """Return when the next runs of a queue may be claimed, given that none may now.

    `old` is when the first that has begun is due; `new` the first that has not, in any time where the rate has no room.
    """
    full = not room_in_rate(limits, begun)
    found = [due for due in old if due is not None]
    return found + [max(due, begun.oldest + limits.window) if full else due for due in new if due is not None]


def states(
    known: Mapping[str, QueueState],
    waiting: Iterable[tuple[str, str, int, float]],
    running: Iterable[tuple[str, str, int]],
    now: float,
    keys: int,
) -> list[QueueState]:
    """Return what is on each queue, by name; of its keys those with the most runs.

    `waiting` are (queue, key, number of runs, when the first is due), `running` (queue, key, number of runs).
    """
    found = dict(known)
    for name, key, count, due in waiting:
        state = found.setdefault(name, QueueState(row=QueueRow(name=name)))
        state.waiting += count
        state.keys[key] = (count, 0)
        if due <= now and (state.oldest is None or due < state.oldest):
            state.oldest = due
    for name, key, count in running:
        state = found.setdefault(name, QueueState(row=QueueRow(name=name)))
        state.running += count
        state.keys[key] = (state.keys.get(key, (0, 0))[0], count)
    for state in found.values():
        in_order = sorted(state.keys.items(), key=lambda item: (-sum(item[1]), item[0]))
        state.keys = dict(in_order[:keys])
    return [found[name] for name in sorted(found)]


def no_queue(name: str) -> str:
    """Say that there is no such queue."""
    return f"there is no queue {name!r}; one is known once a worker, or a start, has declared it"


# -- rates of steps --------------------------------------------------------------


def taken_key(key: str, claim: int) -> str:
    """Return the key of a turn that was taken.

    Asked for again under the same claim it is the answer to the same question; a later claim comes after a crash,
    before which it may have been used.
    """
    return f"{key}/{claim}"


def given(mine: Sequence[float], rates: int, now: float, slack: float) -> float | None:
    """Return the turn that an attempt has been given and that still holds; None where it needs a new one.

    `mine` are the moments of all its turns, which it has in so many `rates` at once.
    """
    at = max(mine, default=0.0)
    return at if mine.count(at) == rates and at + slack >= now else None


def given_before_set_back(now: float, window: float, taken_last: float | None) -> float | None:
    """Return from when on the turns of a rate that nobody has taken yet are void; None where none is.

    What was taken in a time that is to come was taken before somebody set the clock back. The turns that were given
    after it would hold up all others for as long as the jump: whoever waits for one is given another.
    """
    return None if taken_last is None or taken_last <= now + window else taken_last - window


def turn_in_all(now: float, draws: Sequence[Draw], uses: Mapping[str, Sequence[tuple[float, float]]]) -> float:
    """Return the first turn that all rates have room for. `uses` are those of each rate, by RATE and its name."""
    at = now
    while True:
        first = at
        for draw in draws:
            used = uses.get(RATE + draw.rate, ())
            at = max(at, turn(at, used, limit=draw.limit, window=draw.window, amount=draw.amount))
        if at == first:
            return at


def turn(now: float, uses: Iterable[tuple[float, float]], *, limit: float, window: float, amount: float) -> float:
    """Return the first moment, from `now` on and after all turns that were given, at which a rate has room.

    `uses` are (at, amount) of all turns that may lie in a window which ends now or later.
    """
    in_order = sorted(uses)
    at = max(now, in_order[-1][0]) if in_order else now
    spent, first = sum(share for _, share in in_order), 0
    while True:
        while first < len(in_order) and in_order[first][0] <= at - window:
            spent -= in_order[first][1]
            first += 1
        if first == len(in_order) or spent + amount <= limit * (1 + 1e-9):
            return at
        at = in_order[first][0] + window
