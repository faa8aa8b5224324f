"""Which settings of an App make sense: a limit of nothing would keep all work waiting without a word."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from outlast.codec.protocol import is_codec
from outlast.core.amounts import is_number, is_whole
from outlast.core.errors import WrongUse

SHORTEST_LEASE_S = 0.1


def check_limits(counts: Mapping[str, object], *, lease: float, park_after: float, grace: float) -> None:
    """Raise WrongUse for the first setting that makes no sense, by its name."""
    for name, count in counts.items():
        if not (is_whole(count) and count >= 1):  # type: ignore[operator]
            raise WrongUse(f"App({name}={count!r}): must be a whole number, at least 1")
    for name, seconds in (("lease", lease), ("park_after", park_after), ("grace", grace)):
        if not is_number(seconds):
            raise WrongUse(f"App({name}={seconds!r}): must be a number of seconds")
    if not SHORTEST_LEASE_S <= lease < inf:
        raise WrongUse(
            f"App(lease={lease}): must be a finite number of seconds; one below 0.1 is lost between two beats"
        )
    if not park_after >= 0:
        raise WrongUse(f"App(park_after={park_after}): must be seconds, not negative")
    if not 0 <= grace < inf:
        raise WrongUse(f"App(grace={grace}): must be a finite number of seconds, not negative")


def check_codec(codec: object, whose: str) -> None:
    """Raise WrongUse for what is no codec."""
    if not is_codec(codec):
        raise WrongUse(
            f"{whose}(codec={codec!r}): must be an object with the methods of outlast.codec.Codec, such as JsonCodec()"
        )


def check_kinds(*, worker: object, codec: object, version: object) -> None:
    """Raise WrongUse for a setting that is something else than what its name says."""
    if not isinstance(worker, bool):
        raise WrongUse(f"App(worker={worker!r}): must be True or False")
    check_codec(codec, "App")
    if not isinstance(version, str):
        raise WrongUse(f"App(version={version!r}): must be a str, such as '2026-11-29'")
