"""Verbs of one kind that stand side by side in a batch, applied with few statements.

Each statement lets go of the interpreter's lock and has to get it back, which a busy event loop in the same
process makes slow. So rows go in by the dozen, not one by one. What is out of the ordinary (a run that is there
already, a fence that does not hold, a child whose parent waits) takes the way of its single verb.

What is refused here takes the whole transaction with it, and the batch is then applied verb by verb (see `verbs.py`).
OR ROLLBACK says so to SQLite, which otherwise keeps the old content of every page that a statement of several rows
touches, to undo that statement alone: half of the statement's cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

from msgspec.structs import astuple

from outlast.stores.emits import emit
from outlast.stores.rows import (
    NEW_RUN_COLUMNS,
    RECORD_COLUMNS,
    TERMS_COLUMNS,
    Row,
    is_usual,
    new_run,
    started_run,
    terms,
)
from outlast.stores.rules import Hold
from outlast.stores.sqlite.batch import Batch, Fence, Surprise
from outlast.stores.sqlite.client_verbs import start_run
from outlast.stores.sqlite.families import OPEN_CHILDREN
from outlast.stores.sqlite.journal import deliver, fence_of
from outlast.stores.sqlite.owned_runs import finish
from outlast.stores.sqlite.streams import RunOutput
from outlast.stores.verbs import Answer, Done, Finish, Started, StartRun, Write

SIZES = (64, 16, 4, 1)  # rows in one statement: few different statements, so that each is prepared once
DONE = Done()
INSERT_RECORDS = f"INSERT OR ROLLBACK INTO records (run, {RECORD_COLUMNS})"
END = (
    "UPDATE OR ROLLBACK runs SET status = v.column2, result = v.column3, error = v.column4, culprit = v.column5, "
    "detail = v.column6, ended = v.column7, owner = NULL, due = NULL, reason = NULL FROM ({}) AS v "
    "WHERE runs.pk = v.column1"
)
WITHDRAW = "UPDATE approvals SET status = 'withdrawn', answered = ? WHERE run IN ({}) AND status = 'open'"


def write_all(b: Batch, verbs: Sequence[Write]) -> list[Answer]:
    """Apply writes that follow each other. Raises Surprise when one does not simply add to the end of its journal."""
    answers: list[Answer] = []
    new: list[Row] = []
    for verb in verbs:
        fence = b.owned(verb.run, verb.worker, verb.claim) or fence_of(b, verb)
        if not isinstance(fence, Fence):
            answers.append(fence)
            continue
        for added in verb.records:
            if added.seq != fence.last_seq + 1:
                raise Surprise
            fence.last_seq = added.seq
            new.append((verb.run, *astuple(added)))
        deliver(b, verb, fence)
        if verb.emits:
            emit(RunOutput(b, verb.run), verb.emits)
        answers.append(DONE)
    new.sort()  # by run and seq, as the table is: each page of it is visited once
    _insert(b, INSERT_RECORDS, new)
    return answers


def finish_all(b: Batch, verbs: Sequence[Finish]) -> list[Answer]:
    """End runs, no run twice."""
    if not all(_ends_plainly(b, verb) for verb in verbs):
        return [finish(b, verb) for verb in verbs]
    runs = [verb.run for verb in verbs]
    waited_for: set[int] = set()
    for some in _chunks(runs):
        marks = _marks(len(some))
        family = b.rows(
            f"SELECT pk, parent FROM runs WHERE pk IN ({marks}) AND parent IS NOT NULL "
            f"UNION ALL SELECT run, parent FROM waiters WHERE run IN ({marks}) "
            f"UNION ALL SELECT DISTINCT NULL, parent FROM runs WHERE {OPEN_CHILDREN.format(f'IN ({marks})')}",
            *some,
            *some,
            *some,
        )
        if not set(runs).isdisjoint(parent for _, parent in family):
            return [finish(b, verb) for verb in verbs]  # what becomes of one depends on the other
        waited_for.update(child for child, _ in family)
    for few in _chunks(verbs):
        ends = [(v.run, v.status, v.result, v.error, v.culprit, v.detail, b.now) for v in few]
        b.db.execute(END.format(_values(7, len(ends))), [value for row in ends for value in row])
        marks, some = _marks(len(few)), [verb.run for verb in few]
        b.db.execute(f"DELETE FROM inbox WHERE run IN ({marks}) AND kind <> 'message'", some)
        b.db.execute(f"DELETE FROM taken WHERE run IN ({marks}) AND kind = 'cancel'", some)
        b.db.execute(WITHDRAW.format(marks), (b.now, *some))
    for run in runs:
        b.forget_run(run)
    return [Done(b.tell_parents(b.run(run))) if run in waited_for else DONE for run in runs]


def _ends_plainly(b: Batch, verb: Finish) -> bool:
    """Tell whether a run can simply be ended."""
    fence = b.owned(verb.run, verb.worker, verb.claim)
    return fence is not None and fence.last_seq == verb.last_seq


def start_all(b: Batch, verbs: Sequence[StartRun]) -> list[Answer]:
    """Create runs."""
    if not _all_new(b, verbs):
        return [start_run(b, verb) for verb in verbs]
    rows, columns = [new_run(verb, b.now) for verb in verbs], NEW_RUN_COLUMNS
    if any(any(terms(verb.run)) for verb in verbs):
        rows = [row + terms(verb.run) for row, verb in zip(rows, verbs, strict=True)]
        columns = f"{NEW_RUN_COLUMNS}, {TERMS_COLUMNS}"
    keys: dict[str, int] = {}
    for chunk in _chunks(rows):
        sql = f"INSERT OR ROLLBACK INTO runs ({columns}) {_values(len(rows[0]), len(chunk))} RETURNING id, pk"
        keys.update(b.rows(sql, *(value for row in chunk for value in row)))
    inputs = [(keys[verb.run.id], verb.run.input) for verb in verbs if verb.run.input]
    _insert(b, "INSERT OR ROLLBACK INTO inputs (run, input)", inputs)
    mail = b.deliver_early(keys)
    return [_started(b, verb, keys[verb.run.id], mail) for verb in verbs]


def _all_new(b: Batch, verbs: Sequence[StartRun]) -> bool:
    """Tell whether all of these runs can simply be created, with nothing about them that is rare."""
    ids = [verb.run.id for verb in verbs]
    if len(set(ids)) < len(ids):
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
    return not any(b.rows(f"SELECT 1 FROM runs WHERE id IN ({_marks(len(some))})", *some) for some in _chunks(ids))


def _started(b: Batch, verb: StartRun, pk: int, mail: set[int]) -> Started:
    if verb.claim_by is not None:
        b.know(pk, Fence(status="running", holder=verb.claim_by, claim=1, crashes=0, last_seq=0))
    return Started(started_run(verb, pk, b.now), created=True, mail=pk in mail)


# -- statements ----------------------------------------------------------------


def _insert(b: Batch, head: str, rows: Sequence[Row]) -> None:
    for chunk in _chunks(rows):
        b.db.execute(_statement(head, len(chunk[0]), len(chunk)), [*chain.from_iterable(chunk)])


def _chunks(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    at = 0
    for size in SIZES:
        while len(rows) - at >= size:
            yield rows[at : at + size]
            at += size


@cache
def _statement(head: str, width: int, height: int) -> str:
    return f"{head} {_values(width, height)}"


@cache
def _values(width: int, height: int) -> str:
    return f"VALUES {', '.join([f'({_marks(width)})'] * height)}"


@cache
def _marks(count: int) -> str:
    return ", ".join("?" * count)
