"""The terms on which one run is started: its queue, its turn there, when at the earliest, and beside which others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import inf, isfinite
from typing import Any, TypedDict

from outlast.core.amounts import is_number, is_whole
from outlast.core.arguments import quoted
from outlast.core.deadlines import LATEST_S
from outlast.core.errors import WrongUse
from outlast.core.queues import PRIORITIES, Queue, check_key, check_seconds
from outlast.core.records import RunRow
from outlast.core.usage import with_budget

SHARED_ID = "id= names one run for good, dedup= and debounce= find one that has not ended: choose one"


@dataclass(frozen=True, slots=True)
class Terms:
    """See the top of this file. `delay` is in seconds, or the time itself."""

    queue: Queue | None = None
    queue_key: str | None = None
    priority: int = 0
    delay: float | datetime | None = None
    dedup: str | None = None
    debounce: str | None = None
    max_wait: float | None = None
    timeout: float | None = None
    max_tokens: int | None = None
    max_cost: float | None = None

    def __post_init__(self) -> None:
        if self.queue is not None and not isinstance(self.queue, Queue):
            raise WrongUse(f"queue={self.queue!r}: must be what outlast.queue(...) made, not its name")
        if self.queue is None and (self.queue_key is not None or self.priority):
            raise WrongUse("queue_key= and priority= are for a run on a queue; give it one: queue=outlast.queue(...)")
        for name in ("queue_key", "dedup", "debounce"):
            if getattr(self, name) is not None:
                key = check_key(getattr(self, name), f"{name}=")
                if not key and name != "queue_key":
                    raise WrongUse(f"{name}='': the key must not be empty")
        if not (is_whole(self.priority) and -PRIORITIES <= self.priority <= PRIORITIES):
            raise WrongUse(
                f"priority={quoted(self.priority)}: must be a whole number; higher goes first, the usual is 0"
            )
        self._check_delay()
        if self.timeout is not None and not (is_number(self.timeout) and 0 < self.timeout < inf):
            raise WrongUse(f"timeout={self.timeout!r}: must be a positive, finite number of seconds")
        check_budget("", self.max_tokens, self.max_cost)
        if self.dedup is not None and self.debounce is not None:
            raise WrongUse("dedup= and debounce= are two answers to one question; choose one")
        if self.debounce is not None and (self.delay is None or isinstance(self.delay, datetime)):
            raise WrongUse("debounce= needs delay=, the seconds of quiet after which the run begins")
        if self.max_wait is not None:
            if self.debounce is None:
                raise WrongUse("max_wait= belongs to debounce=: how long later starts may put the run off")
            check_seconds(self.max_wait, f"max_wait={self.max_wait!r}")

    def _check_delay(self) -> None:
        delay: Any = self.delay
        if isinstance(delay, datetime):
            if delay.tzinfo is None:
                raise WrongUse(f"delay={delay!r}: a time needs its time zone, such as datetime(..., tzinfo=UTC)")
        elif delay is not None and not (is_number(delay) and delay >= 0 and isfinite(delay)):
            raise WrongUse(f"delay={delay!r}: must be seconds, not negative, or a datetime with a time zone")

    @property
    def is_shared(self) -> bool:
        """Whether a start on these terms may give a run that an earlier one has made."""
        return self.dedup is not None or self.debounce is not None

    def put_in(self, row: RunRow, args: tuple[Any, ...], kwargs: dict[str, Any], now: float) -> None:
        """Write the terms into the row of a run that is to be started `now` with these arguments. Raises WrongUse."""
        if self.queue is not None:
            row.queue, row.priority = self.queue.name, int(self.priority)
            row.queue_key = self.queue_key if self.queue_key is not None else self.queue.key_of(args, kwargs)
        if isinstance(self.delay, datetime):
            row.due = self.delay.timestamp()
        elif self.delay is not None:
            row.due = now + float(self.delay)
        if self.timeout is not None:
            row.deadline = min(now + float(self.timeout), LATEST_S)
        row.dedup, row.debounce = self.dedup or "", self.debounce or ""
        row.options = with_budget(row.options, max_tokens=self.max_tokens, max_cost=self.max_cost)


class TermsOfCall(TypedDict, total=False):
    """What `workflow.options(...)` takes beside `id` and `durability`."""

    queue: Queue | None
    queue_key: str | None
    priority: int
    delay: float | datetime | None
    dedup: str | None
    debounce: str | None
    max_wait: float | None
    timeout: float | None
    max_tokens: int | None
    max_cost: float | None


def terms_of(usual: Terms | None, options: TermsOfCall) -> Terms:
    """Return the terms of a call with these options; queue and budget are the usual ones unless they say others.

    Raises WrongUse.
    """
    unknown = options.keys() - TermsOfCall.__annotations__.keys()
    if unknown:
        known = ", ".join(["id", "durability", *TermsOfCall.__annotations__])
        raise WrongUse(f"no such option: {', '.join(sorted(unknown))}; there are {known}")
    chosen: dict[str, Any] = dict(options)
    for name in ("queue", "max_tokens", "max_cost"):
        if chosen.get(name) is None:
            chosen[name] = getattr(usual, name, None)
    return Terms(**chosen)


def check_budget(call: str, max_tokens: int | None, max_cost: float | None) -> None:
    """Raise WrongUse for limits that make no sense. `call` is who was given them, such as `app.resume`."""
    for name, limit, fits, takes in (
        ("max_tokens", max_tokens, is_whole, "a whole number"),
        ("max_cost", max_cost, is_number, "a finite number"),
    ):
        if limit is not None and not (fits(limit) and 0 < limit < inf):
            given = f"{name}={quoted(limit)}"
            raise WrongUse(f"{f'{call}({given})' if call else given}: must be {takes}, more than 0")
