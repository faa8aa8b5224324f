"""The yardstick on PostgreSQL: the rows of a journal, written by a loop that does nothing else."""

from __future__ import annotations

import time
from itertools import pairwise
from statistics import median

import psycopg

from benchmarks.journal_rows import journal_rows
from outlast.runtime.clock import SystemClock
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.address import parse
from outlast.stores.rows import RECORD_COLUMNS

WARM_COMMITS = 20


def insert(url: str, rows: int, rows_per_commit: int) -> dict[str, float]:
    """Commit rows into the table `records`, so many a commit; return the seconds in all and of the median commit.

    Outlast makes the table; from there on it is `psycopg` alone, with a prepared statement, and everything it is given
    was made before. A single row is a transaction by itself: one round trip, as little as there can be.
    """
    PostgresStore(url, SystemClock()).close()
    address = parse(url)
    columns = RECORD_COLUMNS.count(",") + 1
    values = ", ".join(["%s"] * (columns + 1))
    statement = f"INSERT INTO {address.quoted_schema}.records (run, {RECORD_COLUMNS}) VALUES ({values})"
    warm = WARM_COMMITS * rows_per_commit
    ready = journal_rows(warm + rows)
    batches = [ready[i : i + rows_per_commit] for i in range(0, len(ready), rows_per_commit)]
    with psycopg.connect(**address.libpq, autocommit=True, prepare_threshold=0) as db:  # type: ignore[arg-type]
        stamps = [time.perf_counter()]
        for batch in batches:
            if rows_per_commit == 1:
                db.execute(statement, batch[0])
            else:
                with db.transaction(), db.cursor() as cursor:
                    cursor.executemany(statement, batch)
            stamps.append(time.perf_counter())
    stamps = stamps[WARM_COMMITS:]
    commits = [after - before for before, after in pairwise(stamps)]
    return {"seconds": stamps[-1] - stamps[0], "commit_s": median(commits)}
