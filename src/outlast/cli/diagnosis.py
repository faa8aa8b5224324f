"""What is wrong in a store: what needs a person, and what mends itself. `outlast doctor` shows it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from outlast.cli.advice import advice_for, why_stuck
from outlast.cli.fleet import Fleet, Lag, Queued, fleet_of, lags_of, queued_of, versions_text
from outlast.cli.opening import Where
from outlast.cli.outboxes import SeenOutbox, look_at
from outlast.cli.stranded import early, held_back, standing_still, stranded
from outlast.cli.wording import counted, lasted
from outlast.core.errors import OutlastError
from outlast.core.records import QueueState, Record, RunRow
from outlast.core.transitions import ENDED, Status
from outlast.runtime.app import App
from outlast.runtime.clock import SystemClock
from outlast.runtime.held_up import queue_states, why_queued
from outlast.runtime.registry import STEP_PREFIX
from outlast.runtime.seen import if_renamed, still_executes, why_nobody
from outlast.stores.databases.source import Source
from outlast.stores.protocol import RunFilter, StoreInfo

OVERDUE_S = 5.0
"""A run that has been due for longer is noticed where a worker lives for it, which claims in a fraction of a second.

Where none does, every run that is due is.
"""

PAGE = 200
MOST_RUNS = 10_000
MOST_SHOWN = 20
MOST_RENAMED = 3  # workflows that nobody knows, for which a new name is suggested; more are a program of their own


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. `needs_person`: it does not mend itself."""

    what: str
    do: list[str]
    needs_person: bool = True
    runs: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Diagnosis:
    """What a look at the whole store found."""

    info: StoreInfo
    fleet: Fleet
    oldest_running: RunRow | None
    findings: list[Finding]
    now: float
    lags: list[Lag] = field(default_factory=list)
    queued: list[Queued] = field(default_factory=list)
    outboxes: list[SeenOutbox] = field(default_factory=list)
    looked_at_all: bool = True

    @property
    def needs_person(self) -> bool:
        """Whether anything does not mend itself."""
        return any(finding.needs_person for finding in self.findings)


async def diagnose(app: App, where: Where, outboxes: Sequence[Source], *, check: bool) -> Diagnosis:
    """Look at the store of an open App and at outboxes. It only reads, so that it works beside a write lock."""
    found = await asyncio.to_thread(_diagnose_store, app, where, check=check)
    found.outboxes = await look_at(outboxes)
    found.findings += [Finding(*said[:2], runs=said[2]) for each in found.outboxes if (said := each.finding())]
    return found


def _diagnose_store(app: App, where: Where, *, check: bool) -> Diagnosis:
    store = app.store
    found = Diagnosis(store.info(), fleet_of(store), None, [], store.now())
    found.findings += _write_lock(found.info)
    running = _runs(app, found, Status.RUNNING)
    found.oldest_running = min(running, key=lambda run: run.started or run.created, default=None)
    found.findings += _stuck(app, found, where)
    due = _runs(app, found, Status.PENDING, Status.WAITING, due_before=found.now, held=False)
    found.lags = lags_of(due, found.now, store, all_seen=len(due) < MOST_RUNS)
    names = {run.workflow for run in due}
    unserved = {name for name in names if why_nobody(found.fleet.workers, name)}
    queues = queue_states(store, due)
    found.queued = queued_of(due, queues, found.now)
    orphans = store.orphans()
    dead = list(_facts_of_dead(running, found, orphans))
    left = [] if found.fleet.alive else [run for _, runs in dead for run in runs]
    found.findings += _missing([run for run in due if run.workflow in unserved], left, orphans, found, where)
    found.findings += _crowded([run for run in due if run.workflow not in unserved], queues, found.now, where)
    for fact, runs in dead if found.fleet.alive else ():
        what = f"{fact}; a living worker takes them over"
        found.findings.append(Finding(what, [], needs_person=False, runs=[run.id for run in runs]))
    known = {run.pk for run in due}
    waiting = [run for run in _runs(app, found, Status.PENDING, Status.WAITING, held=False) if run.pk not in known]
    held = _runs(app, found, *(status for status in Status if status not in ENDED), held=True)
    found.findings += [
        Finding(what, do, runs=ids) for what, do, ids in stranded(waiting, found.fleet, found.now, where)
    ]
    found.findings += [Finding(what, do, needs_person=False, runs=ids) for what, do, ids in held_back(held, where)]
    found.findings += [Finding(*said) for said in standing_still(store.schedules(), found.fleet, found.now, where)]
    for what, do, ids in early(store.early(limit=MOST_RUNS), found.now, MOST_RUNS):
        found.findings.append(Finding(what, do, needs_person=False, runs=ids))
    found.findings += _held_up(found.fleet)
    found.findings += _versions(found.fleet)
    if check:
        for problem in store.check():
            what = f"the store's content is damaged: {problem}"
            found.findings.append(Finding(what, ["keep a copy of the file, and restore a good one"]))
    return found


def _runs(
    app: App, found: Diagnosis, *statuses: Status, due_before: float | None = None, held: bool | None = None
) -> list[RunRow]:
    """Return the runs of these statuses, newest first, at most MOST_RUNS."""

    wanted = RunFilter(statuses=statuses, due_before=due_before, held=held)

    def pages() -> Iterator[RunRow]:
        before = None
        while True:
            page = app.store.runs(wanted, limit=PAGE, before=before)
            for run in page:
                run.input, run.result, run.error = b"", None, None  # they can be large, and are not looked at
                yield run
            if len(page) < PAGE:
                return
            before = page[-1].pk

    runs = list(islice(pages(), MOST_RUNS + 1))
    if len(runs) > MOST_RUNS:
        found.looked_at_all = False
    return runs[:MOST_RUNS]


