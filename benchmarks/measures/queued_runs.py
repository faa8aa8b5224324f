"""Many short runs on a queue with every kind of limit, on one with none, and on no queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import outlast
from benchmarks import processes, programs
from benchmarks.bench import Bench
from benchmarks.figures import Row, Samples, at_least, interleaved
from outlast import App, Queue

STEPS = 5
WARM_RUNS = 20
KEYS = 20

limited = outlast.queue(
    "limited", concurrency=200, per_worker=100, per_key=10, rate=(10_000_000, 60.0)
)  # limits that are looked at each time, and hold up as little as limits can
unlimited = outlast.queue("unlimited")
QUEUES: dict[str, Queue | None] = {"limited": limited, "unlimited": unlimited, "none": None}


async def run_queued(url: str, runs: int, kind: str) -> float:
    """Start so many runs together and wait for all results; return the seconds it took."""
    queue = QUEUES[kind]
    async with App(url) as app:

        async def one(number: int) -> None:
            key = f"key-{number % KEYS}" if queue is not None else None
            flow = programs.in_a_row.options(queue=queue, queue_key=key)
            await (await app.start(flow("idempotent", STEPS))).result()

        await asyncio.gather(*map(one, range(WARM_RUNS)))
        began = time.perf_counter()
        await asyncio.gather(*map(one, range(runs)))
        return time.perf_counter() - began


def queued_runs(bench: Bench) -> Iterator[Row]:
    """Runs of 5 idempotent steps per second on a queue with limits of all kinds, against one without any limits."""
    runs = bench.size(2_000, 300)

    def of(kind: str) -> float:
        return runs / processes.call(run_queued, url=bench.ground.store(), runs=runs, kind=kind)

    ours, free, none = interleaved(bench.repeats, *[lambda kind=kind: of(kind) for kind in QUEUES])  # type: ignore[misc]
    name = f"{runs:,} runs of {STEPS} steps on a queue with limits"
    yield Row(name, Samples(ours, "runs/s"), Samples(free, "runs/s", "a queue without"), at_least(0.6))
    yield Row(f"{name}, and on none", Samples(ours, "runs/s"), Samples(none, "runs/s", "no queue"))
