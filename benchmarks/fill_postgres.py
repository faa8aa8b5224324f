"""Fills a PostgreSQL store and says what that took: `python -m benchmarks.fill_postgres URL --runs 100000`.

It makes the figures of docs/sizing.md. The store has to be empty; other work on the server spoils the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from typing import Any

import psycopg

from benchmarks.payload import PAYLOAD
from outlast import App, step, workflow
from outlast.stores.postgres.address import parse

AT_ONCE = 500
DAY_S = 86_400.0

SIZES = """
SELECT c.relname, pg_relation_size(c.oid), c.reltuples::bigint FROM pg_class AS c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'i') AND pg_relation_size(c.oid) > 8192
UNION ALL
SELECT c.relname || ', long values', pg_total_relation_size(c.reltoastrelid), 0 FROM pg_class AS c
WHERE c.relnamespace = current_schema()::regnamespace AND c.reltoastrelid <> 0
AND pg_relation_size(c.reltoastrelid) > 0 ORDER BY 2 DESC
"""


@step(effect="idempotent")
async def note(i: int) -> dict[str, Any]:
    return PAYLOAD


@workflow
async def five_steps(order: int) -> int:
    for i in range(5):
        await note(i)
    return order


@workflow
async def asleep(order: int) -> int:
    await note(order)
    await asyncio.sleep(DAY_S)
    return order


@workflow
async def in_a_row(steps: int) -> int:
    for i in range(steps):
        await note(i)
    return steps


class Look:
    """What stands in the store's tables, and what was written to the server's log until now."""

    def __init__(self, url: str) -> None:
        address = parse(url)
        self._db = psycopg.connect(**address.libpq, autocommit=True)  # type: ignore[arg-type]
        self._db.execute("SELECT set_config('search_path', %s, false)", (address.schema,))

    def wal_bytes(self) -> int:
        ((position,),) = self._db.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchall()
        return int(position)

    def sizes(self) -> list[tuple[str, int, int]]:
        self._db.execute("VACUUM ANALYZE")
        return [(name, size, rows) for name, size, rows in self._db.execute(SIZES).fetchall()]


async def fill(url: str, runs: int, parked: int, steps: int) -> None:
    look = Look(url)
    async with App(url, park_after=0.2, worker_concurrency=20_000) as app:
        if steps:
            began = time.perf_counter()
            run = await app.start(in_a_row(steps))
            await run.result()
            took = time.perf_counter() - began
            print(f"one run of {steps:,} steps: {took:.1f} s, {steps / took:,.0f} steps/s")
        for count, made in ((runs, five_steps), (parked, asleep)):
            if count:
                await many(app, look, made, count)


async def many(app: App, look: Look, made: Any, count: int) -> None:
    """Start so many runs, wait for them to end or to leave memory, and print the figures."""
    before, wal = {name: size for name, size, _ in look.sizes()}, look.wal_bytes()
    began = time.perf_counter()
    waiting: set[asyncio.Task[Any]] = set()

    async def one(n: int) -> None:
        run = await app.start(made(n), id=f"{made.name}-{os.getpid()}-{n}")
        if made is five_steps:
            await run.result()

    for n in range(count):
        waiting.add(asyncio.create_task(one(n)))
        if len(waiting) >= AT_ONCE:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.gather(*waiting)
    while made is asleep and app.store.info().counts.get("waiting", 0) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.5)  # what another process would see, too: nothing tells when a run leaves memory
    took = time.perf_counter() - began
    wal = look.wal_bytes() - wal
    print(f"{count:,} runs of {made.name}: {took:.1f} s, {count / took:,.0f} runs/s; log {wal / count:,.0f} bytes/run")
    sizes = look.sizes()
    grown = [(name, size - before.get(name, 0), rows) for name, size, rows in sizes]
    total = sum(size for _, size, _ in grown)
    print(f"  {'':28}{'MB':>9}{'bytes/run':>11}{'rows':>12}")
    for name, size, rows in [*grown, ("all", total, 0)]:
        print(f"  {name:28}{size / 1e6:9.1f}{size / count:11.0f}{rows:12,}")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--runs", type=int, default=100_000, help="runs of five steps, to their end")
    parser.add_argument("--parked", type=int, default=0, help="runs that are put to sleep")
    parser.add_argument("--steps", type=int, default=0, help="steps of one run, before all else")
    given = parser.parse_args()
    asyncio.run(fill(given.url, given.runs, given.parked, given.steps))


if __name__ == "__main__":
    main()
