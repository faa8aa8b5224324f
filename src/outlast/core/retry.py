"""When a failed attempt of a step is tried again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import inf

from outlast.core.amounts import is_number, is_whole
from outlast.core.errors import OutlastError, StepTimeout, StoreUnavailable
from outlast.core.records import Effect

Errors = tuple[type[BaseException], ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, when and for which errors a step is tried again.

    - `attempts`: the most attempts in all, the first included.
    - `initial`, `factor`, `max_delay`: seconds before the second attempt, growth from one wait to the next, and the
      most seconds of one wait.
    - `jitter`: up to this fraction of a wait is taken off, so that many runs do not come back at one instant.
    - `on`: error types that are tried again. By default all; for a `once` step none, since there they have to prove
      that nothing happened.
    - `never`: exceptions to `on`.
    - `within`: seconds since the first attempt's start after which no further one begins: then the error of the last
      attempt is the step's, also where nobody was there to begin the next in time.

    Raises TypeError for what is no number, ValueError for numbers that make no sense.
    """

    attempts: int = 3
    initial: float = 1.0
    factor: float = 2.0
    max_delay: float = 60.0
    jitter: float = 0.1
    on: Errors | type[BaseException] | None = None
    never: Errors | type[BaseException] = ()
    within: float | None = None

    def __post_init__(self) -> None:
        if not is_whole(self.attempts):
            raise TypeError(f"Retry(attempts={self.attempts!r}): must be a whole number, such as 3")
        for name in ("initial", "factor", "max_delay", "jitter", "within"):
            value = getattr(self, name)
            if not (is_number(value) or (value is None and name == "within")):
                raise TypeError(f"Retry({name}={value!r}): must be a number")
        if self.attempts < 1:
            raise ValueError(f"Retry(attempts={self.attempts}): at least 1, the first attempt counts")
        waits = 0 <= self.initial < inf and 0 <= self.max_delay < inf
        if not (waits and 1 <= self.factor < inf and 0 <= self.jitter <= 1):
            raise ValueError(
                "Retry: initial and max_delay must be finite and not negative, factor at least 1, jitter from 0 to 1"
            )
        if self.within is not None and not self.within > 0:
            raise ValueError(f"Retry(within={self.within}): must be positive")
        for name in ("on", "never"):
            value = getattr(self, name)
            types = tuple(value) if isinstance(value, (list, set, frozenset, tuple)) else (value,)
            if value is not None:
                object.__setattr__(self, name, types)
                if not all(isinstance(t, type) and issubclass(t, BaseException) for t in types):
                    raise ValueError(f"Retry({name}=...): exception types are wanted, not {value!r}")

    def wants(self, error: BaseException, effect: Effect) -> bool:
        """Tell whether this error may be tried again, leaving aside how often it was."""
        never = self.never
        if isinstance(never, tuple) and isinstance(error, never):
            return False
        if isinstance(error, OutlastError) and not isinstance(error, (StepTimeout, StoreUnavailable)):
            return False  # wrong use and values that cannot be stored do not get better
        on = self.on
        if on is None:
            return effect is not Effect.ONCE and isinstance(error, Exception)
        return isinstance(error, on)

    def next_delay(self, attempt: int, key: str) -> float:
        """Return the seconds to wait after this attempt (1 is the first) of a call failed.

        The jitter is derived from `key`, which names the call and its run, so that it is the same wherever the wait is
        computed, and another in each run.
        """
        try:
            delay = min(self.max_delay, self.initial * self.factor ** (attempt - 1))
        except OverflowError:
            delay = self.max_delay if self.initial else 0.0
        digest = hashlib.blake2b(f"{key}\0{attempt}".encode(), digest_size=4).digest()
        return delay * (1 - self.jitter * int.from_bytes(digest, "big") / 2**32)

    def allows(self, attempt: int, due: float, first_started: float) -> bool:
        """Tell whether one more attempt, due at `due`, is within the limits after `attempt` attempts."""
        if attempt >= self.attempts:
            return False
        return self.within is None or due - first_started <= self.within


NO_RETRY = Retry(attempts=1)
