"""How long one short run takes from its start to its result."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

from benchmarks import processes, programs
from benchmarks.bench import Bench
from benchmarks.figures import Row, Samples, at_most, interleaved
from outlast import App

WARM_RUNS = 20


async def run_one_by_one(url: str, runs: int) -> float:
    """Return the median seconds of a one-step run, from `start` to its result, one after the other."""
    taken = []
    async with App(url) as app:
        for _ in range(WARM_RUNS + runs):
            began = time.perf_counter()
            await (await app.start(programs.in_a_row("idempotent", 1))).result()
            taken.append(time.perf_counter() - began)
    return median(taken[WARM_RUNS:])


def start_to_result(bench: Bench) -> Iterator[Row]:
    """Start a run of one step, wait for its result: the median of 300, against the median commit of one bare row."""
    runs = bench.size(300, 50)
    ours, bare = interleaved(
        bench.repeats,
        lambda: processes.call(run_one_by_one, url=bench.ground.store(), runs=runs),
        lambda: bench.ground.bare(runs, 1)["commit_s"],
    )
    yardstick = Samples(bare, "s", "bare commit")
    yield Row("start a one-step run, read its result: p50", Samples(ours, "s"), yardstick, at_most(4))
