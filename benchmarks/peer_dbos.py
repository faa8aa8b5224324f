"""The peer: DBOS on SQLite, in the best setting that was found for it.

As it comes, DBOS keeps SQLite's rollback journal; put into WAL by hand it is about twice as fast, so that is what is
measured. Its steps and workflows are plain functions, started together, on as many threads as did best.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import Any

from dbos import DBOS

from benchmarks.payload import PAYLOAD

THREADS = 2
WARM_RUNS = 3


@DBOS.step()
def step(i: int) -> dict[str, Any]:
    return PAYLOAD


@DBOS.workflow()
def in_a_row(steps: int) -> int:
    for i in range(steps):
        step(i)
    return steps


def run_many(path: str, runs: int, steps: int) -> dict[str, float]:
    """Start so many runs of so many steps and wait for all results; return the seconds it took."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE made_by_hand (a)")  # the mode is kept in the file once there is a page in it
        db.commit()
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{path}",
            "log_level": "ERROR",
            "application_version": "1",
            "enable_otlp": False,
            "max_executor_threads": THREADS,
        }
    )
    DBOS.launch()
    for _ in range(WARM_RUNS):
        in_a_row(steps)
    began = time.perf_counter()
    started = [DBOS.start_workflow(in_a_row, steps) for _ in range(runs)]
    for handle in started:
        handle.get_result()
    return {"seconds": time.perf_counter() - began}
