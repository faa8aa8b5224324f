"""The rows that a bare loop writes: those that steps leave in the table `records`."""

from __future__ import annotations

import json
import time
from typing import Any

from msgspec.structs import astuple

from benchmarks.payload import PAYLOAD
from outlast.core.records import Kind, Record

STEPS_PER_RUN = 5


def journal_rows(count: int) -> list[tuple[Any, ...]]:
    """Return the rows that the steps of many short runs leave: the run's key, then the columns of a record."""
    return [_row(i) for i in range(count)]


def _row(i: int) -> tuple[Any, ...]:
    run, seq = i // STEPS_PER_RUN + 1, i % STEPS_PER_RUN + 1
    now = time.time()
    record = Record(
        seq=seq, kind=Kind.STEP, key=f"main/idempotent#{seq}", at=now, name="idempotent", args=b"[0]",
        value=json.dumps(PAYLOAD).encode(), attempt=1, effect="idempotent", started=now, ended=now, cause=seq - 1,
        worker="host-12345-0123456789ab",
    )  # fmt: skip
    return (run, *astuple(record))
