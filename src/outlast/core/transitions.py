"""What a run may do next: every change of status is a row of one table.

A run is always in one of seven statuses:

- `pending`: nobody owns it; a worker may claim it as soon as it is due.
- `running`: one worker owns it and executes it.
- `waiting`: parked; it owns no memory, only a row that says what wakes it.
- `succeeded`, `failed`, `cancelled`: ended; only `resume` leaves these, and
  only the last two.
- `stuck`: it cannot go on by itself and says why (`Reason`); a person fixes
  the cause and calls `resume` or `resolve`.

A pair (status, event) that is not in `TABLE` is refused by every store. The
diagram in the documentation is drawn from this table.
"""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Where a run stands."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STUCK = "stuck"


class Reason(StrEnum):
    """Why a run is stuck."""

    IN_DOUBT = "in_doubt"
    DIVERGED = "diverged"
    CRASH_LOOP = "crash_loop"
    UNDECODABLE = "undecodable"


class Event(StrEnum):
    """What happens to a run."""

    CLAIM = "claim"  # a worker takes it
    PARK = "park"  # its worker puts it to rest
    RELEASE = "release"  # its worker hands it back (drain)
    TAKE_OVER = "take_over"  # its worker is dead: back to the queue
    WAKE = "wake"  # a message, a child's end, a decision
    SUCCEED = "succeed"
    FAIL = "fail"
    CANCEL = "cancel"  # it ends as cancelled
    EXPIRE = "expire"  # its deadline came before anybody had begun it
    STICK = "stick"  # it cannot go on by itself
    RESOLVE = "resolve"  # a person decided an attempt in doubt
    RESUME = "resume"  # a person takes it up again


S, E = Status, Event

TABLE: dict[tuple[Status, Event], Status] = {
    (S.PENDING, E.CLAIM): S.RUNNING,
    (S.PENDING, E.WAKE): S.PENDING,
    (S.PENDING, E.CANCEL): S.CANCELLED,  # never begun: nothing to clean up
    (S.PENDING, E.EXPIRE): S.FAILED,  # the same
    (S.RUNNING, E.PARK): S.WAITING,
    (S.RUNNING, E.RELEASE): S.PENDING,
    (S.RUNNING, E.TAKE_OVER): S.PENDING,
    (S.RUNNING, E.WAKE): S.RUNNING,
    (S.RUNNING, E.SUCCEED): S.SUCCEEDED,
    (S.RUNNING, E.FAIL): S.FAILED,
    (S.RUNNING, E.CANCEL): S.CANCELLED,
    (S.RUNNING, E.STICK): S.STUCK,
    (S.WAITING, E.CLAIM): S.RUNNING,
    (S.WAITING, E.WAKE): S.WAITING,  # stays waiting, but due now
    (S.WAITING, E.CANCEL): S.CANCELLED,  # by force
    (S.STUCK, E.WAKE): S.STUCK,  # kept for when it goes on
    (S.STUCK, E.RESOLVE): S.PENDING,
    (S.STUCK, E.RESUME): S.PENDING,
    (S.STUCK, E.CANCEL): S.CANCELLED,
    (S.FAILED, E.RESUME): S.PENDING,
    (S.CANCELLED, E.RESUME): S.PENDING,
}

ENDED = frozenset({S.SUCCEEDED, S.FAILED, S.CANCELLED})
CLAIMABLE = frozenset(status for (status, event) in TABLE if event is E.CLAIM)


def after(status: Status | str, event: Event) -> Status | None:
    """Return the status that follows, or None where the event is not legal."""
    return TABLE.get((Status(status), event))
