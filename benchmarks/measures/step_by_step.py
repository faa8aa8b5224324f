"""One run whose steps follow each other: what a step costs, of either effect, early and late in a run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from benchmarks import processes, programs
from benchmarks.bench import Bench
from benchmarks.figures import Row, Samples, Series, at_least, at_most, interleaved
from outlast import App

WARM_STEPS = 100
WINDOW = 100  # steps around the one that is spoken of


async def run_steps(url: str, workflow: str, effect: str, steps: int) -> float:
    """Return the seconds from the start of one run to its result, in a worker that has executed one before."""
    async with App(url) as app:
        make = programs.in_parallel if workflow == "in_parallel" else lambda n: programs.in_a_row(effect, n)
        await (await app.start(make(WARM_STEPS))).result()
        began = time.perf_counter()
        await (await app.start(make(steps))).result()
        return time.perf_counter() - began


async def stamp_steps(url: str, effect: str, steps: int) -> list[float]:
    """Return the seconds that each step of one run took."""
    async with App(url) as app:
        await (await app.start(programs.stamped(effect, WARM_STEPS))).result()
        await (await app.start(programs.stamped(effect, steps))).result()
    return [after - before for before, after in pairwise(programs.stamps)]


def _seconds(bench: Bench, effect: str, steps: int) -> float:
    url = bench.ground.store()
    return float(processes.call(run_steps, url=url, workflow="in_a_row", effect=effect, steps=steps))


def steps_in_a_row(bench: Bench) -> Iterator[Row]:
    """Steps per second of one run whose no-op steps follow each other.

    `idempotent` steps wait until all before them are committed, so the bare loop that commits one row at a time is
    their limit. `pure` steps wait for nothing, and are compared with the `idempotent` ones.
    """
    few, many = bench.size(1_000, 200), bench.size(5_000, 1_000)
    bare, idempotent, pure = interleaved(
        bench.repeats,
        lambda: few / bench.ground.bare(few, 1)["seconds"],
        lambda: few / _seconds(bench, "idempotent", few),
        lambda: many / _seconds(bench, "pure", many),
    )
    rate = Samples(idempotent, "steps/s")
    yield Row(f"one run, {few:,} idempotent steps in a row", rate, Samples(bare, "commits/s", "bare"), at_least(0.7))
    yardstick = Samples(idempotent, "steps/s", "idempotent")
    yield Row(f"one run, {many:,} pure steps in a row", Samples(pure, "steps/s"), yardstick, at_least(6))


def step_cost_along_a_run(bench: Bench) -> Iterator[Row]:
    """What one step costs at the end of a long run against its beginning: medians of 100 steps at each place."""
    steps, early = bench.size(5_000, 1_000), 100
    for effect in programs.STEPS:
        begin, end = [], []
        for _ in range(bench.repeats):
            taken = processes.call(stamp_steps, url=bench.ground.store(), effect=effect, steps=steps)
            begin.append(median(taken[early - WINDOW // 2 : early + WINDOW // 2]))
            end.append(median(taken[-WINDOW:]))
        name = f"one {effect} step at step {steps:,} against step {early}"
        yield Row(name, Samples(end, "s"), Samples(begin, "s", f"at step {early}"), at_most(1.1))


def steps_per_run(bench: Bench) -> Iterator[Series]:
    """The time per step of whole runs, start and result included, against their number of steps. For the plot only."""
    repeats = min(bench.repeats, 3)
    sizes = (10, 500) if bench.quick else (10, 100, 1_000, 10_000)
    lines = {
        "idempotent, in a row": ("in_a_row", "idempotent"),
        "pure, in a row": ("in_a_row", "pure"),
        "idempotent, in parallel": ("in_parallel", "idempotent"),
    }
    labels = (*lines, "a bare commit")
    points: dict[str, dict[int, list[float]]] = {label: {size: [] for size in sizes} for label in labels}
    for _ in range(repeats):
        for size in sizes:
            for label, (workflow, effect) in lines.items():
                url = bench.ground.store()
                taken = processes.call(run_steps, url=url, workflow=workflow, effect=effect, steps=size)
                points[label][size].append(taken / size)
        commit_s = bench.ground.bare(bench.size(1_000, 200), 1)["commit_s"]
        for size in sizes:
            points["a bare commit"][size].append(commit_s)
    for label, found in points.items():
        yield Series("steps-per-run", label, found, is_yardstick=label not in lines)
