"""Many short runs at once in one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from benchmarks import processes, programs
from benchmarks.bench import Bench
from benchmarks.figures import Row, Samples, at_least, interleaved
from outlast import App

STEPS = 5
WARM_RUNS = 20
ROWS_PER_COMMIT = 100


async def run_many(url: str, runs: int) -> float:
    """Start so many runs together and wait for all results; return the seconds it took."""
    async with App(url) as app:

        async def one() -> None:
            await (await app.start(programs.in_a_row("idempotent", STEPS))).result()

        await asyncio.gather(*[one() for _ in range(WARM_RUNS)])
        began = time.perf_counter()
        await asyncio.gather(*[one() for _ in range(runs)])
        return time.perf_counter() - began


def many_runs(bench: Bench) -> Iterator[Row]:
    """Runs of 5 idempotent steps per second, all started at once, against DBOS and against rows inserted 100 a commit.

    DBOS is given fewer runs, since it would take most of a minute for as many.
    """
    runs, peer_runs = bench.size(2_000, 300), bench.size(100, 20)
    rows = runs * STEPS
    sides = [
        lambda: runs / processes.call(run_many, url=bench.ground.store(), runs=runs),
        lambda: rows / bench.ground.bare(rows, ROWS_PER_COMMIT)["seconds"],
    ]
    if bench.peers:
        sides.append(lambda: bench.ground.dbos(peer_runs, STEPS))
    ours, bare, *peer = interleaved(bench.repeats, *sides)
    name = f"{runs:,} runs of {STEPS} steps, one process"
    if peer:
        yield Row(name, Samples(ours, "runs/s"), Samples(peer[0], "runs/s", "DBOS"), at_least(bench.ground.dbos_bound))
    steps = Samples([rate * STEPS for rate in ours], "steps/s")
    yield Row(f"{name}: steps", steps, Samples(bare, "rows/s", f"bare, {ROWS_PER_COMMIT} a commit"), at_least(0.12))
