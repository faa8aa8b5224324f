"""Verbs of one kind that stand side by side in a batch, each kind applied with one statement for all.

What is out of the ordinary (a run that is there already, a fence that does not hold, a record that is there already, a
child whose parent ends with it) takes the way of its single verb.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast.core.records import Record
from outlast.stores.emits import emit
from outlast.stores.postgres.arrays import Blobs, Bools, Column, Floats, Ints, Texts
from outlast.stores.postgres.batch import Again, Batch, Fence
from outlast.stores.postgres.client_verbs import start_run
from outlast.stores.postgres.early import ask_for_early
from outlast.stores.postgres.journal import deliver, fence_of, insert, write
from outlast.stores.postgres.owned_runs import finish
from outlast.stores.postgres.streams import RunOutput
from outlast.stores.rows import NEW_RUN_COLUMNS, TERMS_COLUMNS, is_usual, new_run, started_run, terms
from outlast.stores.rules import Hold
from outlast.stores.verbs import Answer, Done, Finish, Started, StartRun, Write

DONE = Done()
START = (
    f"INSERT INTO runs ({NEW_RUN_COLUMNS}, input) SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], "
    "%s::text[], %s::boolean[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::float8[], "
    "%s::bigint[], %s::text[], %s::text[], %s::float8[], %s::float8[], %s::text[], %s::text[], %s::bytea[]) "
    "ON CONFLICT (id) DO NOTHING RETURNING id, pk"
)
START_ON_TERMS = (
    f"INSERT INTO runs ({NEW_RUN_COLUMNS}, input, {TERMS_COLUMNS}) SELECT * FROM unnest(%s::text[], %s::text[], "
    "%s::text[], %s::text[], %s::boolean[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], "
    "%s::float8[], %s::bigint[], %s::text[], %s::text[], %s::float8[], %s::float8[], %s::text[], %s::text[], "
    "%s::bytea[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[]) ON CONFLICT (id) DO NOTHING "
    "RETURNING id, pk"
)
START_TYPES: tuple[type[Column], ...] = (
    Texts, Texts, Texts, Texts, Bools, Texts, Texts, Texts, Texts, Ints, Floats, Ints, Texts, Texts, Floats, Floats,
    Texts, Texts, Blobs,
)  # fmt: skip
TERMS_TYPES: tuple[type[Column], ...] = (Texts, Texts, Ints, Texts, Texts)
END = (
    "UPDATE runs SET status = v.status, result = v.result, error = v.error, culprit = v.culprit, detail = v.detail, "
    "ended = %s, owner = NULL, due = NULL, reason = NULL FROM unnest(%s::bigint[], %s::text[], %s::bytea[], "
    "%s::bytea[], %s::text[], %s::text[]) AS v (pk, status, result, error, culprit, detail) WHERE runs.pk = v.pk"
)
WITHDRAW = "UPDATE approvals SET status = 'withdrawn', answered = %s WHERE run = ANY (%s) AND status = 'open'"


def write_all(b: Batch, verbs: Sequence[Write]) -> list[Answer]:
    """Apply writes that follow each other."""
    answers: list[Answer] = []
    new: list[tuple[int, Record]] = []
    for verb in verbs:
        fence = b.owned(verb.run, verb.worker, verb.claim) or fence_of(b, verb)
        if not isinstance(fence, Fence):
            answers.append(fence)
        elif follows(verb, fence.last_seq):
            new += [(verb.run, record) for record in verb.records]
            fence.last_seq += len(verb.records)
            deliver(b, verb, fence)
            if verb.emits:
                emit(RunOutput(b, verb.run), verb.emits)
            answers.append(DONE)
        else:
            insert(b, new)
            new = []
            answers.append(write(b, verb))
    insert(b, new)
    return answers


def follows(verb: Write, last_seq: int) -> bool:
    """Tell whether the records simply continue a journal that ends with `last_seq`."""
    return all(record.seq == seq for seq, record in enumerate(verb.records, last_seq + 1))


def finish_all(b: Batch, verbs: Sequence[Finish]) -> list[Answer]:
    """End runs, no run twice."""
    fences = [b.owned(verb.run, verb.worker, verb.claim) for verb in verbs]
    runs = [verb.run for verb in verbs]
    waited_for = {run for run, fence in zip(runs, fences, strict=True) if fence and fence.parent}
    waited_for.update(run for run in runs if run in b.waited_for)
    parents = {fence.parent for fence in fences if fence}.union(*(b.waited_for.get(run, ()) for run in runs))
    plain = all(fence and fence.last_seq == verb.last_seq for fence, verb in zip(fences, verbs, strict=True))
    if not plain or not parents.isdisjoint(runs):  # what becomes of one depends on the other
        return [finish(b, verb) for verb in verbs]
    b.lock_runs(runs)
    b.run_sql(
        END,
        b.now,
        Ints(runs),
        Texts(verb.status.value for verb in verbs),
        Blobs(verb.result for verb in verbs),
        Blobs(verb.error for verb in verbs),
        Texts(verb.culprit for verb in verbs),
        Texts(verb.detail for verb in verbs),
    )
    b.run_sql("DELETE FROM inbox WHERE run = ANY (%s) AND kind <> 'message'", Ints(runs))
    b.run_sql("DELETE FROM taken WHERE run = ANY (%s) AND kind = 'cancel'", Ints(runs))
    b.run_sql(WITHDRAW, b.now, Ints(runs))
    for run in runs:
        b.forget_run(run)
    return [Done(b.tell_parents(b.run(run))) if run in waited_for else DONE for run in runs]


def start_all(b: Batch, verbs: Sequence[StartRun]) -> list[Answer]:
    """Create runs."""
    if not _all_new(b, verbs):
        return [start_run(b, verb) for verb in verbs]
    rows, types, statement = [(*new_run(verb, b.now), verb.run.input) for verb in verbs], START_TYPES, START
    if any(any(terms(verb.run)) for verb in verbs):
        rows = [row + terms(verb.run) for row, verb in zip(rows, verbs, strict=True)]
        types, statement = START_TYPES + TERMS_TYPES, START_ON_TERMS
    columns = zip(types, zip(*rows, strict=True), strict=True)
    started = b.db.execute(statement, tuple(kind(values) for kind, values in columns), binary=True)
    early = ask_for_early(b, [verb.run.id for verb in verbs])  # one trip for both
    keys = {row[0]: row[1] for row in started.fetchall()}
    if len(keys) < len(verbs):
        raise Again
    b.started.update(keys)
    mail = {run for (run,) in early.fetchall()}
    return [_started(b, verb, keys[verb.run.id], mail) for verb in verbs]


def _all_new(b: Batch, verbs: Sequence[StartRun]) -> bool:
    """Tell whether all of these runs can simply be created, with nothing about them that is rare."""
    ids = {verb.run.id for verb in verbs}
    if len(ids) < len(verbs) or not ids.isdisjoint(b.known) or not ids.isdisjoint(b.started):
        return False
    for verb in verbs:
        if not is_usual(verb.run):
            return False
        parent, claim = verb.run.parent, verb.parent_claim
        if verb.run.dedup or verb.run.debounce:
            return False
        if verb.claim_by is not None and b.lease_lost(verb.claim_by):
            return False
        if parent is not None and claim is not None and b.hold(parent, verb.parent_worker or "", claim) != Hold.OWNED:
            return False
    return True


def _started(b: Batch, verb: StartRun, pk: int, mail: set[int]) -> Started:
    if verb.claim_by is not None:
        b.know(pk, holder=verb.claim_by, claim=1, parent=verb.run.parent)
    return Started(started_run(verb, pk, b.now), created=True, mail=pk in mail)
