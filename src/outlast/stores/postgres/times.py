"""The clock of the database, as this process knows it without asking.

Every deadline is written and compared by the server's clock, inside the transaction. What this process needs between
two transactions (does my lease hold, is a run due) is reckoned: the machine's boot clock, which nobody sets, plus what
the server's clock was ahead of it. Each answer that brings the server's time narrows the interval in which that offset
lies.

A server whose clock is set, or another server after a failover, is noticed by the next answer: an offset outside of the
interval makes all that was known void. Set forward, leases seem to have run out; their holders renew them with their
next write, and whoever cannot be sure of its own lease judges nobody (see `runtime/watcher.py`). Set back, a dead
worker's lease holds longer by as much.
"""

from __future__ import annotations

import threading
from typing import Protocol

from outlast.stores.protocol import Clock

DRIFT = 2e-4  # seconds that two clocks may part in a second; quartz is ten times better

# Not now(): that is the time at which the transaction began.
SERVER_TIME = "extract(epoch FROM clock_timestamp())::float8"


class Times(Protocol):
    """Where a store takes its times from."""

    def wall_sql(self) -> str:
        """Return the expression for the time that rows are given."""
        ...

    def lease_sql(self) -> str:
        """Return the expression for the clock of leases."""
        ...

    def epoch(self) -> str:
        """Return a name under which times of the lease clock can be compared."""
        ...

    def boot(self) -> float:
        """Return this machine's boot clock."""
        ...

    def heard(self, asked: float, lease_now: float) -> None:
        """Take in what the lease clock was at some moment between `asked`, by the boot clock, and now."""
        ...

    def now(self) -> float:
        """Return the time that rows would be given."""
        ...

    def lease_now(self) -> float:
        """Return the clock of leases."""
        ...


class ServerTimes:
    """The server's clock for rows and leases alike."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: tuple[float, float, float] | None = None  # least and greatest offset, and when that was (boot)

    def wall_sql(self) -> str:
        """Return the expression for the time that rows are given."""
        return SERVER_TIME

    def lease_sql(self) -> str:
        """Return the expression for the clock of leases."""
        return SERVER_TIME

    def epoch(self) -> str:
        """Return a constant: there is one clock, which outlives every restart."""
        return "database"

    def boot(self) -> float:
        """Return this machine's boot clock."""
        return self._clock.boot()

    def heard(self, asked: float, lease_now: float) -> None:
        """Take in what the server's clock was at some moment between `asked`, by the boot clock, and now."""
        answered = self._clock.boot()
        least, greatest = lease_now - answered, lease_now - asked
        with self._lock:
            if self._known is not None:
                drift = DRIFT * (answered - self._known[2])
                both = max(least, self._known[0] - drift), min(greatest, self._known[1] + drift)
                if both[0] <= both[1]:
                    least, greatest = both
            self._known = least, greatest, answered

    def now(self) -> float:
        """Return the earliest that the server's clock can be: what is due by it is due there."""
        return self._clock.boot() + self._offsets()[0]

    def lease_now(self) -> float:
        """Return the latest that the server's clock can be: a lease that holds by it holds there."""
        return self._clock.boot() + self._offsets()[1]

    def _offsets(self) -> tuple[float, float, float]:
        known = self._known
        assert known is not None, "opening a store asks for the time"
        return known
