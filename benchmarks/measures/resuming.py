"""A run with a long history, taken up by a fresh process."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks import processes, programs
from benchmarks.bench import Bench
from benchmarks.figures import Row, Samples, Series, at_most
from benchmarks.measures.parallel_steps import LINEAR
from outlast import App


async def make_history(url: str, steps: int, *, native: bool = False) -> None:
    """Start a run, let it finish so many steps, and leave while the next one is under way."""
    async with App(url, grace=0) as app:
        await app.start(programs.wide_history(steps) if native else programs.long_history(steps))
        await programs.began.wait()


async def resume(url: str) -> float:
    """Open an App, and return the seconds until the run's new step started. Leaves the run as it was."""
    began = time.perf_counter()
    async with App(url, grace=0):
        await programs.began.wait()
    return programs.began_at[0] - began


def resuming(bench: Bench) -> Iterator[Row | Series]:
    """A fresh process opens its App: how long until the first new step of a run with 5,000 finished ones.

    Opening the store, claiming, loading the journal and replaying it count; starting the interpreter and imports do
    not. The run was handed back, so nobody's death has to be noticed (that is another measure).
    """
    sizes = (10, 1_000) if bench.quick else (10, 1_000, 5_000, 20_000)
    stores = {size: bench.ground.store() for size in sizes}
    points: dict[int, list[float]] = {size: [] for size in sizes}
    for size, url in stores.items():
        processes.call(make_history, url=url, steps=size)
    for _ in range(bench.repeats):
        for size, url in stores.items():
            points[size].append(processes.call(resume, url=url))
    steps = bench.size(5_000, 1_000)
    yield Row(f"resume a run of {steps:,} finished steps", Samples(points[steps], "s"), None, at_most(0.25, "s"))
    yield from _native(bench)
    yield Series("resuming", "to the first new step", points)


def _native(bench: Bench) -> Iterator[Row]:
    """A native workflow is told its parallel steps one by one: what each costs may not grow with their number."""
    few, many = 500, bench.size(5_000, 1_000)
    stores = {size: bench.ground.store() for size in (few, many)}
    each: dict[int, list[float]] = {size: [] for size in stores}
    for size, url in stores.items():
        processes.call(make_history, url=url, steps=size, native=True)
    for _ in range(bench.repeats):
        for size, url in stores.items():
            each[size].append(processes.call(resume, url=url) / size)
    yield Row(
        f"resume a native run of {many:,} finished steps in parallel, per step",
        Samples(each[many], "s"),
        Samples(each[few], "s", f"of {few}"),
        at_most(LINEAR),
    )
