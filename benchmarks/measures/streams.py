"""Streams: how many items a second one step writes, and how soon a reader has each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from statistics import median

from benchmarks import processes
from benchmarks.bench import Bench
from benchmarks.figures import Row, Samples, Target, at_most
from outlast import App, RunNotFound, StreamItem, step, stream

TOKEN = "a token "
PACE_S = 0.002


@step(effect="pure")
async def write_fast(items: int) -> float:
    """Write items as fast as it can; return when it began."""
    began = time.monotonic()
    tokens = stream("tokens")
    for _ in range(items):
        tokens.write(TOKEN)
        await tokens.drain()
    return began


@step(effect="pure")
async def write_paced(items: int) -> None:
    """Write items that say when they were written."""
    for _ in range(items):
        stream("times").write(time.monotonic())
        await asyncio.sleep(PACE_S)


async def items_per_second(url: str, items: int) -> float:
    """Return the items per second of one step, from its first to its outcome, all read by one reader meanwhile."""
    async with App(url) as app:
        await (await app.start(write_fast(100))).result()
        run = await app.start(write_fast(items))
        read = sum([1 async for _ in run.stream("tokens")])
        assert read == items
        return items / (time.monotonic() - await run.result())


async def write_for_others(url: str, items: int) -> None:
    """Execute a step that writes."""
    async with App(url) as app:
        await (await app.start(write_paced(items), id="paced")).result()


async def read_of_others(url: str) -> float:
    """Return the median seconds from the write of an item to the moment when this process has it."""
    async with App(url, worker=False) as app:
        while True:
            try:
                run = await app.get("paced")
                break
            except RunNotFound:
                await asyncio.sleep(0.01)
        taken = [time.monotonic() - i.value async for i in run.stream("times") if isinstance(i, StreamItem)]
    return median(taken)


async def read_here(url: str, items: int) -> float:
    """Do so in the process that writes."""
    async with App(url) as app:
        run = await app.start(write_paced(items))
        return median([time.monotonic() - i.value async for i in run.stream("times") if isinstance(i, StreamItem)])


def streams(bench: Bench) -> Iterator[Row]:
    """Items of 8 characters from one step with one reader, and the time from write to reader at 500 items a second."""
    many, paced = bench.size(100_000, 20_000), bench.size(2_000, 500)
    rates, here, there = [], [], []
    for _ in range(bench.repeats):
        rates.append(processes.call(items_per_second, url=bench.ground.store(), items=many))
        here.append(processes.call(read_here, url=bench.ground.store(), items=paced))
        url = bench.ground.store()
        writer = processes.start(write_for_others, url=url, items=paced)
        there.append(processes.call(read_of_others, url=url))
        processes.finish(writer)
    target = Target(20_000, at_least=True, unit="items/s")
    yield Row("stream: items from one step, one reader", Samples(rates, "items/s"), None, target)
    yield Row("stream: write to reader, same process: p50", Samples(here, "s"), None, at_most(0.02, "s"))
    yield Row("stream: write to reader, another process: p50", Samples(there, "s"), None, at_most(0.02, "s"))
