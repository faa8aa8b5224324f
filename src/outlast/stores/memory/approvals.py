"""Approvals on the memory store."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from outlast.core.records import ApprovalRow, Kind, Standing
from outlast.stores.approval_verbs import AnswerApproval, OpenApproval, ReopenApproval
from outlast.stores.memory.tables import LIVE, Entry, Tables
from outlast.stores.protocol import ApprovalFilter
from outlast.stores.rules import Hold, answer_id, approval_box, as_it_stands, cannot_answer
from outlast.stores.verbs import Answer, Done, Fenced, Refused


def open_approval(t: Tables, verb: OpenApproval) -> Answer:
    """Ask people."""
    held = t.hold(verb.approval.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    known = t.approvals.get(verb.approval.id)
    if known is not None:
        if known.status is Standing.WITHDRAWN and held is Hold.OWNED:
            t.approvals[known.id] = _open_again(known)
        return Done()
    if held is Hold.PAST:
        return t.fenced(verb.approval.run, verb.worker, verb.claim)
    t.last_approval += 1
    t.approvals[verb.approval.id] = replace(verb.approval, pk=t.last_approval, created=t.clock.wall())
    return Done()


def answer_approval(t: Tables, verb: AnswerApproval) -> Answer:
    """Answer, once."""
    approval, entry = t.approvals.get(verb.id), t.runs.get(verb.run)
    if approval is None or entry is None or approval.run != verb.run:
        return Refused(f"there is no approval {verb.id!r}")
    if approval.ask == verb.ask and approval.status is verb.status:
        return Done(_woken(entry))
    if why := cannot_answer(approval, verb.status, entry.row.status, t.clock.wall()):
        return Refused(why, copy.copy(entry.row))
    t.approvals[verb.id] = replace(
        approval,
        status=verb.status,
        by=verb.by,
        note=verb.note,
        value=verb.value,
        answered=t.clock.wall(),
        ask=verb.ask,
        problem="",
    )
    if verb.status is Standing.WITHDRAWN:
        return Done()
    ok = verb.status is not Standing.EXPIRED
    t.put(entry, Kind.MESSAGE, approval_box(verb.id), answer_id(verb.id, verb.ask), ok, verb.message)
    return Done(_woken(entry))


def _woken(entry: Entry) -> tuple[int, ...]:
    return (entry.pk,) if entry.row.status in LIVE else ()


def reopen_approval(t: Tables, verb: ReopenApproval) -> Answer:
    """Take an answer back."""
    held = t.hold(verb.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    entry, approval = t.runs[verb.run], t.approvals.get(verb.id)
    if held is Hold.PAST and verb.consumes in entry.inbox:
        return t.fenced(verb.run, verb.worker, verb.claim)
    row = entry.inbox.pop(verb.consumes, None)
    if row is not None:
        entry.taken.add((row.kind, row.message_id))
    if row is not None and approval is not None:
        t.approvals[verb.id] = _open_again(approval, verb.problem)
    return Done()


def _open_again(approval: ApprovalRow, problem: str = "") -> ApprovalRow:
    return replace(approval, status=Standing.OPEN, by="", note="", value=None, answered=None, problem=problem)


def approvals(t: Tables, wanted: ApprovalFilter, limit: int, after: int) -> list[ApprovalRow]:
    """Return approvals as they stand, oldest first."""
    now = t.clock.wall()
    found = [
        copy.copy(approval)
        for approval in (as_it_stands(each, now) for each in t.approvals.values())
        if approval.pk > after
        and wanted.id in (None, approval.id)
        and wanted.status in (None, approval.status)
        and wanted.run in (None, approval.run)
        and wanted.addressee in (None, approval.addressee)
    ]
    return sorted(found, key=lambda approval: approval.pk)[: max(limit, 0)]


VERBS: dict[type[Any], Callable[[Tables, Any], Answer]] = {
    OpenApproval: open_approval,
    AnswerApproval: answer_approval,
    ReopenApproval: reopen_approval,
}
