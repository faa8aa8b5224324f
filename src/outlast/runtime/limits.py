"""Which settings of an App make sense: a limit of nothing would keep all work waiting without a word."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from outlast.core.errors import WrongUse

SHORTEST_LEASE_S = 0.1


def check_limits(*, lease: float, park_after: float, grace: float, counts: Mapping[str, object]) -> None:
    """Raise WrongUse for the first setting that makes no sense, by its name."""
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise WrongUse(f"App({name}={count!r}): must be a whole number, at least 1")
    if not SHORTEST_LEASE_S <= lease < inf:
        raise WrongUse(
            f"App(lease={lease}): must be a finite number of seconds; one below 0.1 is lost between two beats"
        )
    if not park_after >= 0:
        raise WrongUse(f"App(park_after={park_after}): must be seconds, not negative")
    if not 0 <= grace < inf:
        raise WrongUse(f"App(grace={grace}): must be a finite number of seconds, not negative")
