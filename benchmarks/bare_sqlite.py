"""The yardstick on SQLite: the rows of a journal, written by a loop that does nothing else."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from statistics import median
from typing import Any

from msgspec.structs import astuple
from outlast.stores.sqlite.rows import RECORD_COLUMNS

from benchmarks.payload import PAYLOAD
from outlast.core.records import Kind, Record
from outlast.stores.sqlite.opening import StoreFile

STEPS_PER_RUN = 5
WARM_COMMITS = 20


def insert(path: str, rows: int, rows_per_commit: int) -> dict[str, float]:
    """Commit rows into the table `records`, so many a commit; return the seconds in all and of the median commit.

    The file is made and opened as Outlast makes and opens its own, so that page size, log, `synchronous=FULL`,
    checkpoints and the table's checks are the same, and the rows are those that steps leave. From there
    on it is `apsw` alone, and everything it is given was made before.
    """
    columns = RECORD_COLUMNS.count(",") + 1
    statement = f"INSERT INTO records (run, {RECORD_COLUMNS}) VALUES (?{', ?' * columns})"
    warm = WARM_COMMITS * rows_per_commit
    ready = [_row(i) for i in range(warm + rows)]
    batches = [ready[i : i + rows_per_commit] for i in range(0, len(ready), rows_per_commit)]
    db = StoreFile(path, read_only=False, busy_s=5.0).first().db
    stamps = [time.perf_counter()]
    for batch in batches:
        db.execute("BEGIN IMMEDIATE")
        if rows_per_commit == 1:
            db.execute(statement, batch[0])
        else:
            db.executemany(statement, batch)
        db.execute("COMMIT")
        stamps.append(time.perf_counter())
    db.close()
    stamps = stamps[WARM_COMMITS:]
    commits = [after - before for before, after in pairwise(stamps)]
    return {"seconds": stamps[-1] - stamps[0], "commit_s": median(commits)}


def _row(i: int) -> tuple[Any, ...]:
    """Return row `i`, counted from 0, as the steps of many short runs leave it."""
    run, seq = i // STEPS_PER_RUN + 1, i % STEPS_PER_RUN + 1
    now = time.time()
    record = Record(
        seq=seq, kind=Kind.STEP, key=f"main/idempotent#{seq}", at=now, name="idempotent", args=b"[0]",
        value=json.dumps(PAYLOAD).encode(), attempt=1, effect="idempotent", started=now, ended=now, cause=seq - 1,
        worker="host-12345-0123456789ab",
    )  # fmt: skip
    return (run, *astuple(record))
