"""The verbs that change a run's course: its next turn, its end by force, and who may claim it under which name."""

from __future__ import annotations

from outlast.core.transitions import Event, Status, after
from outlast.stores.course_verbs import ContinueAs, Continued, Counted, Hold, Move, Terminate
from outlast.stores.emits import drop_unsettled
from outlast.stores.postgres.arrays import Ints
from outlast.stores.postgres.batch import Batch
from outlast.stores.postgres.families import tell_family, woken_family
from outlast.stores.postgres.shared_starts import give_up_keys
from outlast.stores.postgres.streams import RunOutput
from outlast.stores.rows import RUN_COLUMNS, run_row
from outlast.stores.rules import Hold as Held
from outlast.stores.rules import cannot_terminate, missing_record, terminated
from outlast.stores.verbs import Answer, Done, Failed, Fenced, Refused


def continue_as(b: Batch, verb: ContinueAs) -> Answer:
    """Begin a run's next turn."""
    b.lock_runs([verb.run])  # whoever puts something in its inbox, or waits for it, holds it, too
    known = "SELECT 1 FROM runs WHERE pk = %s AND incarnation = %s AND holder = %s"
    if b.rows(known, verb.run, verb.incarnation, verb.worker):
        return Continued(b.run(verb.run))
    held, fence = b.hold(verb.run, verb.worker, verb.claim), b.fence(verb.run)
    if held is not Held.OWNED or fence is None:
        return held if isinstance(held, Fenced) else b.fenced(verb.run, verb.worker, verb.claim)
    if fence.last_seq != verb.last_seq:
        return Failed(missing_record(fence.last_seq, verb.last_seq))
    give_up_keys(b, b.run(verb.run), verb.workflow)
    b.run_sql(
        "INSERT INTO firsts (run, incarnation, workflow, definition, input) "
        "SELECT pk, incarnation, workflow, definition, input FROM runs WHERE pk = %s ON CONFLICT DO NOTHING",
        verb.run,
    )
    b.run_sql("DELETE FROM records WHERE run = %s", verb.run)
    b.run_sql("DELETE FROM inbox WHERE run = %s AND (kind = 'child' OR substr(key, 1, 1) = '!')", verb.run)
    b.run_sql("DELETE FROM waiters WHERE parent = %s", verb.run)
    drop_unsettled(RunOutput(b, verb.run))
    b.run_sql("DELETE FROM stream_sources WHERE run = %s", verb.run)  # the next turn has steps of the same names
    b.withdraw_approvals(verb.run)
    # A child that is just ending holds its row and wants this one: then the server ends one of the two, to try again.
    b.run_sql("UPDATE runs SET parent = NULL, parent_key = '' WHERE parent = %s", verb.run)
    b.run_sql(
        "UPDATE runs SET incarnation = %s, workflow = %s, definition = %s, options = %s, turned = %s, input = %s, "
        "forks = '[]', turn = turn + 1, claim = claim + 1, crashes = 0 WHERE pk = %s",
        verb.incarnation,
        verb.workflow,
        verb.definition,
        verb.options,
        verb.at,
        verb.input,
        verb.run,
    )
    b.forget_run(verb.run)
    return Continued(b.run(verb.run))


def terminate(b: Batch, verb: Terminate) -> Answer:
    """End a run, whoever executes it. Its owner's row is locked, which also tells that one's store to look again."""
    run = b.run_by_id(verb.id, lock=True)
    if run is None:
        return Refused(f"there is no run {verb.id!r}")
    if run.status is Status.CANCELLED:
        return Done(woken_family(b, run))
    if why := cannot_terminate(run, verb.worker):
        return Refused(why, run)
    assert after(run.status, Event.CANCEL) is Status.CANCELLED
    drop_unsettled(RunOutput(b, run.pk))
    b.end_run(run.pk, Status.CANCELLED, terminated(verb.by))
    return Done(tell_family(b, b.run(run.pk)))


def hold(b: Batch, verb: Hold) -> Answer:
    """Hold runs back, or give them free."""
    changed = b.rows(
        "UPDATE runs SET held = %s WHERE pk IN (SELECT pk FROM runs WHERE ended IS NULL AND held <> %s "
        "AND (%s::text IS NULL OR id = %s) AND (%s::text IS NULL OR workflow = %s) "
        "AND (%s::text IS NULL OR version = %s) ORDER BY pk LIMIT %s FOR NO KEY UPDATE) RETURNING pk",
        verb.held,
        verb.held,
        verb.id,
        verb.id,
        verb.workflow,
        verb.workflow,
        verb.version,
        verb.version,
        max(verb.limit, 0),
    )
    return Counted(len(changed))


def move(b: Batch, verb: Move) -> Answer:
    """Give runs another name."""
    found = b.rows(
        "SELECT pk FROM runs WHERE workflow = %s AND ended IS NULL AND owner IS NULL "
        "AND (%s::text IS NULL OR version = %s) AND (%s::text IS NULL OR id = %s) ORDER BY pk LIMIT %s "
        "FOR NO KEY UPDATE",
        verb.workflow,
        verb.version,
        verb.version,
        verb.id,
        verb.id,
        max(verb.limit, 0),
    )
    moved = Ints(pk for (pk,) in found)
    keyed = f"SELECT {RUN_COLUMNS} FROM runs WHERE pk = ANY (%s) AND (dedup <> '' OR debounce <> '')"
    for row in b.rows(keyed, moved):
        give_up_keys(b, run_row(row), verb.to)
    b.run_sql("UPDATE firsts SET workflow = %s WHERE run = ANY (%s) AND workflow = %s", verb.to, moved, verb.workflow)
    b.run_sql("UPDATE runs SET workflow = %s WHERE pk = ANY (%s)", verb.to, moved)
    return Counted(len(found))
