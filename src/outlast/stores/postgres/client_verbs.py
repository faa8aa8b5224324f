"""The verbs of anybody: start, send, cancel, and what a person decides.

A run that is named by its id is locked before it is looked at, so what was seen still holds when the verb acts on it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.core.records import InboxRow, RunRow
from outlast.core.transitions import ENDED, Event, Status, after
from outlast.stores.emits import mark_taken_up
from outlast.stores.postgres.arrays import Ints
from outlast.stores.postgres.batch import Again, Batch
from outlast.stores.postgres.early import ask_for_early, keep_early
from outlast.stores.postgres.families import ask_to_end, woken_family
from outlast.stores.postgres.inboxes import LIVE
from outlast.stores.postgres.journal import insert
from outlast.stores.postgres.owned_runs import take
from outlast.stores.postgres.shared_starts import first_turn, give_up_keys, same_terms
from outlast.stores.postgres.streams import RunOutput
from outlast.stores.rows import RECORD_COLUMNS, RUN_COLUMNS, is_usual, run_row
from outlast.stores.rules import Hold, ended_as
from outlast.stores.verbs import (
    Answer,
    Cancel,
    Claimed,
    Conflict,
    Done,
    Fenced,
    ForkRun,
    Prune,
    Refused,
    Resolve,
    Resume,
    Send,
    Started,
    StartRun,
)


def start_run(b: Batch, verb: StartRun) -> Answer:
    """Create a run, or find it."""
    known = b.run_by_id(verb.run.id)
    first = first_turn(b, known) if known else None
    if known and first and first.incarnation == verb.run.incarnation:
        mail = bool(b.rows("SELECT 1 FROM inbox WHERE run = %s LIMIT 1", known.pk))
        return Started(known, created=known.turn == 1, mail=mail)
    held: Hold | Fenced = Hold.OWNED
    if verb.run.parent is not None and verb.parent_claim is not None:
        held = b.hold(verb.run.parent, verb.parent_worker or "", verb.parent_claim)
        if isinstance(held, Fenced):
            return held
    if known and first:
        return _start_again(b, verb.run, known, first, told=held is Hold.PAST)
    if (same := same_terms(b, verb)) is not None:
        return same
    if held is Hold.PAST:
        return b.fenced(verb.run.parent or 0, verb.parent_worker or "", verb.parent_claim or 0)
    if verb.claim_by is not None and (why := b.lease_lost(verb.claim_by)):
        return Fenced(why, worker_lost=True)
    pk = b.insert_run(verb.run)
    if not is_usual(verb.run):
        rare = (verb.run.deadline, verb.run.outlives, pk)
        b.run_sql("UPDATE runs SET deadline = %s, outlives = %s WHERE pk = %s", *rare)
    mail = ask_for_early(b, [verb.run.id]).fetchall()
    if verb.claim_by is not None:
        take(b, pk, verb.claim_by)
    return Started(b.run(pk), created=True, mail=bool(mail))


def _start_again(b: Batch, run: RunRow, known: RunRow, first: RunRow, *, told: bool) -> Answer:
    if (first.workflow, first.is_step, first.input) != (run.workflow, run.is_step, run.input):
        return Conflict(first)
    if run.parent is None or told:
        return Started(known, created=False)
    b.lock_runs([known.pk])  # so that it does not end before it knows who waits for it
    known = b.run(known.pk)
    b.lock_runs([run.parent])
    if not b.rows("SELECT 1 FROM runs WHERE pk = %s AND ended IS NULL", run.parent):
        return Started(known, created=False)
    if (run.parent, run.parent_key) != (known.parent, known.parent_key):
        b.run_sql(
            "INSERT INTO waiters (run, parent, parent_key) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            known.pk,
            run.parent,
            run.parent_key,
        )
        b.waited_for.setdefault(known.pk, set()).add(run.parent)
    if known.status in ENDED and not b.knows_child(run.parent, run.parent_key):
        b.tell(known, run.parent, run.parent_key)
    return Started(known, created=False)


def fork_run(b: Batch, verb: ForkRun) -> Answer:
    """Create a run from records of another."""
    known = b.run_by_id(verb.run.id)
    if known:
        first = first_turn(b, known)
        same = first.incarnation == verb.run.incarnation
        return Started(known, created=known.turn == 1) if same else Conflict(first)
    source = b.row("SELECT id FROM runs WHERE pk = %s", verb.source)
    if source is None:
        return Refused(f"there is no run {verb.source} to fork")
    kept = {seq for (seq,) in b.rows("SELECT seq FROM records WHERE run = %s", verb.source)}
    missing = sorted(set(verb.keep) - kept)
    if missing:
        return Refused(f"run {source[0]!r} has no record {missing[0]}", b.run(verb.source))
    pk = b.insert_run(verb.run)
    ask_for_early(b, [verb.run.id])
    b.run_sql(
        f"INSERT INTO records (run, {RECORD_COLUMNS}) SELECT %s, {RECORD_COLUMNS} FROM records "
        "WHERE run = %s AND seq = ANY (%s)",
        pk,
        verb.source,
        Ints(verb.keep),
    )
    return Started(b.run(pk), created=True)


def send(b: Batch, verb: Send) -> Answer:
    """Put something in a run's inbox."""
    found = b.row("SELECT pk, status FROM runs WHERE id = %s FOR NO KEY UPDATE", verb.id)
    if found is None and verb.early:
        if keep_early(b, verb):
            return Done()
        raise Again
    if found is None:
        return Refused(f"there is no run {verb.id!r}")
    pk, status = found
    if status in ENDED:
        had = b.has_had(pk, verb.kind, verb.message_id)
        return Done() if had else Refused(f"run {verb.id!r} {ended_as(Status(status))}", b.run(pk))
    b.put(InboxRow(id=0, run=pk, kind=verb.kind, key=verb.key, message_id=verb.message_id, value=verb.value))
    return Done(_woken(pk, status))


