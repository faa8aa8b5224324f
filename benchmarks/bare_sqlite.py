"""The yardstick on SQLite: the rows of a journal, written by a loop that does nothing else."""

from __future__ import annotations

import time
from itertools import pairwise
from statistics import median

from benchmarks.journal_rows import journal_rows
from outlast.stores.rows import RECORD_COLUMNS
from outlast.stores.sqlite.opening import StoreFile

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
    ready = journal_rows(warm + rows)
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
