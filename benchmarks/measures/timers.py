"""Runs that wake all at once, and a run that waits for many children."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from benchmarks import processes, programs
from benchmarks.bench import Bench
from benchmarks.figures import Row, Samples, at_most
from outlast import App, Notice

AT_ONCE = 2_000


async def burst(url: str, timers: int, lead_s: float) -> dict[str, float]:
    """Park so many runs that wake within one second.

    Returns how long after the first timer the last run woke, and by how much the earliest woke after its own.
    """
    parked = 0
    enough = asyncio.Event()

    def listen(notice: Notice) -> None:
        nonlocal parked
        parked += notice.name == "run.parked"
        if parked >= timers:
            enough.set()

    programs.woke.clear()
    async with App(url, park_after=0.01, on_event=listen) as app:
        first = time.time() + lead_s
        for begin in range(0, timers, AT_ONCE):
            some = range(begin, min(begin + AT_ONCE, timers))
            await asyncio.gather(*[app.start(programs.wake_at(first + n / timers)) for n in some])
        await enough.wait()
        while len(programs.woke) < timers:  # noqa: ASYNC110 - the runs have loops of their own
            await asyncio.sleep(0.005)
        late = [woke - due for due, woke in programs.woke]
        return {"last": max(woke for _, woke in programs.woke) - first, "least": min(late)}


async def gather(url: str, children: int) -> float:
    """Return the seconds that one run takes which gathers so many children."""
    async with App(url) as app:
        await (await app.start(programs.gather_children(2))).result()
        began = time.perf_counter()
        await (await app.start(programs.gather_children(children))).result()
        return time.perf_counter() - began


def timers(bench: Bench) -> Iterator[Row]:
    """10,000 timers due within one second: when the last of their runs is awake, and whether one was early.

    The runs are parked by the worker that wakes them. Beside it: one run that gathers 200 children.
    """
    many, lead_s = bench.size(10_000, 500), bench.size(40, 3)
    found = [
        processes.call(burst, url=bench.ground.store(), timers=many, lead_s=lead_s)
        for _ in range(min(bench.repeats, 3))
    ]
    last, least = [each["last"] for each in found], [-each["least"] for each in found]
    yield Row(f"{many:,} timers due within one second: all awake after", Samples(last, "s"), None, at_most(3, "s"))
    yield Row(f"{many:,} timers: the earliest wake before its time", Samples(least, "s"), None, at_most(0, "s"))
    children = bench.size(200, 20)
    taken = [processes.call(gather, url=bench.ground.store(), children=children) for _ in range(bench.repeats)]
    yield Row(f"one run that gathers {children} children", Samples(taken, "s"), None, at_most(0.5, "s"))
