"""Queues and rates: limits on what runs at once, and on how often something begins.

A `Queue` holds runs back, a `Rate` holds steps back. Both are known by name in the whole fleet. What a store has to
know of them are the figures: `Limits`, and what one attempt of a step takes, a `Draw`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import msgspec

from outlast.core.amounts import is_number, is_whole
from outlast.core.arguments import quoted
from outlast.core.errors import WrongUse

KEY_MAX_BYTES = 500
"""Of a queue's name, a key in a queue, `dedup` and `debounce`: several stand together in one entry of an index."""
PRIORITIES = 10**9
MOST_PLACES = 10**9
SLACK_LEAST_S, SLACK_MOST_S = 0.05, 1.0


def slack_s(per: float) -> float:
    """Return the seconds within which begins what a rate has let in; the window that it counts is longer by so much.

    Between that a store lets a run or a step in and that its code begins lies a commit, which takes now more, now less
    time: without them, more than allowed would begin in some stretch of time by the clock of who is called.
    """
    return max(SLACK_LEAST_S, min(per / 10, SLACK_MOST_S))


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The figures of a queue, as its store keeps them. None is no limit.

    `concurrency` runs at once in the fleet, `per_worker` in one worker, `per_key` of one key; `rate` first starts in
    any `per` seconds. With `fair`, keys take turns; without, runs go in the order in which they were due.
    """

    concurrency: int | None = None
    per_worker: int | None = None
    per_key: int | None = None
    rate: int | None = None
    per: float = 0.0
    fair: bool = True

    @property
    def window(self) -> float:
        """Seconds within which no more than `rate` runs are let in."""
        return self.per + slack_s(self.per)


class Queue:
    """A queue for runs. Made by `outlast.queue`."""

    def __init__(self, name: str, limits: Limits, key: Callable[..., str] | None) -> None:
        self.name = name
        self.limits = limits
        self._key = key

    def key_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the key of a call with these arguments. Raises WrongUse where the function gives none."""
        if self._key is None:
            return ""
        try:
            key = self._key(*args, **kwargs)
        except Exception as error:
            raise WrongUse(
                f"queue {self.name!r}: per_key's function, which gets the arguments of the call, raised "
                f"{type(error).__name__}: {error}"
            ) from error
        return check_key(key, f"queue {self.name!r}: the key that per_key's function made")

    def __repr__(self) -> str:
        return f"<queue {self.name}>"


def queue_of(
    name: str,
    *,
    concurrency: Any,
    per_worker: Any,
    per_key: Any,
    rate: Any,
    fair: Any,
) -> Queue:
    """Make a queue. Raises WrongUse for what cannot be its name, and for limits that make no sense."""
    check_name(name, "queue")
    key: Callable[..., str] | None = None
    most = per_key
    if isinstance(per_key, tuple):
        if len(per_key) != 2 or not callable(per_key[0]):
            raise WrongUse(f"queue({name!r}, per_key={per_key!r}): must be (function of the arguments, number of runs)")
        key, most = per_key
    for what, count in (("concurrency", concurrency), ("per_worker", per_worker), ("per_key", most)):
        if count is not None and not (is_whole(count) and 1 <= count <= MOST_PLACES):
            raise WrongUse(
                f"queue({name!r}, {what}={count!r}): must be a whole number, at least 1 and at most {MOST_PLACES}"
            )
    starts, per = None, 0.0
    if rate is not None:
        if not (isinstance(rate, tuple) and len(rate) == 2 and is_whole(rate[0]) and 1 <= rate[0] <= MOST_PLACES):
            raise WrongUse(f"queue({name!r}, rate={rate!r}): must be (number of starts, seconds), such as (100, 60.0)")
        starts, per = rate[0], check_seconds(rate[1], f"queue({name!r}, rate=(..., {rate[1]!r}))")
    if not isinstance(fair, bool):
        raise WrongUse(f"queue({name!r}, fair={fair!r}): must be True or False")
    limits = Limits(
        concurrency=concurrency, per_worker=per_worker, per_key=most, rate=starts, per=float(per), fair=fair
    )
    return Queue(name, limits, key)


class Draw(msgspec.Struct, frozen=True, gc=False):
    """What one start of a step takes of a rate: `amount` of the `limit` in any `window` seconds."""

    rate: str
    limit: float
    window: float
    amount: float


class Rate:
    """A rate of steps. Made by `outlast.rate`."""

    def __init__(self, name: str, limit: float, per: float, weight: float | Callable[..., float]) -> None:
        check_name(name, "rate")
        if not (is_number(limit) and 0 < limit < inf):
            raise WrongUse(f"rate({name!r}, {limit!r}): the limit must be a positive number")
        self.name = name
        self.limit = float(limit)
        self.per = float(check_seconds(per, f"rate({name!r}, per={per!r})"))
        if not callable(weight) and not (is_number(weight) and 0 < weight <= limit):
            raise WrongUse(
                f"rate({name!r}, weight={weight!r}): must be a number above 0 and up to the limit, {limit:g}, or a "
                "function of the step's arguments"
            )
        self.weight = weight

    @property
    def slack(self) -> float:
        """Seconds within which a step begins after it was let in."""
        return slack_s(self.per)

    def draw(self, args: tuple[Any, ...], kwargs: dict[str, Any], step: str) -> Draw:
        """Return what a call with these arguments takes. Raises WrongUse where the weight is none."""
        weight = self.weight
        if callable(weight):
            weight = weight(*args, **kwargs)
        if not (is_number(weight) and 0 <= weight <= self.limit):
            raise WrongUse(
                f"{step} weighs {weight!r} in rate {self.name!r}, whose limit is {self.limit:g}: it could never start"
            )
        return Draw(self.name, self.limit, self.per + self.slack, float(weight))

    def __repr__(self) -> str:
        return f"<rate {self.name}: {self.limit:g} per {self.per:g} s>"


def check_name(name: object, noun: str) -> None:
    """Raise WrongUse for what cannot be a name."""
    if not isinstance(name, str) or not name or not name.isprintable() or len(name.encode()) > KEY_MAX_BYTES:
        raise WrongUse(f"{noun}({quoted(name)}): its name is a printable str of 1 to {KEY_MAX_BYTES} bytes")


def check_key(key: object, what: str) -> str:
    """Return a key. Raises WrongUse for what is none."""
    if not isinstance(key, str):
        raise WrongUse(f"{what} must be a str, not {quoted(key)}; convert it in one place, so it is spelled one way")
    if not key.isprintable() or len(key.encode()) > KEY_MAX_BYTES:
        raise WrongUse(f"{what} is {quoted(key)}: must be printable and at most {KEY_MAX_BYTES} bytes")
    return key


def check_seconds(seconds: object, what: str) -> float:
    """Return seconds. Raises WrongUse for what is no positive, finite number."""
    if not (is_number(seconds) and 0 < seconds < inf):  # type: ignore[operator]
        raise WrongUse(f"{what}: must be a positive, finite number of seconds")
    return float(seconds)  # type: ignore[arg-type]
