"""The verbs that change a run's course on the memory store."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from outlast.core.records import Kind
from outlast.core.transitions import ENDED, Event, Status, after
from outlast.stores.course_verbs import ContinueAs, Continued, Counted, Hold, Move, Terminate
from outlast.stores.emits import drop_unsettled
from outlast.stores.memory.families import tell_family, woken_family
from outlast.stores.memory.tables import Entry, Tables
from outlast.stores.rules import cannot_terminate, missing_record, terminated
from outlast.stores.verbs import Answer, Done, Failed, Fenced, Refused


def continue_as(t: Tables, verb: ContinueAs) -> Answer:
    """Begin a run's next turn."""
    known = t.runs.get(verb.run)
    if known is not None and known.row.incarnation == verb.incarnation and known.holder == verb.worker:
        return Continued(copy.copy(known.row))
    held = t.hold(verb.run, verb.worker, verb.claim)
    if known is None or known.row.status is not Status.RUNNING or isinstance(held, Fenced):
        return held if isinstance(held, Fenced) else t.fenced(verb.run, verb.worker, verb.claim)
    row, last_seq = known.row, max(known.records, default=0)
    if last_seq != verb.last_seq:
        return Failed(missing_record(last_seq, verb.last_seq))
    t.give_up_keys(known, verb.workflow)
    known.first = known.first or (row.incarnation, row.workflow, row.definition, row.input)
    known.records.clear()
    known.inbox = {pk: item for pk, item in known.inbox.items() if not (item.kind is Kind.CHILD or item.key[:1] == "!")}
    drop_unsettled(known.output)
    known.output.known.clear()  # the next turn has steps of the same names
    t.withdraw_approvals(row.pk)
    for other in t.runs.values():
        other.waiters = {(pk, key) for pk, key in other.waiters if pk != row.pk}
        if other.row.parent == row.pk:
            other.row.parent, other.row.parent_key = None, ""
    row.incarnation, row.workflow, row.definition = verb.incarnation, verb.workflow, verb.definition
    row.input, row.options, row.forks = verb.input, verb.options, ()
    row.claim, row.turn, row.turned, row.crashes = row.claim + 1, row.turn + 1, verb.at, 0
    return Continued(copy.copy(row))


def terminate(t: Tables, verb: Terminate) -> Answer:
    """End a run, whoever executes it."""
    entry = t.by_id(verb.id)
    if entry is None:
        return Refused(f"there is no run {verb.id!r}")
    row = entry.row
    if row.status is Status.CANCELLED:
        return Done(woken_family(t, entry))
    if why := cannot_terminate(row, verb.worker):
        return Refused(why, copy.copy(row))
    assert after(row.status, Event.CANCEL) is Status.CANCELLED
    drop_unsettled(entry.output)
    t.end(entry, Status.CANCELLED)
    row.detail = terminated(verb.by)
    return Done(tell_family(t, entry))


def hold(t: Tables, verb: Hold) -> Answer:
    """Hold runs back, or give them free."""
    wanted = (("id", verb.id), ("workflow", verb.workflow), ("version", verb.version))
    found = [
        entry.row
        for entry in _open(t)
        if entry.row.held != verb.held and all(want in (None, getattr(entry.row, name)) for name, want in wanted)
    ][: max(verb.limit, 0)]
    for row in found:
        row.held = verb.held
    return Counted(len(found))


def move(t: Tables, verb: Move) -> Answer:
    """Give runs another name."""
    wanted = (("id", verb.id), ("workflow", verb.workflow), ("version", verb.version))
    found = [
        entry
        for entry in _open(t)
        if entry.row.owner is None and all(want in (None, getattr(entry.row, name)) for name, want in wanted)
    ][: max(verb.limit, 0)]
    for entry in found:
        t.give_up_keys(entry, verb.to)
    for entry in found:
        entry.row.workflow = verb.to
        if entry.first is not None and entry.first[1] == verb.workflow:
            entry.first = (entry.first[0], verb.to, *entry.first[2:])
    return Counted(len(found))


def _open(t: Tables) -> list[Entry]:
    return [entry for _, entry in sorted(t.runs.items()) if entry.row.status not in ENDED]


VERBS: dict[type[Any], Callable[[Tables, Any], Answer]] = {
    ContinueAs: continue_as,
    Terminate: terminate,
    Hold: hold,
    Move: move,
}
