"""The verbs of anybody: start, send, cancel, and what a person decides."""

from __future__ import annotations

import msgspec
from msgspec.structs import astuple

from outlast.core.records import InboxRow, RunRow
from outlast.core.transitions import ENDED, Event, Status, after
from outlast.stores.emits import mark_taken_up
from outlast.stores.rows import RECORD_COLUMNS, is_usual, run_row
from outlast.stores.rules import Hold, ended_as
from outlast.stores.sqlite.batch import LIVE, Batch
from outlast.stores.sqlite.families import ask_to_end, woken_family
from outlast.stores.sqlite.journal import INSERT
from outlast.stores.sqlite.owned_runs import take
from outlast.stores.sqlite.schema import RUN_COLUMNS
from outlast.stores.sqlite.shared_starts import first_turn, give_up_keys, same_terms
from outlast.stores.sqlite.streams import RunOutput
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
        mail = bool(b.rows("SELECT 1 FROM inbox WHERE run = ? LIMIT 1", known.pk))
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
        b.db.execute("UPDATE runs SET deadline = ?, outlives = ? WHERE pk = ?", rare)
    early = b.deliver_early({verb.run.id: pk})
    if verb.claim_by is not None:
        take(b, pk, verb.claim_by)
    return Started(b.run(pk), created=True, mail=bool(early))


def _start_again(b: Batch, run: RunRow, known: RunRow, first: RunRow, *, told: bool) -> Answer:
    if (first.workflow, first.is_step, first.input) != (run.workflow, run.is_step, run.input):
        return Conflict(first)
    if run.parent is None or told or not b.rows("SELECT 1 FROM runs WHERE pk = ? AND ended IS NULL", run.parent):
        return Started(known, created=False)
    if (run.parent, run.parent_key) != (known.parent, known.parent_key):
        b.db.execute(
            "INSERT OR IGNORE INTO waiters (run, parent, parent_key) VALUES (?, ?, ?)",
            (known.pk, run.parent, run.parent_key),
        )
    if known.status in ENDED and not b.knows_child(run.parent, run.parent_key):
        b.tell(known, run.parent, run.parent_key)
        b.forget_run(run.parent)
    return Started(known, created=False)


def fork_run(b: Batch, verb: ForkRun) -> Answer:
    """Create a run from records of another."""
    known = b.run_by_id(verb.run.id)
    if known:
        first = first_turn(b, known)
        same = first.incarnation == verb.run.incarnation
        return Started(known, created=known.turn == 1) if same else Conflict(first)
    source = b.row("SELECT id FROM runs WHERE pk = ?", verb.source)
    if source is None:
        return Refused(f"there is no run {verb.source} to fork")
    kept = {seq for (seq,) in b.rows("SELECT seq FROM records WHERE run = ?", verb.source)}
    missing = sorted(set(verb.keep) - kept)
    if missing:
        return Refused(f"run {source[0]!r} has no record {missing[0]}", b.run(verb.source))
    pk = b.insert_run(verb.run)
    b.deliver_early({verb.run.id: pk})
    b.db.execute(
        f"INSERT INTO records (run, {RECORD_COLUMNS}) SELECT ?, {RECORD_COLUMNS} FROM records "
        "WHERE run = ? AND seq IN (SELECT value FROM json_each(?))",
        (pk, verb.source, msgspec.json.encode(verb.keep).decode()),
    )
    return Started(b.run(pk), created=True)


def send(b: Batch, verb: Send) -> Answer:
    """Put something in a run's inbox."""
    found = b.row("SELECT pk, status FROM runs WHERE id = ?", verb.id)
    if found is None:
        return _send_early(b, verb) if verb.early else Refused(f"there is no run {verb.id!r}")
    pk, status = found
    if status in ENDED:
        had = b.has_had(pk, verb.kind, verb.message_id)
        return Done() if had else Refused(f"run {verb.id!r} {ended_as(Status(status))}", b.run(pk))
    b.put(InboxRow(id=0, run=pk, kind=verb.kind, key=verb.key, message_id=verb.message_id, value=verb.value))
    return Done(_woken(pk, status))


def _send_early(b: Batch, verb: Send) -> Answer:
    b.db.execute(
        "INSERT OR IGNORE INTO early (run_id, key, message_id, value, created) VALUES (?, ?, ?, ?, ?)",
        (verb.id, verb.key, verb.message_id, verb.value, b.now),
    )
    return Done()


def _woken(pk: int, status: str) -> tuple[int, ...]:
    return (pk,) if status in LIVE else ()


