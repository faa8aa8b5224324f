"""A worker of its own process for `test_postgres_processes`: `URL LEDGER LEASE [RUN]`; with RUN it starts one, too."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from outlast import App, step, workflow

STEPS = 400


def note(ledger: str, n: int) -> None:
    with Path(ledger).open("a") as file:
        file.write(f"{os.getpid()} {n}\n")


@step
async def tick(ledger: str, n: int) -> int:
    note(ledger, n)
    await asyncio.sleep(0.02)
    return n


@workflow
async def ticking(ledger: str) -> int:
    for n in range(STEPS):
        await tick(ledger, n)
    return STEPS


async def main(url: str, ledger: str, lease: str, *run: str) -> None:
    async with App(url, lease=float(lease)) as app:
        for name in run:
            await app.start(ticking(ledger), id=name)
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
