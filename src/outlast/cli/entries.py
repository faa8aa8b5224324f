"""The lines of `outlast show`: what a run's journal has, what its children do, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from outlast.cli import output
from outlast.cli.plain import one_line, plain, plain_error
from outlast.cli.tree import Entry
from outlast.core.records import Kind, Record, RunRow
from outlast.core.transitions import ENDED, Status
from outlast.runtime.approvals import RECORDED
from outlast.runtime.awaited import Awaited, awaited_in
from outlast.runtime.infos import StepInfo
from outlast.stores.protocol import Loaded

AT_ITS_END = {"retrying": "given_up", "waiting": "withdrawn"}
"""What becomes of that which a run still had before it when it ended."""


def entries_of(steps: Sequence[StepInfo], loaded: Loaded, children: Sequence[RunRow]) -> list[Entry]:
    """Return an entry for each line, in the order of the journal; what has no record yet comes last."""
    run = loaded.run
    records = {place_of(record): record for record in loaded.records}
    by_key = {child.parent_key: child for child in children}
    waits = {wait.key: wait for wait in awaited_in(run) if wait.key} if run.status is Status.WAITING else {}
    entries = []
    for step in steps:
        record = records.get(step.id if step.kind not in ("patch", "cancel") else f"{step.kind}:{step.seq}")
        entries.append(_entry(_standing(step, run), record, by_key.pop(step.id, None), waits.pop(step.id, None)))
    for key, child in by_key.items():  # begun, and not yet ended
        waits.pop(key, None)
        step = StepInfo(id=key, name=child.workflow, kind="child", state=child.status.value, started=child.created)
        entries.append(Entry(step, child=child))
    for key, wait in waits.items():
        step = StepInfo(id=key, name=wait.says, kind=wait.kind, state="waiting", due=wait.due)
        entries.append(Entry(step))
    return entries


def place_of(record: Record) -> str:
    """Return by what a record's entry is found."""
    return f"{record.kind.value}:{record.seq}" if record.kind in (Kind.PATCH, Kind.CANCEL) else record.key


def value_of(step: StepInfo, record: Record | None) -> Any:
    """Return what a record holds as plain JSON; the answer to an approval by the names that `Approval` has."""
    value = plain(record.value) if record is not None and record.ok else None
    if step.kind == "approval" and isinstance(value, list):
        return dict(zip(RECORDED, value, strict=False))
    return value


def _standing(step: StepInfo, run: RunRow) -> StepInfo:
    """Return a step as it stands with its run."""
    if step.state == "in_doubt" and run.status is Status.RUNNING:  # its worker holds it; there is nothing to decide
        return replace(step, state="running")
    if step.kind == "approval" and step.state in ("done", "failed"):
        return replace(step, note="")  # the id of the answer, which says nothing to people
    if run.status in ENDED and step.state in AT_ITS_END:
        return replace(step, state=AT_ITS_END[step.state], due=None)
    return step


def _entry(step: StepInfo, record: Record | None, child: RunRow | None, wait: Awaited | None) -> Entry:
    if wait is not None and step.state == "waiting":  # an approval: its question, and when it expires
        return Entry(replace(step, due=wait.due), wait.says)
    if record is None:
        return Entry(step, child=child)
    parts = plain_error(record.value).tree if step.error and not record.ok and record.value else []
    shows = record.ok and record.value is not None and record.kind not in (Kind.PATCH, Kind.CANCEL, Kind.TIMER)
    value = ""
    if shows:
        answer = value_of(step, record) if step.kind == "approval" else None
        value = _answered(answer) if isinstance(answer, dict) else f"= {one_line(record.value)}"
    return Entry(step, value, child, parts)


def _answered(answer: dict[str, Any]) -> str:
    """Say what became of an approval: `approved by ann: as agreed`."""
    said = f"{'approved' if answer['approved'] else 'rejected'} by {answer['by']}"
    said += f": {answer['note']}" if answer["note"] else ""
    return said + (f", with {output.json_line(answer['form'])}" if answer["form"] is not None else "")