def cancel(b: Batch, verb: Cancel) -> Answer:
    """Ask a run to end."""
    run = b.run_by_id(verb.id)
    if run is None:
        return Refused(f"there is no run {verb.id!r}")
    if verb.parent not in (None, run.parent):
        return Refused(f"run {verb.id!r} is no child of run {verb.parent}", run)
    again = bool(verb.message_id) and not b.rows(
        "INSERT OR IGNORE INTO taken (run, kind, message_id) VALUES (?, 'given_up', ?) RETURNING 1",
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
    run = b.run_by_id(verb.id)
    if run is None:
        return Refused(f"there is no run {verb.id!r}")
    decided = b.row(
        "SELECT note, value FROM records WHERE run = ?1 AND key = ?2 AND kind = 'resolution' AND attempt = ?3 "
        "AND seq > (SELECT coalesce(max(seq), 0) FROM records WHERE run = ?1 AND key = ?2 AND attempt = ?3 "
        "AND kind = 'intent')",
        run.pk,
        verb.key,
        verb.attempt,
    )
    if decided == (verb.decision, verb.value):
        return Done(_woken(run.pk, run.status))
    if decided:
        return Refused(f"attempt {verb.attempt} of {verb.key} was decided already: {decided[0]}")
    if why := _not_in_doubt(b, verb, run):
        return Refused(why, run)
    b.db.execute(
        "INSERT INTO records (run, seq, kind, key, at, name, ok, args, value, attempt, effect, started, ended, due, "
        "cause, worker, note) SELECT run, last, 'resolution', key, max(?1, at), name, ?2, NULL, ?3, attempt, effect, "
        "0, 0, NULL, 0, ?4, ?5 FROM (SELECT max(seq) + 1 AS last, at FROM records WHERE run = ?6), "
        "(SELECT run, key, name, attempt, effect FROM records WHERE run = ?6 AND key = ?7 AND kind = 'intent' "
        "ORDER BY seq DESC LIMIT 1)",
        (b.now, verb.decision != "fail", verb.value, verb.by, verb.decision, run.pk, verb.key),
    )
    _pending(b, run, Event.RESOLVE)
    return Done((run.pk,))


def _not_in_doubt(b: Batch, verb: Resolve, run: RunRow) -> str | None:
    if (run.status, run.reason) != ("stuck", "in_doubt"):
        return f"run {verb.id!r} is not in doubt: it is {run.status}"
    intent = b.row(
        "SELECT seq, attempt FROM records WHERE run = ? AND key = ? AND kind = 'intent' ORDER BY seq DESC LIMIT 1",
        run.pk,
        verb.key,
    )
    if intent is None or intent[1] != verb.attempt:
        shown = f"the last attempt is {intent[1]}" if intent else "it has no attempt in doubt"
        return f"attempt {verb.attempt} of {verb.key} is not in doubt: {shown}"
    outcome = b.row(
        "SELECT kind FROM records WHERE run = ? AND key = ? AND seq > ? AND attempt = ? "
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
    b.db.execute(
        "UPDATE runs SET status = 'pending', due = ?, crashes = 0, reason = NULL, detail = '', ended = NULL, "
        "result = NULL, error = NULL, culprit = '' WHERE pk = ?",
        (b.now, run.pk),
    )
    b.forget_run(run.pk)


def resume(b: Batch, verb: Resume) -> Answer:
    """Take an ended or stuck run up again."""
    run = b.run_by_id(verb.id)
    if run is None:
        return Refused(f"there is no run {verb.id!r}")
    ((last_seq, resumed),) = b.rows(
        "SELECT (SELECT coalesce(max(seq), 0) FROM records WHERE run = pk), resumed FROM runs WHERE pk = ?", run.pk
    )
    this = msgspec.json.encode((verb.status, verb.last_seq, verb.drop)).decode()
    if run.status != verb.status or last_seq != verb.last_seq or after(run.status, Event.RESUME) is None:
        if resumed == this:
            return Done(_woken(run.pk, run.status))
        return Refused(
            f"run {verb.id!r} is {run.status} at record {last_seq}, not {verb.status} at {verb.last_seq}", run
        )
    b.db.executemany("DELETE FROM records WHERE run = ? AND seq = ?", [(run.pk, seq) for seq in verb.drop])
    if verb.again is not None:
        b.db.execute(INSERT, (run.pk, *astuple(verb.again)))
    if run.status is Status.FAILED and not verb.drop:
        mark_taken_up(RunOutput(b, run.pk), verb.last_seq)
    give_up_keys(b, run, run.workflow, first_turn(b, run).workflow)
    _pending(b, run, Event.RESUME)
    if run.status in ENDED:
        b.db.execute("UPDATE runs SET deadline = NULL WHERE pk = ? AND deadline <= ?", (run.pk, b.now))
    b.db.execute(
        "UPDATE runs SET resumed = ?, cancelling = NULL, options = coalesce(?, options) WHERE pk = ?",
        (this, verb.options, run.pk),
    )
    return Done((run.pk,))


def prune(b: Batch, verb: Prune) -> Answer:
    """Delete runs that ended long ago, and workers that nothing can name any more."""
    old = b.rows(
        f"SELECT {RUN_COLUMNS} FROM runs AS r WHERE r.ended < ? "
        "AND NOT EXISTS (SELECT 1 FROM runs AS p WHERE p.pk = r.parent AND p.ended IS NULL) "
        "AND NOT EXISTS (SELECT 1 FROM waiters AS w JOIN runs AS p ON p.pk = w.parent "
        "WHERE w.run = r.pk AND p.ended IS NULL) ORDER BY r.ended, r.pk LIMIT ?",
        verb.before,
        max(verb.limit, 0),
    )
    gone = tuple(run_row(row) for row in old)
    for table, column in (
        ("records", "run"),
        ("inbox", "run"),
        ("taken", "run"),
        ("waiters", "run"),
        ("stream_items", "run"),
        ("stream_sources", "run"),
        ("published", "run"),
        ("firsts", "run"),
        ("inputs", "run"),
        ("approvals", "run"),
        ("runs", "pk"),
    ):
        b.db.executemany(f"DELETE FROM {table} WHERE {column} = ?", [(run.pk,) for run in gone])
    b.db.execute("DELETE FROM early WHERE created < ?", (verb.before,))
    # A worker that left before every open run began is named by none of their records (save what a fork copied).
    b.db.execute(
        "DELETE FROM workers WHERE state = 'gone' AND left < min(?, (SELECT coalesce(min(coalesce("
        "min(created, started), created)), 9e99) FROM runs WHERE ended IS NULL))",
        (verb.before,),
    )
    b.forget_all()
    return Claimed(gone)
