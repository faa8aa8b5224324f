"""How a run is asked to end, and what becomes of its children when it has ended.

A child that does not outlive its parent is asked to end in the transaction that ends the parent, whichever way that is.
It is asked once: a child that its parent has given up before, or that somebody resumed since, is left alone. (`taken`
holds it, under `given_up`.) Most have been given up by the parent's own body by then.
"""

from __future__ import annotations

from outlast.core.records import InboxRow, Kind, RunRow
from outlast.core.transitions import ENDED, Event, Status, after
from outlast.stores.emits import drop_unsettled
from outlast.stores.postgres.batch import Batch
from outlast.stores.postgres.inboxes import LIVE
from outlast.stores.postgres.streams import RunOutput
from outlast.stores.rows import RUN_COLUMNS, run_row
from outlast.stores.rules import CANCEL_ID, PARENT_ENDED, cannot_expire, ends_when_asked, parent_ended
from outlast.stores.time_verbs import Expire
from outlast.stores.verbs import Answer, Done, Fenced, Refused

OPEN_CHILDREN = (
    "SELECT pk FROM runs WHERE parent = %s AND ended IS NULL AND NOT outlives "
    "AND NOT EXISTS (SELECT 1 FROM taken WHERE taken.run = runs.pk AND kind = 'given_up') ORDER BY pk"
)
GIVE_UP = "INSERT INTO taken (run, kind, message_id) VALUES (%s, 'given_up', %s)"


def ask_to_end(b: Batch, run: RunRow, by: str) -> tuple[int, ...]:
    """End a run that was never begun, or is stuck; ask any other. Return who has something to do since."""
    if ends_when_asked(run):
        assert after(run.status, Event.CANCEL) is Status.CANCELLED
        b.end_run(run.pk, Status.CANCELLED, f"cancelled by {by}" if by else "cancelled")
        drop_unsettled(RunOutput(b, run.pk))
        return tell_family(b, b.run(run.pk))
    b.run_sql("UPDATE runs SET cancelling = coalesce(cancelling, %s) WHERE pk = %s", b.now, run.pk)
    b.put(InboxRow(id=0, run=run.pk, kind=Kind.CANCEL, key="", message_id=CANCEL_ID, value=by.encode()))
    return (run.pk,) if run.status in LIVE else ()


def tell_family(b: Batch, run: RunRow) -> tuple[int, ...]:
    """Tell a run's end to its parents, and ask its children to end. Return who has something to do since."""
    b.tell_parents(run)
    children = [pk for (pk,) in b.rows(OPEN_CHILDREN, run.pk)]
    b.lock_runs(children)
    for pk in children:
        child = b.run(pk)
        if child.status not in ENDED:
            b.run_sql(GIVE_UP, pk, PARENT_ENDED)
            ask_to_end(b, child, parent_ended(run.id))
    return woken_family(b, run)


def woken_family(b: Batch, run: RunRow) -> tuple[int, ...]:
    """Return who has something to do since a run has ended."""
    woken = set(b.woken_parents(run))
    for (pk,) in b.rows(
        "SELECT pk FROM runs JOIN taken ON taken.run = runs.pk AND kind = 'given_up' AND message_id = %s "
        "WHERE parent = %s",
        PARENT_ENDED,
        run.pk,
    ):
        child = b.run(pk)
        woken.update([pk] if child.status in LIVE else woken_family(b, child) if child.status in ENDED else ())
    return tuple(sorted(woken))


def expire(b: Batch, verb: Expire) -> Answer:
    """End a run that nobody has begun by its deadline."""
    if verb.worker is not None and (why := b.lease_lost(verb.worker)):
        return Fenced(why, worker_lost=True)
    b.lock_runs([verb.run])
    found = b.rows(f"SELECT {RUN_COLUMNS} FROM runs WHERE pk = %s", verb.run)
    if not found:
        return Refused(f"there is no run {verb.run}")
    run = run_row(found[0])
    if run.status is Status.FAILED and run.error == verb.error:
        return Done(woken_family(b, run))
    if why := cannot_expire(run, b.now):
        return Refused(why)
    assert after(run.status, Event.EXPIRE) is Status.FAILED
    b.run_sql("UPDATE runs SET error = %s WHERE pk = %s", verb.error, run.pk)
    b.end_run(run.pk, Status.FAILED, "")
    return Done(tell_family(b, b.run(run.pk)))
