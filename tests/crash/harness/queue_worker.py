"""A worker of a queue with all limits, which notes in a file what it does: `python -m ... URL FILE`."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import outlast
from outlast import App, step, workflow

AT_ONCE, OF_WORKER, OF_KEY = 4, 3, 2
STARTS, STARTS_S = 12, 0.5
CALLS, CALLS_S = 10, 0.5

storm = outlast.queue(
    "storm",
    concurrency=AT_ONCE,
    per_worker=OF_WORKER,
    per_key=(lambda key, number: key, OF_KEY),
    rate=(STARTS, STARTS_S),
)
notes = -1


def note(what: str, key: str, number: int) -> None:
    os.write(notes, f"{what} {key} {number} {os.getpid()} {time.monotonic()!r}\n".encode())


@step(effect="pure")
async def work(key: str, number: int) -> None:
    note("begin", key, number)
    await asyncio.sleep(0.02)
    note("end", key, number)


@step(effect="pure", rate=outlast.rate("api", CALLS, per=CALLS_S))
async def ask(key: str, number: int) -> None:
    note("ask", key, number)


@workflow(queue=storm)
async def job(key: str, number: int) -> str:
    await work(key, number)
    await ask(key, number)
    return f"{key}{number}"


async def main(url: str) -> None:
    async with App(url, lease=1.0, park_after=0.05, max_crashes=1000):
        await asyncio.Event().wait()


if __name__ == "__main__":
    notes = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    from tests.crash.harness import queue_worker  # the same module under its own name, where runs find their workflow

    queue_worker.notes = notes
    asyncio.run(queue_worker.main(sys.argv[1]))
