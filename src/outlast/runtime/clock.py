"""The only place that reads a clock, so that tests can bring their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

if hasattr(time, "CLOCK_BOOTTIME"):
    _boot_time: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
else:  # pragma: no cover - macOS: its monotonic clock stops in sleep, which only delays a takeover
    _boot_time = time.monotonic


class SystemClock:
    """The machine's clocks."""

    # Both are read several times for each step: as they stand here they are called without a Python frame.
    wall: Callable[[], float] = staticmethod(time.time)
    """Return seconds since the epoch; may jump when somebody sets the clock."""
    boot: Callable[[], float] = staticmethod(_boot_time)
    """Return seconds since the machine started, time asleep included; never jumps (CLOCK_BOOTTIME, else monotonic)."""

    def sleep(self, seconds: float) -> None:
        """Let this thread wait."""
        time.sleep(seconds)

    def boot_id(self) -> str:
        """Return a name of this start of the machine; boot times are comparable only under the same name."""
        return _BOOT_ID


def _read_boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:  # not Linux: the start time to the second is as good a name as there is
        return f"boot-{int(time.time() - time.monotonic())}"


_BOOT_ID = _read_boot_id()
