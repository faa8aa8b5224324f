"""The verbs that change a run's course: its next turn, its end by force, and who may claim it under which name."""

from __future__ import annotations

from outlast.core.transitions import Event, Status, after
from outlast.stores.course_verbs import ContinueAs, Continued, Counted, Hold, Move, Terminate
from outlast.stores.emits import drop_unsettled
from outlast.stores.rows import run_row
from outlast.stores.rules import Hold as Held
from outlast.stores.rules import cannot_terminate, missing_record, terminated
from outlast.stores.sqlite.batch import Batch
from outlast.stores.sqlite.families import tell_family, woken_family
from outlast.stores.sqlite.schema import RUN_COLUMNS
from outlast.stores.sqlite.shared_starts import give_up_keys
from outlast.stores.sqlite.streams import RunOutput
from outlast.stores.verbs import Answer, Done, Failed, Fenced, Refused


def continue_as(b: Batch, verb: ContinueAs) -> Answer:
    """Begin a run's next turn."""
    if b.rows(
        "SELECT 1 FROM runs WHERE pk = ? AND incarnation = ? AND holder = ?", verb.run, verb.incarnation, verb.worker
    ):
        return Continued(b.run(verb.run))
    held, fence = b.hold(verb.run, verb.worker, verb.claim), b.fence(verb.run)
    if held is not Held.OWNED or fence is None:
        return held if isinstance(held, Fenced) else b.fenced(verb.run, verb.worker, verb.claim)
    if fence.last_seq != verb.last_seq:
        return Failed(missing_record(fence.last_seq, verb.last_seq))
    give_up_keys(b, b.run(verb.run), verb.workflow)
    run = (verb.run,)
    b.db.execute(
        "INSERT OR IGNORE INTO firsts (run, incarnation, workflow, definition, input) "
        "SELECT pk, incarnation, workflow, definition, (SELECT input FROM inputs WHERE run = pk) FROM runs "
        "WHERE pk = ?",
        run,
    )
    b.db.execute("DELETE FROM records WHERE run = ?", run)
    b.db.execute("DELETE FROM inbox WHERE run = ? AND (kind = 'child' OR substr(key, 1, 1) = '!')", run)
    b.db.execute("DELETE FROM waiters WHERE parent = ?", run)
    drop_unsettled(RunOutput(b, verb.run))
    b.db.execute("DELETE FROM stream_sources WHERE run = ?", run)  # the next turn has steps of the same names
    b.withdraw_approvals(verb.run)
    b.db.execute("UPDATE runs SET parent = NULL, parent_key = '' WHERE parent = ?", run)
    b.db.execute(
        "UPDATE runs SET incarnation = ?, workflow = ?, definition = ?, options = ?, turned = ?, forks = '[]', "
        "turn = turn + 1, claim = claim + 1, crashes = 0 WHERE pk = ?",
        (verb.incarnation, verb.workflow, verb.definition, verb.options, verb.at, verb.run),
    )
    b.db.execute("INSERT OR REPLACE INTO inputs (run, input) VALUES (?, ?)", (verb.run, verb.input))
    b.forget_run(verb.run)
    return Continued(b.run(verb.run))


def terminate(b: Batch, verb: Terminate) -> Answer:
    """End a run, whoever executes it."""
    run = b.run_by_id(verb.id)
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
        "UPDATE runs SET held = ?1 WHERE pk IN (SELECT pk FROM runs WHERE ended IS NULL AND held <> ?1 "
        "AND (?2 IS NULL OR id = ?2) AND (?3 IS NULL OR workflow = ?3) AND (?4 IS NULL OR version = ?4) "
        "ORDER BY pk LIMIT ?5) RETURNING pk",
        verb.held,
        verb.id,
        verb.workflow,
        verb.version,
        max(verb.limit, 0),
    )
    return Counted(len(changed))


def move(b: Batch, verb: Move) -> Answer:
    """Give runs another name."""
    pks = [
        pk
        for (pk,) in b.rows(
            "SELECT pk FROM runs WHERE workflow = ?1 AND ended IS NULL AND owner IS NULL "
            "AND (?2 IS NULL OR version = ?2) AND (?3 IS NULL OR id = ?3) ORDER BY pk LIMIT ?4",
            verb.workflow,
            verb.version,
            verb.id,
            max(verb.limit, 0),
        )
    ]
    moved = f"({', '.join(map(str, pks))})"
    for row in b.rows(f"SELECT {RUN_COLUMNS} FROM runs WHERE pk IN {moved} AND (dedup <> '' OR debounce <> '')"):
        give_up_keys(b, run_row(row), verb.to)
    b.db.execute(f"UPDATE firsts SET workflow = ? WHERE run IN {moved} AND workflow = ?", (verb.to, verb.workflow))
    b.db.execute(f"UPDATE runs SET workflow = ? WHERE pk IN {moved}", (verb.to,))
    return Counted(len(pks))
