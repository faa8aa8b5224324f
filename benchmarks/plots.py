"""Plots of cost against size, written as SVG by hand: logarithmic axes, and a line's label stands at its end.

A plotting library would be the heaviest thing that the benchmarks install, for four charts. The files are text, so a
change of a figure is a change one can read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from benchmarks.figures import Series

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 48, 52
COLOURS = ("#2563eb", "#c2410c", "#15803d", "#7e22ce")
YARDSTICK = "#64748b"
LABEL_GAP = 15.0
MANY_TICKS = 8

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #334155 } .title { font-size: 15px; font-weight: 600 }
.grid { stroke: #94a3b8; stroke-opacity: .3 } .line { fill: none; stroke-width: 2 }
.yardstick { stroke-dasharray: 6 4 }
@media (prefers-color-scheme: dark) { text { fill: #cbd5e1 } }
""".strip()


@dataclass(frozen=True)
class Plot:
    """What stands around the lines of a plot."""

    title: str
    size: str
    cost: str
    from_zero: bool = False  # a linear scale of the cost: where what counts is that it does not grow


PLOTS = {
    "steps-per-run": Plot("Time per step, start and result of the run included", "steps in the run", "time per step"),
    "resuming": Plot("A fresh process takes up a run", "finished steps of the run", "time to the first new step"),
    "runs-in-store": Plot("Speed of a one-step run beside parked ones", "parked runs in the store", "time, median"),
    "parked-runs": Plot("Memory of an idle worker", "parked runs in the store", "resident memory", from_zero=True),
}


def draw(series: Sequence[Series], folder: Path) -> list[Path]:
    """Write one file per plot that has lines; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, plot in PLOTS.items():
        lines = [line for line in series if line.plot == name and line.medians]
        if lines:
            path = folder / f"{name}.svg"
            path.write_text(_svg(plot, lines), encoding="utf-8")
            written.append(path)
    return written


@dataclass(frozen=True)
class Axis:
    """A scale that maps values to pixels, logarithmic unless it begins at 0."""

    ticks: Sequence[float]
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return where a value stands."""
        low, high = self.ticks[0], self.ticks[-1]
        share = math.log(value / low) / math.log(high / low) if low else value / high
        return self.start + share * (self.end - self.start)


def _axis(values: Sequence[float], start: float, end: float, *, from_zero: bool = False) -> Axis:
    """Make the axis that holds these values between round numbers."""
    low, high = min(values), max(values)
    if from_zero:
        step = max(tick for tick in _round_numbers(high / 10, high / 2))
        return Axis([step * i for i in range(math.ceil(high / step) + 1)], start, end)
    ticks = _round_numbers(low, high)
    if len(ticks) > MANY_TICKS:  # only powers of ten then, and the two ends
        ticks = [tick for tick in ticks if tick in (ticks[0], ticks[-1]) or f"{tick:e}".startswith("1.0")]
    return Axis(ticks, start, end)


def _round_numbers(low: float, high: float) -> list[float]:
    """Return 1, 2, 5, 10... from the last one that is not above `low` to the first that is not below `high`."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    numbers = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    first = max(number for number in numbers if number <= low * (1 + 1e-9))
    last = min(number for number in numbers if number >= high * (1 - 1e-9))
    if first == last:
        last *= 2
    return [number for number in numbers if first <= number <= last * (1 + 1e-9)]


def _svg(plot: Plot, lines: Sequence[Series]) -> str:
    points = [line.medians for line in lines]
    x = _axis([size for found in points for size, _ in found], LEFT, WIDTH - RIGHT)
    costs = [cost for found in points for _, cost in found]
    y = _axis(costs, HEIGHT - BOTTOM, TOP, from_zero=plot.from_zero)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(plot.title)}</title>",
        f"<style>{STYLE}</style>",
        _text(LEFT, 22, plot.title, "title"),
        _text(LEFT, 38, f"{plot.cost} (vertical) against {plot.size}"),
    ]
    for tick in x.ticks:
        at = x.at(tick)
        parts.append(f'<line class="grid" x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(_text(at, HEIGHT - BOTTOM + 18, f"{tick:,.0f}", anchor="middle"))
    for tick in y.ticks:
        at = y.at(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}"/>')
        parts.append(_text(LEFT - 8, at + 4, _tick(tick, lines[0].unit), anchor="end"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, plot.size, anchor="middle"))
    labels = _spread([y.at(found[-1][1]) for found in points])
    for i, (line, found) in enumerate(zip(lines, points, strict=True)):
        colour = YARDSTICK if line.is_yardstick else COLOURS[i % len(COLOURS)]
        kind = "line yardstick" if line.is_yardstick else "line"
        path = " ".join(f"{x.at(size):.1f},{y.at(cost):.1f}" for size, cost in found)
        parts.append(f'<polyline class="{kind}" stroke="{colour}" points="{path}"/>')
        for size, cost in found:
            parts.append(_dot(x.at(size), y.at(cost), colour, f"{line.label}: {size:,}: {_value(cost, line.unit)}"))
        end = x.at(found[-1][0]) + 10
        parts.append(f'<text x="{end:.1f}" y="{labels[i] + 4:.1f}" style="fill: {colour}">{escape(line.label)}</text>')
    return "\n".join((*parts, "</svg>", ""))


def _dot(x: float, y: float, colour: str, says: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{escape(says)}</title></circle>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _spread(wanted: Sequence[float]) -> list[float]:
    """Move labels that would lie over each other apart, downwards."""
    placed = list(wanted)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    for above, below in pairwise(order):
        placed[below] = max(placed[below], placed[above] + LABEL_GAP)
    return placed


def _tick(value: float, unit: str) -> str:
    if unit != "s":
        return f"{value:,.0f} {unit}"
    factor, name = next(
        (scale for scale in ((1, "s"), (1e3, "ms"), (1e6, "µs")) if value * scale[0] >= 0.999), (1e9, "ns")
    )
    return f"{value * factor:,.0f} {name}"


def _value(value: float, unit: str) -> str:
    return f"{value * 1e3:.3g} ms" if unit == "s" else f"{value:.3g} {unit}"
