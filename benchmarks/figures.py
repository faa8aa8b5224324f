"""What a measure finds, and how it is judged: samples of several repeats, ratios of pairs, targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Samples:
    """One figure, measured several times. `unit`: `s`, `MB`, `%` or a rate, `steps/s`. `of`: what it speaks of."""

    values: Sequence[float]
    unit: str
    of: str = ""

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.values)

    def as_json(self) -> dict[str, Any]:
        """Return the median and what it is the median of."""
        return {"median": self.median, "unit": self.unit, "of": self.of, "samples": list(self.values)}

    def __str__(self) -> str:
        return f"{_amount(self.median, self.unit)}{' ' if self.of else ''}{self.of}"


def _amount(value: float, unit: str) -> str:
    if unit == "s":
        if abs(value) < 1e-3:
            return f"{value * 1e6:.0f} µs"
        return f"{value * 1e3:.3g} ms" if abs(value) < 0.9995 else f"{value:.2f} s"
    if unit in ("MB", "%"):
        return f"{value:.2f} {unit}" if value < 10 else f"{value:.1f} {unit}"
    return f"{value:,.0f} {unit}"


@dataclass(frozen=True)
class Target:
    """A bound for a ratio, or for the figure itself where there is no yardstick."""

    bound: float
    at_least: bool
    unit: str = ""

    def met(self, value: float) -> bool:
        """Tell whether a value keeps the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}{' ' if self.unit else ''}{self.unit}"


def at_least(bound: float) -> Target:
    """Return the target of a ratio that may not fall below a bound."""
    return Target(bound, at_least=True)


def at_most(bound: float, unit: str = "") -> Target:
    """Return the target of a ratio (or, with a unit, of a figure) that may not exceed a bound."""
    return Target(bound, at_least=False, unit=unit)


@dataclass
class Row:
    """One line of the table. A target with a unit judges the figure, one without a unit the ratio."""

    measure: str
    figure: Samples
    yardstick: Samples | None = None
    target: Target | None = None
    ratios: list[float] = field(init=False)

    def __post_init__(self) -> None:
        """Divide repeat by repeat: what disturbed the machine disturbed both sides of one repeat."""
        yardsticks = self.yardstick.values if self.yardstick is not None else ()
        self.ratios = [a / b for a, b in zip(self.figure.values, yardsticks, strict=False) if b]

    @property
    def ratio(self) -> float | None:
        """The median of the ratios of each repeat."""
        return median(self.ratios) if self.ratios else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        judged = self.figure.median if self.target.unit else self.ratio
        return judged is not None and self.target.met(judged)

    def as_json(self) -> dict[str, Any]:
        """Return all that is known of the row."""
        return {
            "measure": self.measure,
            "figure": self.figure.as_json(),
            "yardstick": None if self.yardstick is None else self.yardstick.as_json(),
            "ratio": self.ratio,
            "ratios": self.ratios,
            "target": None if self.target is None else str(self.target),
            "met": self.met,
        }


@dataclass
class Series:
    """One line of a plot: cost against size."""

    plot: str
    label: str
    points: dict[int, list[float]]
    unit: str = "s"
    is_yardstick: bool = False

    @property
    def medians(self) -> list[tuple[int, float]]:
        """The points to draw, by size."""
        return [(size, median(values)) for size, values in sorted(self.points.items()) if values]


def interleaved(repeats: int, *sides: Callable[[], Any]) -> list[list[Any]]:
    """Call all sides in turn, so often, every other time in reverse order; return what each gave, by side.

    What disturbs the machine for a while then disturbs all sides alike, and none always follows another.
    """
    found: list[list[Any]] = [[] for _ in sides]
    for repeat in range(repeats):
        order = range(len(sides)) if repeat % 2 == 0 else reversed(range(len(sides)))
        for side in order:
            found[side].append(sides[side]())
    return found
