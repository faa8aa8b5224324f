"""Filling a store with parked runs: each has done one step, and waits for the message `go`, for a day at most.

They are called `parked-0`, `parked-1`... Where that takes no more than some minutes, a real App starts and parks all of
them. On PostgreSQL it parks two: the others are copies of the rows of the first, made in SQL, and the second tells
whether a copy is what a real one would be.
"""

from __future__ import annotations

import asyncio

from benchmarks import processes, programs
from benchmarks.grounds import Ground, Postgres
from outlast import App, Notice

AT_ONCE = 2_000  # runs that are in memory at a time while they are made
APART_S = 0.001  # each copy began so much earlier than the one before

COLUMNS = """
SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()
ORDER BY table_name, ordinal_position
"""
KEYS = {"runs": "pk", "records": "run"}  # the tables in which such a run has rows
OF_ITS_OWN = {
    "pk": "1 + i",
    "run": "1 + i",
    "id": "'parked-' || i",
    "incarnation": "left(md5(i::text), length(incarnation))",
    # What it waits for, and until when. (A text again, as the column is one.)
    "detail": "jsonb_set(detail::jsonb, '{0,due}', to_jsonb((detail::jsonb #>> '{0,due}')::float8"
    f" - i * {APART_S}))::text",
    **{time: f"{time} - i * {APART_S}" for time in ("created", "started", "ended", "due", "at")},
}


async def park(url: str, runs: int) -> None:
    """Start so many runs that wait for a message, and return when all have left memory."""
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
            await asyncio.gather(*[app.start(programs.parked(), id=f"parked-{n}") for n in range(first, until)])
            while count < until:
                left.clear()
                await left.wait()


def filled(ground: Ground, runs: int) -> str:
    """Return the URL of a new store with so many parked runs, and nothing else."""
    url = ground.store()
    processes.call(park, url=url, runs=2 if isinstance(ground, Postgres) else runs)
    if isinstance(ground, Postgres):
        _copy(ground, url, runs)
    return url


def _copy(ground: Postgres, url: str, runs: int) -> None:
    """Copy the first run until there are so many. Raises ValueError where a copy is not what a real one would be."""
    columns: dict[str, list[str]] = {}
    for table, column in ground.execute(url, COLUMNS):
        columns.setdefault(table, []).append(column)
    for table, names in columns.items():
        if "run" in names and table not in KEYS and ground.execute(url, f"SELECT 1 FROM {table} LIMIT 1"):
            raise ValueError(f"a run that waits has rows in {table}, and its copies have none")
    for table, key in KEYS.items():
        values = [OF_ITS_OWN.get(name, f'"{name}"') for name in columns[table]]
        names = ", ".join(f'"{name}"' for name in columns[table])
        ground.execute(
            url,
            f"INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE "
            f"SELECT {', '.join(values)} FROM {table}, generate_series(2, {runs - 1}) AS i WHERE {key} = 1",
        )
        alike = f"to_jsonb(each) - ARRAY{list(OF_ITS_OWN)}"
        real, copy = (ground.execute(url, f"SELECT {alike} FROM {table} AS each WHERE {key} = {n}") for n in (2, 3))
        if not real or real != copy:
            raise ValueError(f"{table}: of a run that waits there is {real}, of a copy {copy}")
    ground.execute(url, f"SELECT setval(pg_get_serial_sequence('runs', 'pk'), {runs})", "VACUUM ANALYZE")
