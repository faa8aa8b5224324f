"""The peer: DBOS in the best setting that was found for it.

On SQLite it keeps the rollback journal; put into WAL by hand it is about twice as fast, so that is what is measured.
Which of its two faces is faster, and by how much, depends on how busy disk and CPU are: both are
measured, each with as many runs at a time as served it best, and the faster one counts.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from typing import Any

from dbos import DBOS

from benchmarks.payload import PAYLOAD

AT_A_TIME = {"sqlite": 2, "postgresql": 8}
WARM_RUNS = 3


@DBOS.step()
def step(i: int) -> dict[str, Any]:
    return PAYLOAD


@DBOS.workflow()
def in_a_row(steps: int) -> int:
    for i in range(steps):
        step(i)
    return steps


@DBOS.step()
async def async_step(i: int) -> dict[str, Any]:
    return PAYLOAD


@DBOS.workflow()
async def async_in_a_row(steps: int) -> int:
    for i in range(steps):
        await async_step(i)
    return steps


def on_threads(url: str, runs: int, steps: int) -> float:
    """Start so many runs of so many steps on DBOS's own threads; return the seconds until all have ended."""
    _launch(url, threads=AT_A_TIME[_kind(url)])
    for _ in range(WARM_RUNS):
        in_a_row(steps)
    began = time.perf_counter()
    started = [DBOS.start_workflow(in_a_row, steps) for _ in range(runs)]
    for handle in started:
        handle.get_result()
    return time.perf_counter() - began


async def on_asyncio(url: str, runs: int, steps: int) -> float:
    """Start so many runs of so many steps on an event loop; return the seconds until all have ended."""
    _launch(url)
    for _ in range(WARM_RUNS):
        await async_in_a_row(steps)
    places = asyncio.Semaphore(AT_A_TIME[_kind(url)])

    async def one() -> None:
        async with places:
            await (await DBOS.start_workflow_async(async_in_a_row, steps)).get_result()

    began = time.perf_counter()
    await asyncio.gather(*[one() for _ in range(runs)])
    return time.perf_counter() - began


def _kind(url: str) -> str:
    return url.partition(":")[0]


def _launch(url: str, threads: int | None = None) -> None:
    if _kind(url) == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE made_by_hand (a)")  # the mode is kept in the file once there is a page in it
            db.commit()
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "log_level": "ERROR",
            "application_version": "1",
            "enable_otlp": False,
            "max_executor_threads": threads,
        }
    )
    DBOS.launch()
