"""What a person can do about a run that does not go on by itself, with the exact commands."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.cli.opening import command_line
from outlast.cli.plain import one_line
from outlast.core.identity import derive
from outlast.core.records import Kind, Record, RunRow
from outlast.core.transitions import Reason, Status


def open_intents(records: Sequence[Record]) -> list[Record]:
    """Return the `once` attempts of a journal that have begun and have no outcome."""
    found: dict[str, Record] = {}
    for record in records:
        if record.kind is Kind.INTENT:
            found[record.key] = record
        elif record.kind in (Kind.STEP, Kind.LATE, Kind.ATTEMPT, Kind.RESOLUTION):
            found.pop(record.key, None)
    return list(found.values())


def advice_for(run: RunRow, records: Sequence[Record], url: str | None) -> list[str]:
    """Return lines that say what to do: none for a run that needs nobody."""
    if run.status in (Status.FAILED, Status.CANCELLED):
        return ["take it up again where it ended:", f"  {command_line(url, 'resume', run.id)}"]
    if run.status is not Status.STUCK:
        return []
    again = f"  {command_line(url, 'resume', run.id)}"
    match run.reason:
        case Reason.IN_DOUBT:
            return [line for intent in open_intents(records) for line in _decision(run, intent, url)]
        case Reason.DIVERGED:
            return [
                "deploy code that does what the journal has (the old one, or outlast.patched around the change), then:",
                again,
                "or start anew from the step before the change:",
                f"  {command_line(url, 'fork', run.id, 'STEP')}",
            ]
        case Reason.CRASH_LOOP:
            return ["find what ends its workers (their logs, the kernel's: out of memory?), then:", again]
        case _:
            return ["let the worker import what the value is made of, or mend it, then:", again]


def why_stuck(run: RunRow) -> str:
    """Return why a run is stuck, without the advice that its worker wrote beside it."""
    reason = run.reason.value if run.reason is not None else "unknown reason"
    return f"{reason}: {run.detail.partition('. Find out whether')[0]}"


def _decision(run: RunRow, intent: Record, url: str | None) -> list[str]:
    decide = ("resolve", run.id, intent.key, "--attempt", intent.attempt)
    return [
        f"find out whether attempt {intent.attempt} of step {intent.key} took place, then decide:",
        f"  its idempotency key: {derive(run.incarnation, 'step', intent.key)}",
        f"  its arguments: {one_line(intent.args)}",
        f"  it did, and returned JSON:    {command_line(url, *decide, '--happened', 'JSON')}",
        f"  it did not, so try it again:  {command_line(url, *decide, '--did-not-happen')}",
        f"  the step is to fail:          {command_line(url, *decide, '--fail')}",
    ]
