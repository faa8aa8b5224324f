"""How a run is asked to end, and what becomes of its children when it has ended. See the SQLite store's file."""

from __future__ import annotations

from outlast.core.records import Kind
from outlast.core.transitions import ENDED, Event, Status, after
from outlast.stores.emits import drop_unsettled
from outlast.stores.memory.tables import LIVE, Entry, Tables
from outlast.stores.rules import CANCEL_ID, PARENT_ENDED, cannot_expire, ends_when_asked, parent_ended
from outlast.stores.time_verbs import Expire
from outlast.stores.verbs import Answer, Done, Fenced, Refused


def ask_to_end(t: Tables, entry: Entry, by: str) -> tuple[int, ...]:
    """End a run that was never begun, or is stuck; ask any other. Return who has something to do since."""
    row = entry.row
    if ends_when_asked(row):
        assert after(row.status, Event.CANCEL) is Status.CANCELLED
        t.end(entry, Status.CANCELLED)
        drop_unsettled(entry.output)
        row.detail = f"cancelled by {by}" if by else "cancelled"
        return tell_family(t, entry)
    row.cancelling = row.cancelling or t.clock.wall()
    t.put(entry, Kind.CANCEL, "", CANCEL_ID, True, by.encode())
    return (entry.pk,) if row.status in LIVE else ()


def tell_family(t: Tables, entry: Entry) -> tuple[int, ...]:
    """Tell a run's end to its parents, and ask its children to end. Return who has something to do since."""
    t.tell_parents(entry)
    for child in _children(t, entry):
        if child.row.status not in ENDED and not child.row.outlives and not child.given_up:
            child.given_up.add(PARENT_ENDED)
            ask_to_end(t, child, parent_ended(entry.row.id))
    return woken_family(t, entry)


def woken_family(t: Tables, entry: Entry) -> tuple[int, ...]:
    """Return who has something to do since a run has ended."""
    woken = set(t.woken_parents(entry))
    for child in _children(t, entry):
        if PARENT_ENDED in child.given_up:
            woken.update([child.pk] if child.row.status in LIVE else woken_family(t, child))
    return tuple(sorted(woken))


def _children(t: Tables, entry: Entry) -> list[Entry]:
    return [t.runs[pk] for pk in sorted(t.children.get(entry.pk, ()))]


def expire(t: Tables, verb: Expire) -> Answer:
    """End a run that nobody has begun by its deadline."""
    if verb.worker is not None and (why := t.lease_lost(verb.worker)):
        return Fenced(why, worker_lost=True)
    entry = t.runs.get(verb.run)
    if entry is None:
        return Refused(f"there is no run {verb.run}")
    row = entry.row
    if row.status is Status.FAILED and row.error == verb.error:
        return Done(woken_family(t, entry))
    if why := cannot_expire(row, t.clock.wall()):
        return Refused(why)
    assert after(row.status, Event.EXPIRE) is Status.FAILED
    t.end(entry, Status.FAILED)
    row.error, row.detail = verb.error, ""
    return Done(tell_family(t, entry))
