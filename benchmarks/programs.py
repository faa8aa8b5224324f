"""The workflows and steps that are measured. Imported by every process that executes their runs."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import time
from typing import Any

import outlast
from benchmarks.payload import PAYLOAD
from outlast import step, workflow

DAY_S = 86_400.0
BEAT_S = 0.02

stamps: list[float] = []  # when each step of `stamped` was over, in the process that executed it
began = asyncio.Event()  # the step `hang` has started
began_at: list[float] = []


@step(effect="idempotent")
async def idempotent(i: int) -> dict[str, Any]:
    return PAYLOAD


@step(effect="pure")
async def pure(i: int) -> dict[str, Any]:
    return PAYLOAD


STEPS = {"idempotent": idempotent, "pure": pure}


@workflow
async def in_a_row(effect: str, steps: int) -> int:
    chosen = STEPS[effect]
    for i in range(steps):
        await chosen(i)
    return steps


@workflow
async def in_parallel(steps: int) -> int:
    return len(await asyncio.gather(*[idempotent(i) for i in range(steps)]))


@workflow
async def stamped(effect: str, steps: int) -> int:
    """As `in_a_row`, and notes the time after each step. It is never replayed, so a look at the clock does no harm."""
    chosen = STEPS[effect]
    stamps[:] = [time.perf_counter()]
    for i in range(steps):
        await chosen(i)
        stamps.append(time.perf_counter())
    return steps


@step
async def hang() -> None:
    """Note when it started, and never end: the process that runs it leaves, and the run stays as it is."""
    began_at.append(time.perf_counter())
    began.set()
    await asyncio.sleep(DAY_S)


@workflow
async def long_history(steps: int) -> None:
    for i in range(steps):
        await pure(i)
    await hang()


@workflow(loop="native")
async def wide_history(steps: int) -> None:
    """Finish so many steps in parallel, on the worker's loop, and then never end."""
    await asyncio.gather(*(pure(i) for i in range(steps)))
    await hang()


@step
async def beat(home: int) -> bool:
    """Print when it started; say whether the run is still in the process that it was started in."""
    print(f"beat {time.monotonic()}", flush=True)
    await asyncio.sleep(BEAT_S)
    return os.getpid() == home


@workflow
async def until_taken_over(home: int) -> None:
    while await beat(home):
        pass


@step
async def clock() -> float:
    return time.monotonic()


@workflow
async def parked() -> float:
    """Wait for a message, for a day at most: the run has a record and a time, as most that wait have."""
    await pure(0)
    await outlast.receive("go", timeout=DAY_S)
    return await clock()


@workflow
async def answer_messages(messages: int) -> list[float]:
    """Return when the step after each message started."""
    started = []
    for _ in range(messages):
        await outlast.receive("go")
        started.append(await clock())
    return started


@workflow
async def tell_time() -> float:
    return await clock()


woke: list[tuple[float, float]] = []  # when a run was to wake, and when it did


@workflow
async def wake_at(moment: float) -> None:
    """Sleep until a moment, and note when that was over."""
    await outlast.sleep_until(dt.datetime.fromtimestamp(moment, dt.UTC))
    woke.append((moment, time.time()))


@workflow
async def nothing(n: int) -> int:
    return n


@workflow
async def gather_children(children: int) -> int:
    return sum(await asyncio.gather(*[nothing(n) for n in range(children)]))
