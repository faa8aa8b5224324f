"""What a journal holds after the event that ended its run: what came of that event, and what did not.

A run that is resumed is replayed without the step that failed it, so what came of the failure has to go, and all
else has to stay: the body asks for it as before. The code that could tell for certain may be elsewhere, so this goes by
what is recorded. A call's `cause` is the event in whose turn it was made, and its branch is the line of control that
made it:

- made in a turn before the failure: it stays;
- made in the turn of the failure, or of an event that came of it: it came of the failure;
- made in a later turn by a line that may know of the failure: it may have come of it. The line of the failed step
  may know, those that spawned it, and whatever else has acted on it. So may every line in a turn that one of these has
  got, since it may end, cancel or wake others there; and the line of a `once` step that was under way, since a
  cancellation is kept from it until the step has an outcome. After a cancellation of the run all may know;
- made in a later turn by any other line that had made calls before: it stays.

An effect that came of the failure, or may have come of it, cannot be taken back. A finished `pure` step that may have
come of it might be executed a second time. Either stands against resuming.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from outlast.core.deadlines import is_deadline
from outlast.core.records import Effect, Kind, Record, RunRow
from outlast.core.transitions import Status

EFFECTS = (Effect.IDEMPOTENT.value, Effect.ONCE.value)
OUTCOMES = (Kind.STEP, Kind.CHILD, Kind.LATE)
SCOPES = re.compile(r"(\.\[[^\]]*\](#\d+)?)+$")  # at the end of a branch: they name calls, and are no line of their own


class Aftermath(msgspec.Struct, frozen=True):
    """`came` has to go with the failure; `obstacle` is the first of it that cannot go."""

    came: list[Record]
    obstacle: Record | None


def cause_of_end(run: RunRow, records: Sequence[Record]) -> Record | None:
    """Return what ended a run, if a record did: its cancellation, its deadline, or the outcome of a step."""
    if run.status is Status.CANCELLED:
        return next((r for r in reversed(records) if r.kind is Kind.CANCEL), None)
    if not run.culprit and (deadline := next((r for r in records if is_deadline(r)), None)) is not None:
        return deadline
    outcomes = (r for r in reversed(records) if r.kind in OUTCOMES)
    return next((r for r in outcomes if not r.ok and r.key == run.culprit), None)


def aftermath(cause: Record, records: Sequence[Record]) -> Aftermath:
    """Tell what came of the event that ended a run."""
    made: dict[str, int] = {}  # in the turn of which event
    for record in records:
        made[record.key] = max(made.get(record.key, 0), record.cause)
    before = {_line(key) for key, turn in made.items() if turn < cause.seq}
    own = _with_spawners(_line(cause.key))
    knowing = set(own)

    events = {record.seq: record for record in records}

    def may_know(line: str) -> bool:
        return line in knowing or (line not in before and may_know(_spawner(line)))

    def is_telling(turn: int) -> bool:
        """Tell whether some line may have heard of the failure by the event of this turn."""
        event = events.get(turn)
        if event is None or cause.kind is Kind.CANCEL:
            return True
        held_back = event.effect == Effect.ONCE.value and made[event.key] < cause.seq
        return held_back or _line(event.key) in knowing

    came: dict[int, Record] = {}
    obstacle = None
    for record in records:
        turn, line = made[record.key], _line(record.key)
        if record.seq <= cause.seq or record.kind is Kind.PATCH:
            continue
        if record.kind is Kind.CANCEL:  # asked for while it was failing: it ended that course
            came[record.seq] = record
        elif turn >= cause.seq and (
            (surely := turn == cause.seq or turn in came) or is_telling(turn) or may_know(line)
        ):
            came[record.seq] = record
            knowing |= _with_spawners(line)
            again = record.kind in OUTCOMES and not (surely and line in own)
            if obstacle is None and (again or is_effect(record)):
                obstacle = record
    return Aftermath(list(came.values()), obstacle)


def is_effect(record: Record) -> bool:
    """Tell whether this speaks of an effect on the world."""
    return record.effect in EFFECTS or record.kind in (Kind.CHILD, Kind.START, Kind.ASK, Kind.MESSAGE)


def unheard_failures(cause: Record, records: Sequence[Record]) -> list[Record]:
    """Return the failures of calls that were given up after the cause; the body saw none, and asks for them again."""
    return [
        r for r in records if r.seq > cause.seq and r.kind is Kind.LATE and not r.ok and r.effect != Effect.ONCE.value
    ]


def _line(key: str) -> str:
    """Return the line of control that made a call: its branch without the scopes at its end."""
    return SCOPES.sub("", key.rpartition("/")[0] or "main")


def _spawner(line: str) -> str:
    return SCOPES.sub("", line.rpartition(".")[0])


def _with_spawners(line: str) -> set[str]:
    found = set()
    while line:
        found.add(line)
        line = _spawner(line)
    return found
