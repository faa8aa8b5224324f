"""How one step is run, and what may be said of an attempt in doubt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outlast.core.errors import WrongUse
from outlast.core.records import Effect
from outlast.core.retry import NO_RETRY, Retry

ONCE_TIMEOUT_S = 60.0
SETTLE_S = 10.0


@dataclass(frozen=True, slots=True)
class Happened:
    """The effect in doubt took place; `value` is what its step returns."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class DidNotHappen:
    """The effect in doubt did not take place and will not; the step may be tried again."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can tell by program; a person decides."""


Verdict = Happened | DidNotHappen | Unknown


@dataclass(frozen=True, slots=True)
class Settings:
    """How one step is run. Times in seconds; None is no limit."""

    effect: Effect = Effect.IDEMPOTENT
    retry: Retry = NO_RETRY
    timeout: float | None = None
    confirm: Callable[..., Any] | None = None
    definite: tuple[type[BaseException], ...] = ()
    settle: float = SETTLE_S
    key: str | None = None
    check_args: bool = True

    def __post_init__(self) -> None:
        if self.effect is not Effect.ONCE and (self.confirm is not None or self.definite):
            raise WrongUse(f"confirm= and definite= belong to effect='once', this step is {self.effect.value!r}")
        if self.effect is Effect.ONCE and self.timeout is None:
            object.__setattr__(self, "timeout", ONCE_TIMEOUT_S)
        if self.timeout is not None and not self.timeout > 0:
            raise WrongUse(f"timeout={self.timeout}: must be positive seconds")
        if not self.settle >= 0:
            raise WrongUse(f"settle={self.settle}: must not be negative seconds")

    def with_(self, **changes: Any) -> Settings:
        """Return a copy with some settings changed. Raises WrongUse for a name that is none."""
        unknown = changes.keys() - _SETTING_NAMES
        if unknown:
            raise WrongUse(
                f"no such option: {', '.join(sorted(unknown))}; there are {', '.join(sorted(_SETTING_NAMES))}"
            )
        values = {name: getattr(self, name) for name in _SETTING_NAMES} | changes
        values["effect"] = _effect(values["effect"])
        if isinstance(values["definite"], type):
            values["definite"] = (values["definite"],)
        if values["retry"] is None:
            values["retry"] = NO_RETRY
        if "effect" in changes and "timeout" not in changes and self.effect is Effect.ONCE:
            values["timeout"] = None if self.timeout == ONCE_TIMEOUT_S else self.timeout
        return Settings(**values)


_SETTING_NAMES = frozenset(Settings.__dataclass_fields__)


def _effect(value: Any) -> Effect:
    try:
        return Effect(value)
    except ValueError:
        raise WrongUse(f"effect={value!r}: must be 'pure', 'idempotent' or 'once'") from None
