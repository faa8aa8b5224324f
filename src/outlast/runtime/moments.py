"""Moments and durations as users give them, as the times of a store."""

from __future__ import annotations

import datetime as dt
from math import inf

from outlast.core.amounts import is_number
from outlast.core.deadlines import LATEST_S
from outlast.core.errors import WrongUse


def seconds_of(when: object, what: str) -> float:
    """Return an aware datetime in seconds since the epoch. Raises WrongUse for anything else."""
    if not isinstance(when, dt.datetime):
        raise WrongUse(f"{what}: {when!r} is not a datetime; write for example outlast.now() + timedelta(hours=1)")
    if when.utcoffset() is None:
        raise WrongUse(
            f"{what}: {when!r} has no time zone, so it is another moment on each machine; give it one, for example "
            "datetime(..., tzinfo=ZoneInfo('Europe/Berlin')), or start from outlast.now()"
        )
    return when.timestamp()


def deadline_of(deadline: object, now: float) -> float | None:
    """Return when a run has to have ended that is started now: a moment, or so many seconds from now; None for never.

    Raises WrongUse.
    """
    if deadline is None:
        return None
    if not is_number(deadline):
        return min(seconds_of(deadline, "deadline="), LATEST_S)
    if not 0 < deadline < inf:  # type: ignore[operator]
        raise WrongUse(f"deadline={deadline!r}: must be a positive, finite number of seconds, or a datetime")
    return min(now + float(deadline), LATEST_S)  # type: ignore[arg-type]


def earliest(*moments: float | None) -> float | None:
    """Return the first of some moments; None is never."""
    return min((moment for moment in moments if moment is not None), default=None)