def _write_lock(info: StoreInfo) -> Iterator[Finding]:
    holder = str(info.details.get("write_lock") or "")
    if "is stopped" in holder:
        yield Finding(f"nothing can be written: {holder}", ["let that process go on, or end it"])
    if info.details.get("read_only"):
        what = f"{info.location} cannot be written from here"
        yield Finding(what, ["give this user the right to write it and its folder"])


def _stuck(app: App, found: Diagnosis, where: Where) -> Iterator[Finding]:
    for run in _runs(app, found, Status.STUCK):
        what = f"run {run.id} ({run.workflow}) is stuck: {why_stuck(run)}"
        yield Finding(what, advice_for(run, _records(app, run), where, (), found.fleet.workers), runs=[run.id])


def _records(app: App, run: RunRow) -> list[Record]:
    try:
        return app.store.records(run.pk)
    except (OutlastError, ValueError):  # a row that cannot be read spoils one line of advice, not the report
        return []


def _crowded(due: list[RunRow], queues: dict[str, QueueState], now: float, where: Where) -> Iterator[Finding]:
    """Yield a finding for each workflow, and each reason, whose due runs nobody claims although living workers may."""
    by_reason: dict[tuple[str, str], list[RunRow]] = {}
    for run in due:
        if run.due is not None and run.due <= now - OVERDUE_S:
            why = why_queued(run, queues)
            paused = run.queue if why and queues[run.queue].row.paused is not None else ""
            by_reason.setdefault((why or "the workers that know it are full", paused), []).append(run)
    for (why, paused), overdue in by_reason.items():
        do = ["go on with it, when it is time:", f"  {where.command('queues', '--resume', paused)}"] if paused else []
        for fact, runs in _facts_of_due(overdue, now):
            yield Finding(f"{fact}: {why}", do, needs_person=False, runs=[run.id for run in runs])


def _facts_of_due(due: list[RunRow], now: float) -> Iterator[tuple[str, list[RunRow]]]:
    """Yield a line for each workflow, most runs first, and its runs."""
    for workflow, number in Counter(run.workflow for run in due).most_common():
        mine = [run for run in due if run.workflow == workflow]
        oldest = min(mine, key=lambda run: run.due or 0.0)
        age = lasted(now - (oldest.due or now))
        yield f"{counted(number, 'run')} of {workflow} due and not claimed, {oldest.id} since {age}", mine


def _facts_of_dead(running: list[RunRow], found: Diagnosis, orphans: list[str]) -> Iterator[tuple[str, list[RunRow]]]:
    """Yield a line for each owner of runs that is no living worker, and its runs."""
    conditions = {worker.row.id: worker.condition for worker in found.fleet.workers}
    alive = {worker.row.id for worker in found.fleet.workers if worker.alive}
    for owner in sorted((conditions.keys() | set(orphans)) - alive):
        if mine := [run for run in running if run.owner == owner]:
            condition = conditions.get(owner, "unknown to the store")
            yield f"worker {owner} is {condition} and holds {counted(len(mine), 'run')}", mine


def _missing(
    due: list[RunRow], left: list[RunRow], orphans: list[str], found: Diagnosis, where: Where
) -> Iterator[Finding]:
    """Yield a finding for each worker that is missing, which is each command that would start one.

    `due` are runs that no living worker knows, `left` those of dead workers whom nobody is there to take over.
    """
    by_command: dict[str, list[RunRow]] = {}
    for run in [*due, *left]:
        by_command.setdefault(where.worker_for(run), []).append(run)
    for command, runs in sorted(by_command.items(), key=lambda item: -len(item[1])):
        waiting = [run for run in runs if run.owner is None]
        facts = [fact for fact, _ in _facts_of_due(waiting, found.now)]
        facts += [fact for fact, _ in _facts_of_dead(runs, found, orphans)]
        names = sorted({run.workflow for run in waiting})
        why = f"no living worker knows {', '.join(names)}" if found.fleet.alive else "no worker is alive"
        what = f"{facts[0]}: {why}" if len(facts) == 1 else "\n  ".join([f"{why}:", *facts])
        hints = [hint for name in names if (hint := if_renamed(found.fleet.workers, name))]
        renamed = [f"or: {hint}" for hint in hints] if len(hints) <= MOST_RENAMED else []
        do = ["start a worker, where its code is:", f"  {command}"]
        if found.fleet.alive:
            do += ["or have another workflow take them:", *(f"  {where.command('move', n, 'NEW')}" for n in names)]
        do += renamed
        yield Finding(what, do, runs=[run.id for run in runs])


def _held_up(fleet: Fleet) -> Iterator[Finding]:
    """Yield a finding for each process that lost its lease, and still executes what somebody may have to wait for."""
    boot_id = SystemClock().boot_id()
    for worker in fleet.workers:
        if still_executes(worker, boot_id):
            row = worker.row
            what = (
                f"process {row.pid} on host {row.host} still lives though the lease of its worker {row.id} has ended, "
                "and it executes a `once` step: frozen? A run that is in doubt about it waits until that has ended"
            )
            yield Finding(what, ["let it go on, or end it:", f"  kill -CONT {row.pid}", f"  kill -KILL {row.pid}"])


def _versions(fleet: Fleet) -> Iterator[Finding]:
    """Yield a finding for workflows that several versions of the code serve at once, as while a deploy rolls."""
    for names, versions in fleet.at_odds():
        shown = ", ".join(name for name in names if not name.startswith(STEP_PREFIX)) or ", ".join(names)
        what = f"{len(versions)} versions of the code serve {shown}: {versions_text(versions)}; a deploy that rolls?"
        yield Finding(what, [], needs_person=False)
