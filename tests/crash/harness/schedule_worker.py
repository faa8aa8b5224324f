"""A worker with a schedule, and with parents whose children end with them: `python -m ... URL`."""

from __future__ import annotations

import asyncio
import sys

import outlast
from outlast import App, step, workflow

EVERY_S = 0.2


@step(effect="pure")
async def think() -> None:
    await asyncio.sleep(0.01)


@outlast.schedule(every=EVERY_S, overlap="allow", catch_up="all", grace=0.0)
@workflow
async def slot() -> None:
    await think()


@workflow
async def sleeper() -> None:
    await asyncio.sleep(3600)


@workflow
async def parent() -> None:
    await outlast.start(sleeper(), when_parent_ends="cancel")
    await think()
    raise RuntimeError("and so my child is to end")


async def main(url: str) -> None:
    async with App(url, lease=1.0, park_after=0.05, max_crashes=1000):
        await asyncio.Event().wait()


if __name__ == "__main__":
    from tests.crash.harness import schedule_worker  # the same module under its own name

    asyncio.run(schedule_worker.main(sys.argv[1]))
