"""How one step is run, and what may be said of an attempt in doubt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, TypedDict

import msgspec
from msgspec.structs import force_setattr

from outlast.core.amounts import is_number
from outlast.core.errors import StepTimeout, WrongUse
from outlast.core.queues import Rate
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


class Settings(msgspec.Struct, frozen=True):
    """How one step is run. Times in seconds; None is no limit."""

    effect: Effect = Effect.IDEMPOTENT
    retry: Retry = NO_RETRY
    timeout: float | None = None
    confirm: Callable[..., Any] | None = None
    definite: tuple[type[BaseException], ...] = ()
    settle: float = SETTLE_S
    key: str | None = None
    check_args: bool = True
    rate: tuple[Rate, ...] = ()
    spends: bool = False  # it calls a model, so a run that has used up its budget does not begin it

    def __post_init__(self) -> None:
        if self.effect is not Effect.ONCE and (self.confirm is not None or self.definite):
            raise WrongUse(f"confirm= and definite= belong to effect='once', this step is {self.effect.value!r}")
        if self.effect is Effect.ONCE and self.timeout is None:
            force_setattr(self, "timeout", ONCE_TIMEOUT_S)
        if self.timeout is not None and not (is_number(self.timeout) and 0 < self.timeout < inf):
            raise WrongUse(f"timeout={self.timeout!r}: must be a positive, finite number of seconds")
        if not (is_number(self.settle) and 0 <= self.settle < inf):
            raise WrongUse(f"settle={self.settle!r}: must be a finite number of seconds, not negative")
        for name, flag in (("check_args", self.check_args), ("spends", self.spends)):
            if not isinstance(flag, bool):
                raise WrongUse(f"{name}={flag!r}: must be True or False")
        if self.key is not None and not isinstance(self.key, str):
            raise WrongUse(f"key={self.key!r}: a key is a str; convert it in one place, so it is spelled one way")
        _check_rates(self.rate)
        if not isinstance(self.retry, Retry):
            raise WrongUse(f"retry={self.retry!r}: must be a Retry, such as Retry(attempts=3)")
        definite: tuple[Any, ...] = self.definite
        if not all(isinstance(t, type) and issubclass(t, BaseException) for t in definite):
            raise WrongUse(f"definite={self.definite!r}: must be exception types")
        on: Any = self.retry.on or ()
        if self.effect is Effect.ONCE and any(issubclass(t, StepTimeout) for t in (*definite, *on)):
            raise WrongUse(
                "definite= and Retry(on=...) of a step with effect='once' cannot list StepTimeout: an attempt that was "
                "cut off is in doubt. Give the step a confirm= that can tell, or a longer timeout="
            )

    def with_(self, **changes: Any) -> Settings:
        """Return a copy with some settings changed. Raises WrongUse for a name that is none."""
        unknown = changes.keys() - _SETTING_NAMES
        if unknown:
            raise WrongUse(
                f"no such option: {', '.join(sorted(unknown))}; there are {', '.join(sorted(_SETTING_NAMES))}"
            )
        values = {name: getattr(self, name) for name in _SETTING_NAMES} | changes
        values["effect"] = _effect(values["effect"])
        definite = values["definite"]
        values["definite"] = tuple(definite) if isinstance(definite, (list, tuple, set, frozenset)) else (definite,)
        rate = values["rate"]
        values["rate"] = () if rate is None else tuple(rate) if isinstance(rate, (list, tuple)) else (rate,)
        if values["retry"] is None:
            values["retry"] = NO_RETRY
        if "effect" in changes and "timeout" not in changes and self.effect is Effect.ONCE:
            values["timeout"] = None if self.timeout == ONCE_TIMEOUT_S else self.timeout
        if values["effect"] is not Effect.ONCE and changes.get("settle", SETTLE_S) != SETTLE_S:
            raise WrongUse(f"settle= belongs to effect='once', this step is {values['effect'].value!r}")
        return Settings(**values)


class Changes(TypedDict, total=False):
    """What `step.options(...)` takes."""

    effect: Literal["pure", "idempotent", "once"]
    retry: Retry | None
    timeout: float | None
    confirm: Callable[..., Any] | None
    definite: tuple[type[BaseException], ...] | type[BaseException]
    settle: float
    key: str | None
    check_args: bool
    rate: Rate | tuple[Rate, ...] | None
    spends: bool


_SETTING_NAMES = frozenset(Settings.__struct_fields__)


def _check_rates(rates: tuple[Rate, ...]) -> None:
    if not all(isinstance(rate, Rate) for rate in rates):
        raise WrongUse(f"rate={rates!r}: must be what outlast.rate(...) made, or a tuple of such")
    if len({rate.name for rate in rates}) < len(rates):
        raise WrongUse(f"rate={rates!r}: no rate can be there twice; give it the whole weight")


def _effect(value: Any) -> Effect:
    try:
        return Effect(value)
    except ValueError:
        raise WrongUse(f"effect={value!r}: must be 'pure', 'idempotent' or 'once'") from None
