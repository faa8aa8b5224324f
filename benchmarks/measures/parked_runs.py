"""What runs cost that only wait: an idle worker's memory and CPU, and what a crowd of them does to other runs."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks import processes, programs
from benchmarks.bench import Bench
from benchmarks.figures import Row, Samples, Series, at_most
from benchmarks.measures.fleet import work
from benchmarks.measures.start_to_result import run_one_by_one
from outlast import App, Notice

AT_ONCE = 2_000  # runs that are in memory at a time while they are made
SETTLE_S = 2.0


async def park(url: str, runs: int) -> None:
    """Start so many runs that sleep for a day, and return when all have left memory."""
    left = asyncio.Event()
    count = 0

    def listen(notice: Notice) -> None:
        nonlocal count
        if notice.name == "run.parked":
            count += 1
            left.set()

    async with App(url, park_after=0.01, on_event=listen) as app:
        for first in range(0, runs, AT_ONCE):
            until = min(first + AT_ONCE, runs)
            await asyncio.gather(*[app.start(programs.parked(programs.DAY_S)) for _ in range(first, until)])
            while count < until:
                left.clear()
                await left.wait()


async def idle(url: str, seconds: float) -> dict[str, float]:
    """Be a worker with nothing to do; return its resident memory (MB) and its share of one CPU (%)."""
    async with App(url):
        await asyncio.sleep(SETTLE_S)
        gc.collect()
        began, used = time.perf_counter(), time.process_time()  # of all threads
        await asyncio.sleep(seconds)
        cpu = (time.process_time() - used) / (time.perf_counter() - began)
        return {"mb": _resident_mb(), "cpu": cpu * 100}


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def time_claims(url: str, runs: int) -> float:
    """Return the median seconds from a client's `start` to the run's first step in a worker of another process."""
    taken = []
    async with App(url, worker=False) as app:
        for _ in range(runs):
            began = time.monotonic()
            taken.append(await (await app.start(programs.tell_time())).result() - began)
    return median(taken)


def parked_runs(bench: Bench) -> Iterator[Row | Series]:
    """200,000 parked runs against 1,000: resident memory of an idle worker, its CPU over 10 s, and how fast others run.

    The runs are started and parked by a real App. The idle worker is a fresh process that never had them in memory.
    """
    sizes = (100, 1_000) if bench.quick else (1_000, 10_000, 200_000)
    repeats, seconds = min(bench.repeats, 3), bench.size(10, 2)
    stores = {size: bench.ground.store() for size in sizes}
    for size, url in stores.items():
        processes.call(park, url=url, runs=size)
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
    yield from _speed(bench, stores, repeats)


def _speed(bench: Bench, stores: dict[int, str], repeats: int) -> Iterator[Row | Series]:
    runs = bench.size(100, 20)
    results: dict[int, list[float]] = {size: [] for size in stores}
    claims: dict[int, list[float]] = {size: [] for size in stores}
    for _ in range(repeats):
        for size, url in stores.items():
            results[size].append(processes.call(run_one_by_one, url=url, runs=runs))
            worker = processes.start(work, url=url)
            try:
                assert worker.stdout is not None
                worker.stdout.readline()
                claims[size].append(processes.call(time_claims, url=url, runs=runs))
            finally:
                worker.kill()
                worker.communicate()
    few, many = min(stores), max(stores)
    for what, found in (("start to result", results), ("start to first step elsewhere", claims)):
        yardstick = Samples(found[few], "s", f"beside {few:,}")
        yield Row(f"{what}, beside {many:,} parked runs", Samples(found[many], "s"), yardstick)
        yield Series("runs-in-store", what, found)
