"""When the slots of a schedule are: by a cron expression in a time zone, or by an interval.

The rule of daylight saving is cron's own (Debian's), kept by the `cronsim` library:

- A time of day that a change skips is made up for at once, at the first moment after the gap; one that comes twice
  that day is taken the first time only.
- An expression whose minute or hour is a wildcard (`*`, `*/15`) goes by real time: nothing is made up for, and both
  times of a repeated hour count.

A slot is a moment, so it has one name wherever and whenever it is worked out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import dropwhile, islice
from math import floor, inf
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec

from outlast.core.amounts import is_number, is_whole
from outlast.core.arguments import MAX_TEXT_BYTES, check_text, quoted
from outlast.core.errors import WrongUse

MOST_COUNTED = 10_000
"""So many missed slots of a cron expression are counted at a time; of more it is said that there are at least these."""
LEAST_INTERVAL_S = 0.1

CatchUp = Literal["skip", "one", "all"]
Overlap = Literal["skip", "queue", "allow"]


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a schedule's slots are, and what becomes of those that are missed or overlap."""

    cron: str = ""
    every: float = 0.0
    timezone: str = "UTC"
    catch_up: CatchUp = "one"
    most: int = 100
    grace: float = 60.0
    overlap: Overlap = "skip"
    queue: str = ""  # on which its runs wait for their turn
    queue_key: str = ""
    priority: int = 0
    options: str = "{}"  # of its runs

    def encoded(self) -> str:
        """Return it as a store keeps it."""
        return msgspec.json.encode(self).decode()

    def slots(self, after: float, anchor: float) -> Iterator[float]:
        """Return the slots after a moment, in order, without end.

        `anchor` is when the schedule began. An interval has slots before it, too: for a backfill, and for a clock that
        was set back to before it.
        """
        if self.every:
            k = floor((after - anchor) / self.every) + 1
            while anchor + k * self.every <= after:  # since floats are not exact
                k += 1
            while True:
                yield anchor + k * self.every
                k += 1
        last = after
        for moment in _cron(self.cron, self.timezone, after):
            if (at := moment.timestamp()) > last:  # two times of day in a gap are made up for at one moment
                yield at
                last = at

    def first(self, after: float, anchor: float) -> float:
        """Return the first slot after a moment."""
        return next(self.slots(after, anchor))

    def until(self, after: float, now: float, anchor: float, most: int) -> tuple[list[float], int]:
        """Return the slots after a moment up to now: the last `most` of them, and how many there were before those."""
        if self.every:
            count = max(0, floor((now - anchor) / self.every) - floor((after - anchor) / self.every))
            skip = max(0, count - most - 1)
            found = [*_up_to(now, self.slots(after + skip * self.every, anchor))]
            return found[-most:] if most else [], skip + max(0, len(found) - most)
        found = [*islice(_up_to(now, self.slots(after, anchor)), MOST_COUNTED)]
        if len(found) == MOST_COUNTED:  # the last ones, from the other end
            back = (slot.timestamp() for slot in _cron(self.cron, self.timezone, now + 61.0, reverse=True))
            last = [*islice(dropwhile(lambda slot: slot > now, back), most)][::-1]
            return last, MOST_COUNTED
        return found[-most:] if most else [], max(0, len(found) - most)


def _up_to(now: float, slots: Iterator[float]) -> Iterator[float]:
    for slot in slots:
        if slot > now:
            return
        yield slot


def _cron(expression: str, timezone: str, after: float, *, reverse: bool = False) -> Iterator[dt.datetime]:
    from cronsim import CronSim  # noqa: PLC0415 - few programs have schedules

    return CronSim(expression, dt.datetime.fromtimestamp(after, ZoneInfo(timezone)), reverse=reverse)


def spec_of(
    cron: str | None, every: float | dt.timedelta | None, timezone: str, catch_up: str, most: int, grace: float,
    overlap: str,
) -> Spec:  # fmt: skip
    """Make a spec of what a user gave. Raises WrongUse that says what makes no sense."""
    if cron is not None:
        check_text("schedule", "cron", cron, MAX_TEXT_BYTES)
    if (cron is None) == (every is None):
        raise WrongUse("a schedule has either cron= or every=: cron='0 3 * * *', or every=3600")
    if catch_up not in ("skip", "one", "all"):
        raise WrongUse(f"catch_up={catch_up!r}: must be 'skip', 'one' or 'all'")
    if overlap not in ("skip", "queue", "allow"):
        raise WrongUse(f"overlap={overlap!r}: must be 'skip', 'queue' or 'allow'")
    if not (is_whole(most) and 1 <= most <= 1_000):
        raise WrongUse(f"catch_up_limit={most!r}: must be a whole number from 1 to 1000")
    if not (is_number(grace) and 0 <= grace < inf):
        raise WrongUse(f"grace={grace!r}: must be a finite number of seconds, not negative")
    seconds = every.total_seconds() if isinstance(every, dt.timedelta) else every
    if seconds is not None and not (is_number(seconds) and LEAST_INTERVAL_S <= seconds < inf):
        raise WrongUse(f"every={every!r}: must be a finite number of seconds, {LEAST_INTERVAL_S} or more")
    try:
        ZoneInfo(timezone)
    except (ValueError, OSError, KeyError, TypeError):
        raise WrongUse(
            f"timezone={quoted(timezone)}: no such time zone here; write it as 'Europe/Berlin' (where the system has "
            "no time zones, install tzdata)"
        ) from None
    spec = Spec(
        cron=cron or "",
        every=float(seconds or 0.0),
        timezone=timezone,
        catch_up=catch_up,  # type: ignore[arg-type]
        most=most,
        grace=float(grace),
        overlap=overlap,  # type: ignore[arg-type]
    )
    if cron is not None:
        _check_cron(spec)
    return spec


def _check_cron(spec: Spec) -> None:
    from cronsim import CronSimError  # noqa: PLC0415

    try:
        spec.first(0.0, 0.0)
    except (CronSimError, StopIteration, AttributeError, TypeError) as error:
        raise WrongUse(
            f"cron={spec.cron!r}: {str(error) or 'it never comes'}; write five fields (minute, hour, day of month, "
            "month, day of week), or six with the second first"
        ) from None


def decoded(spec: str) -> Spec:
    """Return a spec that a store keeps. Raises msgspec.ValidationError."""
    return msgspec.json.decode(spec, type=Spec)
