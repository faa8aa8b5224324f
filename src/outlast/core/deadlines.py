"""Deadlines of whole runs: what is said when one fires.

A run's deadline stands in its row. When it comes, a `cancel` record of this name is delivered to the body, like any
cancellation, so that the code cleans up; the record's `due` is the deadline. Where the cancellation is how the
body ends, the run has failed with RunTimeout.
"""

from __future__ import annotations

import datetime as dt

from outlast.core.errors import RunTimeout
from outlast.core.records import Kind, Record, RunRow

DEADLINE = "deadline"
LATEST_S = dt.datetime(9999, 12, 30, tzinfo=dt.UTC).timestamp()  # the last that is a date in all time zones


def is_deadline(record: Record) -> bool:
    """Tell whether a record says that the run's deadline came."""
    return record.kind is Kind.CANCEL and record.name == DEADLINE


def moment(seconds: float) -> dt.datetime:
    """Return a time of the store as a datetime, in UTC."""
    return dt.datetime.fromtimestamp(min(seconds, LATEST_S), dt.UTC)


def run_timeout(run: RunRow, deadline: float, *, why_not_begun: str | None = None) -> RunTimeout:
    """Return the error of a run that had not ended by its deadline, or not even begun, and then why not."""
    when = moment(deadline)
    did, why = ("had not ended", "") if why_not_begun is None else ("had not begun", f" ({why_not_begun})")
    did = f"{did} by its deadline, {when.isoformat(timespec='milliseconds')}{why}"
    return RunTimeout(
        f"run {run.id} ({run.workflow}) {did}; start it again with more time, or take it up without a deadline: "
        f"outlast resume {run.id}",
        deadline=when,
    )
