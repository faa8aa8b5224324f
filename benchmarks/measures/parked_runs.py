"""What runs cost that only wait: an idle worker's memory and CPU, and what a crowd of them does to other runs."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks import processes
from benchmarks.bench import Bench
from benchmarks.crowds import filled
from benchmarks.figures import Row, Samples, Series, at_most
from benchmarks.grounds import Postgres
from benchmarks.measures.fleet import time_to_first_step, workers
from benchmarks.measures.messages import wakes
from benchmarks.measures.start_to_result import run_one_by_one
from outlast import App
from outlast.runtime.watcher import IDLE_TICK_S


async def idle(url: str, seconds: float) -> dict[str, float]:
    """Be a worker with nothing to do; return its resident memory (MB) and its share of one CPU (%)."""
    async with App(url) as app:
        await _rests(app)
        gc.collect()
        began, used = time.perf_counter(), time.process_time()  # of all threads
        await asyncio.sleep(seconds)
        cpu = (time.process_time() - used) / (time.perf_counter() - began)
        return {"mb": _resident_mb(), "cpu": cpu * 100}


async def _rests(app: App) -> None:
    """Wait until the worker looks about as rarely as one does that has been idle for a while.

    Its own arrival is news that keeps it busy for a moment, longer on a machine with much to do.
    """
    assert app._worker is not None  # there is no public word for how it feels
    watcher = app._worker._watcher
    assert watcher is not None
    while watcher.tick_s < IDLE_TICK_S:  # noqa: ASYNC110 - its thread tells nobody of this
        await asyncio.sleep(IDLE_TICK_S)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def parked_runs(bench: Bench) -> Iterator[Row | Series]:
    """200,000 parked runs (PostgreSQL: 1,000,000) against 1,000: the cost of an idle worker, and how soon one wakes.

    Resident memory, CPU over 10 s, how fast other runs are (on SQLite), and the time from a message to a parked run to
    its next step. A real App starts and parks the runs; on PostgreSQL two of them, and the others are copies of their
    rows. The workers are fresh processes that never had them in memory.
    """
    sizes = (100, 1_000) if bench.quick else bench.ground.crowds
    repeats, seconds = min(bench.repeats, 3), bench.size(10, 2)
    stores = {size: filled(bench.ground, size) for size in sizes}
    memory: dict[int, list[float]] = {size: [] for size in sizes}
    cpu: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(repeats):  # idle ones do not disturb each other
        started = {size: processes.start(idle, url=url, seconds=seconds) for size, url in stores.items()}
        for size, process in started.items():
            found = processes.finish(process)
            memory[size].append(found["mb"])
            cpu[size].append(found["cpu"])
    few, many = sizes[0], sizes[-1]
    name, beside = f"an idle worker beside {many:,} parked runs", f"beside {few:,}"
    yield Row(f"{name}: memory", Samples(memory[many], "MB"), Samples(memory[few], "MB", beside), at_most(1.1))
    yield Row(f"{name}: CPU", Samples(cpu[many], "%"), Samples(cpu[few], "%", beside), at_most(1, "%"))
    yield Series("parked-runs", "an idle worker", memory, "MB")
    if not isinstance(bench.ground, Postgres):  # there it is measured beside ended runs, too: `claims-in-a-crowd`
        yield from _speed(bench, stores, repeats)
    yield from wakes(bench, stores, repeats)


def _speed(bench: Bench, stores: dict[int, str], repeats: int) -> Iterator[Row | Series]:
    runs = bench.size(100, 20)
    results: dict[int, list[float]] = {size: [] for size in stores}
    claims: dict[int, list[float]] = {size: [] for size in stores}
    for _ in range(repeats):
        for size, url in stores.items():
            results[size].append(processes.call(run_one_by_one, url=url, runs=runs))
            with workers(url, 1):
                claims[size].append(median(processes.call(time_to_first_step, url=url, runs=runs)))
    few, many = min(stores), max(stores)
    for what, found in (("start to result", results), ("start to first step elsewhere", claims)):
        yardstick = Samples(found[few], "s", f"beside {few:,}")
        yield Row(f"{what}, beside {many:,} parked runs", Samples(found[many], "s"), yardstick)
        yield Series("runs-in-store", what, found)
