"""What a person does to a run that has ended or is stuck: resume, resolve, fork.

All three look at the journal first and then act by one verb, which the store refuses when anything
happened in between; then they look again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from outlast.core.arguments import MAX_TEXT_BYTES, check_flag, check_kind, check_text, check_whole, quoted
from outlast.core.certainty import undecided_intents
from outlast.core.errors import (
    NotResumable,
    RunConflict,
    StoreUnavailable,
    WrongUse,
)
from outlast.core.identity import check_run_id, shown
from outlast.core.records import Kind, Record, RunRow
from outlast.core.settings import DidNotHappen, Happened
from outlast.core.terms import check_budget
from outlast.core.transitions import ENDED, Reason, Status
from outlast.core.usage import after_resume, in_fork, with_budget
from outlast.runtime.aftermath import cause_of_end
from outlast.runtime.cuts import (
    check_undone,
    children_first,
    command_of,
    fork_words,
    in_doubt_again,
    plan_fork,
    stretches,
    what_to_drop,
    why_lost,
)
from outlast.runtime.run import Run
from outlast.stores.protocol import Loaded, RunFilter
from outlast.stores.rules import keepable
from outlast.stores.verbs import Conflict, Done, ForkRun, Refused, Resolve, Resume, Started

if TYPE_CHECKING:
    from outlast.runtime.client import Client

TRIES = 5


async def _load(app: Client, id: str) -> Loaded:
    row = await app._row(id)
    found = await app._read(app.store.load, [row.pk])
    if not found:
        raise NotResumable(f"run {id} was pruned just now")
    return found[0]


# -- resume -----------------------------------------------------------------------------


async def resume(app: Client, id: str, budget: Mapping[str, Any]) -> Run[Any]:
    """Drop the run's end and what caused it, and queue it again, with what is given of its budget."""
    check_budget("app.resume", **budget)
    for _ in range(TRIES):
        loaded = await _load(app, id)
        run = loaded.run
        if run.status is Status.STUCK and run.reason is Reason.IN_DOUBT:
            raise NotResumable(
                f"run {id} waits for a decision on an attempt in doubt; use: outlast resolve. {run.detail}"
            )
        if run.status not in (Status.FAILED, Status.CANCELLED, Status.STUCK):
            raise NotResumable(f"run {id} is {run.status.value}; only failed, cancelled and stuck runs can be resumed")
        drop: tuple[int, ...] = ()
        again: Record | None = None
        cause = None if run.status is Status.STUCK else cause_of_end(run, loaded.records)
        if cause is not None:
            drop = what_to_drop(run, cause, loaded.records)
            again = in_doubt_again(cause, loaded.records, app.codec)
        elif run.culprit:
            known = any(record.key == run.culprit for record in loaded.records)
            raise NotResumable(
                f"run {id} failed by the error of {run.culprit}, and its journal has no such outcome to forget, so it "
                f"would fail in the same way; start a new course instead: "
                f"{command_of(['fork', id, shown(run.culprit) if known else 'STEP'])}"
            )
        elif run.status is Status.FAILED:
            check_undone(run, loaded.records)
        if run.status is not Status.STUCK:
            await _check_children(app, loaded, cause, drop)
        last = loaded.records[-1].seq if loaded.records else 0
        gives_more = any(limit is not None for limit in budget.values())
        usage = after_resume(run, loaded.records, drop, app.prices, accepts=gives_more)
        options = with_budget(run.options, **budget, usage=usage or None)
        answer = await app.ask(Resume(id=id, status=run.status, last_seq=last, drop=drop, again=again, options=options))
        if isinstance(answer, Done):
            app._wake(answer)
            run.status = Status.PENDING
            return Run(app, run)
    raise NotResumable(f"run {id} changed each time it was to be resumed; look at it again: outlast show {id}")


async def _check_children(app: Client, loaded: Loaded, cause: Record | None, drop: tuple[int, ...]) -> None:
    """Refuse to resume a run before the children that ended it, or with it: it would end the same way at once."""
    run = loaded.run
    children = await app._read(lambda: app.store.runs(RunFilter(parent=run.pk), limit=10_000))
    for child in children_first(cause, drop, loaded.records, children):
        how = (
            f"failed through its child {child.id}"
            if cause is not None and child.parent_key == cause.key
            else f"waits for its child {child.id}"
        )
        theirs = await app._read(app.store.load, [child.pk])
        if lost := "".join(why_lost(child, loaded.records) or "" for loaded in theirs):
            fork = command_of(fork_words(run, loaded.records, child.parent_key))
            raise NotResumable(
                f"run {run.id} {how}, which is {child.status.value} and cannot be taken up again ({lost}). Start a new "
                f"course instead: {fork}"
            )
        raise NotResumable(
            f"run {run.id} {how}, which is {child.status.value}; resume that one first, "
            f"then this one: outlast resume {child.id}; outlast resume {run.id}"
        )
    heard = {r.key for r in loaded.records if r.kind in (Kind.CHILD, Kind.LATE)}
    was_cancelled = run.status is Status.CANCELLED or (cause is not None and cause.kind is Kind.CANCEL)
    for child in children:
        if child.status in ENDED or child.parent_key in heard or not was_cancelled:
            continue
        now = await app._read(app.store.load, [child.pk])
        if any(Kind.CANCEL in {*(r.kind for r in it.records), *(r.kind for r in it.inbox)} for it in now):
            raise NotResumable(
                f"run {run.id} was cancelled together with its child {child.id}, which is ending; wait for that, then "
                f"resume both: outlast resume {child.id}; outlast resume {run.id}"
            )


