"""How soon a run goes on when it gets a message: one in its worker's memory, and one of a parked crowd."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from statistics import median, quantiles

from benchmarks import processes, programs
from benchmarks.bench import Bench
from benchmarks.figures import Row, Samples, at_most
from benchmarks.measures.fleet import workers
from outlast import App

WARM_MESSAGES = 20
BETWEEN_S = (0.02, 0.06)  # from one message to the next: at any moment between two looks of a worker


async def time_messages(url: str, messages: int) -> list[float]:
    """Send messages to a run that waits for each in another process; return the seconds to the step after it."""
    sent = []
    async with App(url, worker=False) as app:
        run = await app.start(programs.answer_messages(WARM_MESSAGES + messages))
        for _ in range(WARM_MESSAGES + messages):
            await asyncio.sleep(random.uniform(*BETWEEN_S))
            sent.append(time.monotonic())
            await run.send("go")
        started = await run.result()
    return [step - message for message, step in zip(sent, started, strict=True)][WARM_MESSAGES:]


async def time_wakes(url: str, numbers: list[int]) -> list[float]:
    """Send a message to each of these parked runs; return the seconds to its next step in another process."""
    taken = []
    async with App(url, worker=False) as app:
        for number in numbers:
            await asyncio.sleep(random.uniform(*BETWEEN_S))
            run = await app.get(f"parked-{number}")
            sent = time.monotonic()
            await run.send("go")
            taken.append(await run.result() - sent)
    return taken


def messages(bench: Bench) -> Iterator[Row]:
    """From `send` in a client to the next step of a run that waits in the memory of another process: median of 300."""
    count, middle = bench.size(300, 50), []
    for _ in range(min(bench.repeats, 3)):
        url = bench.ground.store()
        with workers(url, 1):
            middle.append(median(processes.call(time_messages, url=url, messages=count)))
    target = at_most(bench.ground.message_s, "s")
    yield Row("message sent to step started, run in memory: p50", Samples(middle, "s"), None, target)


def wakes(bench: Bench, stores: dict[int, str], repeats: int) -> Iterator[Row]:
    """Measure the same with parked runs, drawn from those of the smallest and of the largest store, none twice.

    `stores` are URLs by the number of their parked runs. The worker has none of them in memory and nothing else to do.
    """
    few, many = min(stores), max(stores)
    found: dict[int, list[list[float]]] = {few: [], many: []}
    for repeat in range(repeats):
        for size, each in found.items():
            numbers = random.sample(range(repeat, size, repeats), bench.size(200 if size == many else 60, 30))
            with workers(stores[size], 1):
                each.append(processes.call(time_wakes, url=stores[size], numbers=numbers))
    name = f"message sent to step started, one of {many:,} parked runs"
    middle = {size: [median(taken) for taken in each] for size, each in found.items()}
    late = {size: [quantiles(taken, n=100)[98] for taken in each] for size, each in found.items()}
    for what, figure, bound_s in (("p50", middle, 0.03), ("p99", late, 0.1)):
        yardstick = Samples(figure[few], "s", f"of {few:,}")
        yield Row(f"{name}: {what}", Samples(figure[many], "s"), yardstick, at_most(bound_s, "s"))
