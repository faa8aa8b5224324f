"""What a run that rests waits for: as its worker sees it, as its row keeps it, and in words.

The row has it as JSON in its `detail`, so that each face tells it in its own way. (A run that has ended or is stuck has
a text there, and so may have one that rests since before this was so.)
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from outlast.core.identity import shown
from outlast.core.records import RunRow
from outlast.core.transitions import ENDED, Status
from outlast.core.waits import Wait
from outlast.runtime.deadlines import deadline_ahead
from outlast.stores.rules import keepable

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution

MOST_TOLD = 10
MOST_CHARACTERS = 200

NOTHING = "something that nothing of this run can bring about"
MAY_END = frozenset({"message", "approval"})
"""Kinds of waits whose time may be over before what they wait for has come."""


class Awaited(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a run waits for.

    `kind` is that of `StepInfo`, or `retry`, `doubt`, `deadline`, `more` (how many others there are); `key` the
    identity of the call or timer, `due` when the wait is over by itself.
    """

    kind: str
    says: str
    key: str = ""
    due: float | None = None

    def told(self, moment: Callable[[float], str] | None = None) -> str:
        """Return it in words; `moment` writes a time, as UTC if left out."""
        over = self.kind in MAY_END and self.due is not None
        return f"{self.says} (until {(moment or _moment)(self.due or 0)})" if over else self.says


def awaited_by(run: Execution) -> list[Awaited]:
    """Return what a run in memory waits for, what tells most first; the last one counts those that are left out."""
    found = [*_doubts(run), *_calls(run), *_clocks(run)]
    rest = len(found) - MOST_TOLD
    told = found if rest <= 0 else [*found[:MOST_TOLD], Awaited("more", f"{rest} more")]
    return [msgspec.structs.replace(each, says=_short(each.says)) for each in told]


def next_due(run: Execution) -> float | None:
    """Return when something of its own is due for a run in memory."""
    dues = [*run.steps.retries.values(), *(doubt.due for doubt in run.steps.doubts.values()), *run.approvals.dues()]
    timer = None if run.steps.hold_back_timers() else run.engine.next_timer()
    if timer is not None and timer.when() < float("inf"):
        dues.append(timer.when())
    return min((due for due in (*dues, deadline_ahead(run)) if due is not None), default=None)


def _doubts(run: Execution) -> Iterator[Awaited]:
    for doubt in run.steps.doubts.values():
        if doubt.due is not None:
            yield Awaited("doubt", doubt.says, doubt.pending.key, doubt.due)


def _calls(run: Execution) -> Iterator[Awaited]:
    """Yield what has to come from outside: from people, from who sends messages, from children."""
    calls = run.engine.waits_for()
    for pending in sorted(calls, key=lambda p: p.is_child):
        if isinstance(wait := pending.call.definition, Wait):
            due = pending.timer.when() if pending.timer is not None else run.approvals.due(pending)
            yield Awaited(wait.kind, wait.says(), pending.key, due)
        elif pending.is_child:
            yield Awaited("child", f"child {shown(pending.key)}", pending.key)


def _clocks(run: Execution) -> Iterator[Awaited]:
    """Yield what comes with time."""
    for key, due in run.steps.retries.items():
        yield Awaited("retry", f"the next attempt of {shown(key)}", key, due)
    of_waits = {id(pending.timer) for pending in run.engine.waits_for()}
    if not run.steps.hold_back_timers():
        for timer in sorted(run.engine.loop.timers.values(), key=lambda timer: timer.when()):
            if timer.when() < float("inf") and id(timer) not in of_waits:
                yield Awaited("timer", f"timer {shown(timer.key)}", timer.key, timer.when())
    if (deadline := deadline_ahead(run)) is not None:
        yield Awaited("deadline", "its deadline", due=deadline)


def in_words(waits: list[Awaited]) -> str:
    """Return what a run waits for as one line."""
    return "; ".join(each.told() for each in waits) or NOTHING


def kept(waits: list[Awaited]) -> str:
    """Return what a run waits for as its row keeps it."""
    return msgspec.json.encode(waits).decode()


def awaited_in(row: RunRow) -> list[Awaited]:
    """Return what a run waits for, by its row."""
    if row.status in ENDED or row.status is Status.STUCK or not row.detail:
        return []
    try:
        return msgspec.json.decode(row.detail, type=list[Awaited]) or [Awaited("nothing", NOTHING)]
    except msgspec.MsgspecError:
        return [Awaited("", row.detail)]


def detail_of(row: RunRow) -> str:
    """Return what a run waits for, or why it stands still, or how it ended, as one line."""
    if row.status in ENDED or row.status is Status.STUCK:
        return row.detail
    waits = awaited_in(row)
    says = in_words(waits) if waits else ""
    if row.cancelling is not None:
        rests_in = says or ("its clean-up" if row.owner is not None else "a worker")
        says = f"cancelling since {_moment(row.cancelling)}, waits for {rests_in}"
    if row.held and row.owner is None:
        says = f"held back ({says})" if says else "held back"
    return says


def _short(text: str) -> str:
    line = keepable(text)
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"


def _moment(at: float) -> str:
    try:
        return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return "a time past the year 9999"