def _woken(pk: int, status: str) -> tuple[int, ...]:
    return (pk,) if status in LIVE else ()


def cancel(b: Batch, verb: Cancel) -> Answer:
    """Ask a run to end."""
    run = b.run_by_id(verb.id, lock=True)
    if run is None:
        return Refused(f"there is no run {verb.id!r}")
    if verb.parent not in (None, run.parent):
        return Refused(f"run {verb.id!r} is no child of run {verb.parent}", run)
    again = bool(verb.message_id) and not b.rows(
        "INSERT INTO taken (run, kind, message_id) VALUES (%s, 'given_up', %s) ON CONFLICT DO NOTHING RETURNING run",
        run.pk,
        verb.message_id,
    )
    if run.status is Status.CANCELLED:
        return Done(woken_family(b, run))
    if run.status in ENDED:
        return Done() if verb.message_id else Refused(f"run {verb.id!r} {ended_as(run.status)}", run)
    if again:
        return Done(_woken(run.pk, run.status))
    return Done(ask_to_end(b, run, verb.by))


def resolve(b: Batch, verb: Resolve) -> Answer:
    """Record a person's decision."""
    run = b.run_by_id(verb.id, lock=True)
    if run is None:
        return Refused(f"there is no run {verb.id!r}")
    decided = b.row(
        "SELECT note, value FROM records AS r WHERE run = %s AND key = %s AND kind = 'resolution' AND attempt = %s "
        "AND seq > (SELECT coalesce(max(i.seq), 0) FROM records AS i "
        "WHERE (i.run, i.key, i.attempt, i.kind) = (r.run, r.key, r.attempt, 'intent'))",
        run.pk,
        verb.key,
        verb.attempt,
    )
    if decided == (verb.decision, verb.value):
        return Done(_woken(run.pk, run.status))
    if decided:
        return Refused(f"attempt {verb.attempt} of {verb.key} was decided already: {decided[0]}")
    intent = _last_intent(b, run.pk, verb.key)
    if why := _not_in_doubt(b, verb, run, intent):
        return Refused(why, run)
    b.run_sql(
        "INSERT INTO records (run, seq, kind, key, at, name, ok, args, value, attempt, effect, started, ended, due, "
        "cause, worker, note) SELECT i.run, l.seq + 1, 'resolution', i.key, greatest(%s, l.at), i.name, %s, NULL, "
        "%s, i.attempt, i.effect, 0, 0, NULL, 0, %s, %s FROM records AS i, "
        "(SELECT seq, at FROM records WHERE run = %s ORDER BY seq DESC LIMIT 1) AS l WHERE i.run = %s AND i.seq = %s",
        b.now,
        verb.decision != "fail",
        verb.value,
        verb.by,
        verb.decision,
        run.pk,
        run.pk,
        intent[0] if intent else 0,
    )
    _pending(b, run, Event.RESOLVE)
    return Done((run.pk,))


def _last_intent(b: Batch, run: int, key: str) -> tuple[Any, ...] | None:
    """Return (seq, attempt) of the last INTENT record of a step."""
    return b.row(
        "SELECT seq, attempt FROM records WHERE run = %s AND key = %s AND kind = 'intent' ORDER BY seq DESC LIMIT 1",
        run,
        key,
    )