# -- resolve ----------------------------------------------------------------------------


async def resolve(app: Client, id: str, step: str, decision: Any, attempt: int | None, by: str) -> None:
    """Record a person's decision for the attempt that is in doubt."""
    check_text("app.resolve", "step", step, MAX_TEXT_BYTES, empty=False)
    check_kind("app.resolve", "by", by, str, "a str")
    if attempt is not None:
        check_whole("app.resolve", "attempt", attempt)
    if not (isinstance(decision, (Happened, DidNotHappen)) or decision == "fail"):
        raise WrongUse(f"a decision is Happened(value), DidNotHappen() or 'fail', not {quoted(decision)}")
    loaded = await _load(app, id)
    run = loaded.run
    undecided = undecided_intents(loaded.records)
    found = _named(step, undecided)
    decided = _named(step, [r for r in loaded.records if r.kind is Kind.RESOLUTION])
    again = [r for r in decided if attempt in (None, r.attempt)]
    if again and (attempt is not None or not found):
        found, attempt = (
            again[-1:],
            again[-1].attempt,
        )  # decided before: the store knows whether this is the same decision
    if len(found) != 1:
        names = ", ".join(f"'{r.key}' (attempt {r.attempt})" for r in undecided) or "none"
        raise NotResumable(
            f"run {id} ({run.status.value}) has {'no' if not found else 'more than one'} step {step!r} in doubt; "
            f"in doubt: {names}"
        )
    intent = found[0]
    if attempt is not None and attempt != intent.attempt:
        raise NotResumable(
            f"run {id}: attempt {attempt} of step {intent.key} is not in doubt; attempt {intent.attempt} is. A "
            "decision holds for its attempt only"
        )
    word, value = "fail", None
    if isinstance(decision, Happened):
        word, value = "happened", app.codec.encode(decision.value)
    elif isinstance(decision, DidNotHappen):
        word = "did_not_happen"
    answer = await app.ask(
        Resolve(id=id, key=intent.key, attempt=intent.attempt, decision=word, value=value, by=keepable(by))
    )
    if isinstance(answer, Refused):
        raise NotResumable(f"run {id}, step {intent.key}: {answer.why}")
    app._wake(answer)


def _named(step: str, records: list[Record]) -> list[Record]:
    """Return the records of a step, which is given by its identity or by its name."""
    return [r for r in records if r.key == step] or [r for r in records if r.name == step]


# -- fork -------------------------------------------------------------------------------


async def fork(app: Client, id: str, step: str, new_id: str | None, repeat_once: bool) -> Run[Any]:
    """Copy what was recorded before the step into a new run."""
    check_text("app.fork", "step", step, MAX_TEXT_BYTES, empty=False)
    check_flag("app.fork", "repeat_once", repeat_once)
    if new_id is not None:
        check_run_id(new_id)
    loaded = await _load(app, id)
    run, records = loaded.run, loaded.records
    plan = plan_fork(run, records, step)
    if plan.again is not None and not repeat_once:
        what = (
            "start child {} again, with all its steps, `once` steps too"
            if plan.again.kind is Kind.START
            else "do step {} again, which has effect 'once'"
        )
        raise NotResumable(
            f"a fork of run {id} at {shown(plan.at)} would {what.format(plan.again.key)}; the original has begun it. "
            "Say that this is wanted: --repeat-once (in Python: repeat_once=True)"
        )
    if run.status not in (*ENDED, Status.STUCK) and not repeat_once:
        raise NotResumable(
            f"run {id} has not ended ({run.status.value}), so it and its fork would both go on, and each do the `once` "
            f"steps that come. Wait for its end, or cancel it: outlast cancel {id}. Or say that this is wanted: "
            "--repeat-once (in Python: repeat_once=True)"
        )
    row = RunRow(
        pk=0,
        id=new_id if new_id is not None else f"{id[:230]}.fork-{os.urandom(4).hex()}",
        incarnation=os.urandom(16).hex(),
        workflow=run.workflow,
        definition=run.definition,
        is_step=run.is_step,
        input=run.input,
        options=with_budget(run.options, usage=in_fork(run.options) or None),
        queue=run.queue,
        queue_key=run.queue_key,
        priority=run.priority,
        version=app.version,
        python=run.python,
        forks=stretches(run, max(plan.keep, default=0)),
    )
    answer = await app.ask(ForkRun(source=run.pk, keep=plan.keep, run=row))
    if isinstance(answer, Conflict) and _is_same_fork(answer.run, row):
        return Run(app, answer.run)  # asked for before, and the answer was not seen
    if isinstance(answer, Conflict):
        raise RunConflict(f"run {row.id!r} exists already, so nothing was forked; give the fork another id")
    if not isinstance(answer, Started):
        raise StoreUnavailable(f"run {id} could not be forked: {getattr(answer, 'why', answer)}")
    app._wake(Done(woke=(answer.run.pk,)))
    return Run(app, answer.run)


def _is_same_fork(known: RunRow, row: RunRow) -> bool:
    """Whether a run was made by the same fork: of the same part of the same run."""
    return (known.forks, known.workflow, known.input) == (row.forks, row.workflow, row.input)
