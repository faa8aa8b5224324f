"""What a person can do about a run that does not go on by itself, with the exact commands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from outlast.cli.opening import Where
from outlast.cli.plain import as_call, plain_error
from outlast.core.certainty import undecided_intents
from outlast.core.divergence import WAY_OUT
from outlast.core.errors import BudgetExceeded
from outlast.core.identity import derive, shown
from outlast.core.records import Kind, Record, RunRow
from outlast.core.transitions import Reason, Status
from outlast.runtime.aftermath import aftermath, cause_of_end
from outlast.runtime.cuts import (
    NO_PLACES,
    came_after,
    children_first,
    fork_words,
    new_course_at,
    plan_fork,
    what_to_drop,
    why_not_resumable,
)
from outlast.runtime.evidence import end_first
from outlast.runtime.seen import SeenWorker


def advice_for(
    run: RunRow,
    records: Sequence[Record],
    where: Where,
    children: Sequence[RunRow] = (),
    workers: Sequence[SeenWorker] = (),
    lost: Mapping[int, str] | None = None,
) -> list[str]:
    """Return lines that say what to do, with commands that work as things stand: none for a run that needs nobody.

    `lost` says of children, by their keys, why they cannot be taken up again.
    """
    if run.status in (Status.FAILED, Status.CANCELLED):
        return _for_ended(run, records, where, children, lost or {})
    if run.status is not Status.STUCK:
        return _stuck_children(children, where)
    again = f"  {where.command('resume', run.id)}"
    match run.reason:
        case Reason.IN_DOUBT:
            return [line for intent in undecided_intents(records) for line in _decision(run, intent, where, workers)]
        case Reason.DIVERGED:
            return [
                "deploy code that does what the journal has (the old one, or outlast.patched around the change), then:",
                again,
                *_before_the_change(run, records, where),
            ]
        case Reason.CRASH_LOOP:
            return ["find what ends its workers (their logs, the kernel's: out of memory?), then:", again]
        case _:
            return ["let the worker import what the value is made of, or mend it, then:", again]


_AT = re.compile(r"^  journal: #(\d+) ", re.MULTILINE)
"""Which record the code no longer fits, in the text of a divergence."""


def _before_the_change(run: RunRow, records: Sequence[Record], where: Where) -> list[str]:
    """Return how to start a new run from before what the code no longer does; nothing where no fork can begin there."""
    found = _AT.search(run.detail)
    record = next((r for r in records if r.kind not in NO_PLACES and found and r.seq >= int(found[1])), None)
    if record is None:
        return []
    return [
        f"or start a new run from before {shown(record.key)}, where the code does something else:",
        f"  {where.command(*fork_words(run, records, shown(record.key)))}",
    ]


def _stuck_children(children: Sequence[RunRow], where: Where) -> list[str]:
    """Return what to do for a run that goes on, but for its children that need a person."""
    stuck = [child for child in children if child.status is Status.STUCK]
    if not stuck:
        return []
    whose = "its child needs" if len(stuck) == 1 else "its children need"
    return [f"{whose} a person, by what this says:", *(f"  {where.command('show', child.id)}" for child in stuck)]


def _for_ended(
    run: RunRow, records: Sequence[Record], where: Where, children: Sequence[RunRow], lost: Mapping[int, str]
) -> list[str]:
    again = f"  {where.command('resume', run.id)}"
    cause = cause_of_end(run, records)
    if cause is not None and (effect := (after := aftermath(cause, records)).obstacle) is not None:
        why = why_not_resumable(run, cause, effect)
        warning = came_after(after) if cause.kind is not Kind.CANCEL else ""
        return [*_new_course(run, records, why, new_course_at(cause, effect), where), *([warning] if warning else [])]
    drop = what_to_drop(run, cause, records) if cause is not None else ()
    if first := children_first(cause, drop, records, children):
        gone = next((child for child in first if lost.get(child.pk)), None)
        if gone is not None:
            why = f"its child {gone.id} cannot be taken up again ({lost[gone.pk]})"
            return _new_course(run, records, why, gone.parent_key, where)
        looks = [f"  {where.command('show', child.id)}" for child in first]
        whose = "its child" if len(first) == 1 else "its children"
        return [f"take {whose} up again first, by what these say:", *looks, "then itself:", again]
    if run.status is Status.FAILED and cause is None:
        return [
            "no failed step ended it: the workflow's own code raised the error, and would do so again.",
            "Change the code, restart the workers, then take it up where it ended:",
            again,
        ]
    return _with_more_budget(run, cause, where) or ["take it up again where it ended:", again]


def _with_more_budget(run: RunRow, cause: Record | None, where: Where) -> list[str]:
    """Return how to take up a run whose budget is used up; nothing for one that ended by anything else."""
    error = plain_error(cause.value if cause is not None else run.error)
    if error.name != BudgetExceeded.__name__:
        return []
    short = next((option for option in ("--max-tokens", "--max-cost") if option in error.text), None)
    if short is None:  # it is not known what was spent
        return [
            "there is no price for a model that it calls: give the workers one, App(prices={...}), then:",
            f"  {where.command('resume', run.id)}",
        ]
    return [
        "its budget is used up: take it up again with a larger one, what is spent included:",
        f"  {where.command('resume', run.id, short, 'N')}",
    ]


def _new_course(run: RunRow, records: Sequence[Record], why: str, step: str, where: Where) -> list[str]:
    also = ""
    if (again := plan_fork(run, records, step).again) is not None:
        what = "starts child {}" if again.kind is Kind.START else "does `once` step {}"
        also = f", if it is right that this {what.format(shown(again.key))} again"
    return [
        f"it cannot be resumed: {why}.",
        f"Start a new run from before that{also}:",
        f"  {where.command(*fork_words(run, records, step))}",
    ]


def why_stuck(run: RunRow) -> str:
    """Return why a run is stuck, without the advice that its worker wrote beside it."""
    reason = run.reason.value if run.reason is not None else "unknown reason"
    detail = run.detail.partition(". Find out whether")[0].partition(WAY_OUT)[0]
    return f"{reason}: {detail.rstrip()}"


def _decision(run: RunRow, intent: Record, where: Where, workers: Sequence[SeenWorker]) -> list[str]:
    worker = next((worker for worker in workers if worker.row.id == intent.worker), None)
    first = end_first(worker.row, worker.process) if worker is not None and not intent.ended else ""
    decide = ("resolve", run.id, intent.key, "--attempt", intent.attempt)
    return [
        f"find out whether attempt {intent.attempt} of step {intent.key} took place, then decide:",
        *([f"  {first}"] if first else []),
        f"  its idempotency key: {derive(run.incarnation, 'step', intent.key)}",
        f"  its arguments: {as_call(intent.args)}",
        f"  it did, and returned JSON:    {where.command(*decide, '--happened', 'JSON')}",
        f"  it did not, so try it again:  {where.command(*decide, '--did-not-happen')}",
        f"  the step is to fail:          {where.command(*decide, '--fail')}",
    ]