def _not_in_doubt(b: Batch, verb: Resolve, run: RunRow, intent: tuple[Any, ...] | None) -> str | None:
    if (run.status, run.reason) != ("stuck", "in_doubt"):
        return f"run {verb.id!r} is not in doubt: it is {run.status}"
    if intent is None or intent[1] != verb.attempt:
        shown = f"the last attempt is {intent[1]}" if intent else "it has no attempt in doubt"
        return f"attempt {verb.attempt} of {verb.key} is not in doubt: {shown}"
    outcome = b.row(
        "SELECT kind FROM records WHERE run = %s AND key = %s AND seq > %s AND attempt = %s "
        "AND kind IN ('resolution', 'late', 'step', 'attempt') ORDER BY seq",
        run.pk,
        verb.key,
        intent[0],
        verb.attempt,
    )
    return f"attempt {verb.attempt} of {verb.key} has an outcome: {outcome[0]}" if outcome else None


def _pending(b: Batch, run: RunRow, event: Event) -> None:
    """Put a run that ended or got stuck back in the queue."""
    assert after(run.status, event) is Status.PENDING
    b.run_sql(
        "UPDATE runs SET status = 'pending', due = %s, crashes = 0, reason = NULL, detail = '', ended = NULL, "
        "result = NULL, error = NULL, culprit = '' WHERE pk = %s",
        b.now,
        run.pk,
    )
    b.forget_run(run.pk)


def resume(b: Batch, verb: Resume) -> Answer:
    """Take an ended or stuck run up again."""
    run = b.run_by_id(verb.id, lock=True)
    if run is None:
        return Refused(f"there is no run {verb.id!r}")
    ((last_seq, resumed),) = b.rows(
        "SELECT (SELECT coalesce(max(seq), 0) FROM records WHERE run = pk), resumed FROM runs WHERE pk = %s", run.pk
    )
    this = msgspec.json.encode((verb.status, verb.last_seq, verb.drop)).decode()
    if run.status != verb.status or last_seq != verb.last_seq or after(run.status, Event.RESUME) is None:
        if resumed == this:
            return Done(_woken(run.pk, run.status))
        return Refused(
            f"run {verb.id!r} is {run.status} at record {last_seq}, not {verb.status} at {verb.last_seq}", run
        )
    b.run_sql("DELETE FROM records WHERE run = %s AND seq = ANY (%s)", run.pk, Ints(verb.drop))
    if verb.again is not None:
        insert(b, [(run.pk, verb.again)])
    if run.status is Status.FAILED and not verb.drop:
        mark_taken_up(RunOutput(b, run.pk), verb.last_seq)
    give_up_keys(b, run, run.workflow, first_turn(b, run).workflow)
    _pending(b, run, Event.RESUME)
    if run.status in ENDED:
        b.run_sql("UPDATE runs SET deadline = NULL WHERE pk = %s AND deadline <= %s", run.pk, b.now)
    b.run_sql(
        "UPDATE runs SET resumed = %s, cancelling = NULL, options = coalesce(%s, options) WHERE pk = %s",
        this,
        verb.options,
        run.pk,
    )
    return Done((run.pk,))


def prune(b: Batch, verb: Prune) -> Answer:
    """Delete runs that ended long ago, and workers that nothing can name any more."""
    old = b.rows(
        f"SELECT {RUN_COLUMNS} FROM runs AS r WHERE r.ended < %s "
        "AND NOT EXISTS (SELECT 1 FROM runs AS p WHERE p.pk = r.parent AND p.ended IS NULL) "
        "AND NOT EXISTS (SELECT 1 FROM waiters AS w JOIN runs AS p ON p.pk = w.parent "
        "WHERE w.run = r.pk AND p.ended IS NULL) ORDER BY r.ended, r.pk LIMIT %s FOR NO KEY UPDATE OF r SKIP LOCKED",
        verb.before,
        max(verb.limit, 0),
    )
    gone = tuple(run_row(row) for row in old)
    if gone:
        pks = Ints(run.pk for run in gone)
        for table, column in (
            ("records", "run"),
            ("inbox", "run"),
            ("taken", "run"),
            ("waiters", "run"),
            ("approvals", "run"),
            ("stream_items", "run"),
            ("stream_sources", "run"),
            ("published", "run"),
            ("firsts", "run"),
            ("runs", "pk"),
        ):
            b.run_sql(f"DELETE FROM {table} WHERE {column} = ANY (%s)", pks)
    b.run_sql("DELETE FROM early WHERE created < %s", verb.before)
    # A worker that left before every open run began is named by none of their records (save what a fork copied).
    b.run_sql(
        "DELETE FROM workers WHERE state = 'gone' AND \"left\" < least(%s, (SELECT coalesce(min(least(created, "
        "coalesce(started, created))), 9e99) FROM runs WHERE ended IS NULL))",
        verb.before,
    )
    b.forget_all()
    return Claimed(gone)
