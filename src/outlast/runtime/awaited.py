"""What a run that rests waits for: as its row keeps it, and in words.

The row has it as JSON in its `detail`, so that each face tells it in its own way. (A run that has ended or is stuck has
a text there, and so may have one that rests since before this was so.)
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import msgspec

from outlast.core.records import RunRow
from outlast.core.transitions import ENDED, Status

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


def _moment(at: float) -> str:
    try:
        return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return "a time past the year 9999"
