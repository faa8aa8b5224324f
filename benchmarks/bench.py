"""What a measure is given: how often and how large to measure, and on what."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.figures import Row, Series
from benchmarks.grounds import Ground


@dataclass
class Bench:
    """The settings of one run of the benchmarks, and what it has found so far."""

    ground: Ground
    repeats: int = 5
    quick: bool = False
    peers: bool = True
    load_before: tuple[float, float, float] = field(default_factory=os.getloadavg)
    load_after: dict[str, float] = field(default_factory=dict)  # by measure
    rows: list[Row] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)

    def size(self, full: int, quick: int) -> int:
        """Return how large this run measures something."""
        return quick if self.quick else full


Measure = Callable[[Bench], Iterator[Row | Series]]
