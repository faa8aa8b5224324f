"""What is said of a run whose code no longer does what its journal recorded: both sides, and the way out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from outlast.core.body import Outcome
from outlast.core.errors import Diverged
from outlast.core.frames import where_of
from outlast.core.identity import shown
from outlast.core.records import Kind, Record
from outlast.core.telling import error_line
from outlast.core.transitions import Status

WAY_OUT = "Bring the old code back, or guard the change with outlast.patched(), then:"
"""What every text of a divergence ends with, before the command."""


def differs(run_id: str, workflow: str, record: Record, code: str, waits: Sequence[str]) -> Diverged:
    """The journal has an entry that does not fit what the body does (`code`) and waits for."""
    return Diverged(
        f"run {run_id}: workflow {workflow} no longer does what its journal recorded\n"
        f"  journal: {describe(record)}\n"
        f"  code:    {code}; it waits for {', '.join(waits) or 'nothing'}\n" + _way_out(run_id, record)
    )


def goes_on(run_id: str, workflow: str, left: Sequence[Record], outcome: Outcome) -> Diverged:
    """The body has ended, and entries are left over."""
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    error = outcome.error
    if error is not None:
        says, does = raised(error), f"raised {type(error).__name__}"
    elif outcome.status is Status.CANCELLED:
        says, does = "ended as cancelled", "ended as cancelled"
    else:
        says, does = "returned", "returned"
    return Diverged(
        f"run {run_id}: the workflow {workflow} {says}, but its journal goes on\n"
        f"  journal: {describe(left[0])}{more}\n"
        f"  code:    {does}\n" + _way_out(run_id, left[0])
    )


def raised(error: BaseException) -> str:
    """Say that the body raised this error, and where."""
    where = where_of(error)
    return f"raised {error_line(error)}" + (f" ({where})" if where else "")


def _way_out(run_id: str, record: Record) -> str:
    step = "STEP" if record.kind in (Kind.CANCEL, Kind.PATCH) else shlex.quote(shown(record.key))
    return (
        f"{WAY_OUT} outlast resume {run_id}. If no code was changed (what came of a failure cannot always be told when "
        f"its run is resumed), start a new course: outlast fork {run_id} {step}"
    )


def describe(record: Record) -> str:
    """Say in one line what a record says."""
    what = f"#{record.seq} {record.kind.value} {record.key}"
    if record.args is not None:
        what += f" {short(record.args)}"
    return what


def short(data: bytes, limit: int = 120) -> str:
    """Return encoded data as text, cut where it is long."""
    text = data.decode("utf-8", "replace")
    return text if len(text) <= limit else text[: limit - 3] + "..."
