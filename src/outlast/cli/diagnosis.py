"""What is wrong in a store: what needs a person, and what mends itself. `outlast doctor` shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from outlast.cli.advice import advice_for, why_stuck
from outlast.cli.opening import Where
from outlast.cli.wording import counted, lasted
from outlast.core.errors import OutlastError
from outlast.core.records import Record, RunRow
from outlast.core.transitions import Status
from outlast.runtime.app import App
from outlast.runtime.seen import SeenWorker, if_renamed, seen_workers, why_nobody
from outlast.stores.protocol import RunFilter, StoreInfo

OVERDUE_S = 5.0
"""A run that has been due for longer is noticed where a worker lives for it, which claims in a fraction of a second.

Where none does, every run that is due is.
"""

PAGE = 200
MOST_RUNS = 10_000
MOST_SHOWN = 20


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
    workers: list[SeenWorker]
    oldest_running: RunRow | None
    findings: list[Finding]
    now: float
    looked_at_all: bool = True

    @property
    def needs_person(self) -> bool:
        """Whether anything does not mend itself."""
        return any(finding.needs_person for finding in self.findings)


def diagnose(app: App, where: Where, *, check: bool) -> Diagnosis:
    """Look at the store of an open App. Blocking. It only reads, so it works while somebody holds the write lock."""
    store = app.store
    found = Diagnosis(store.info(), seen_workers(store), None, [], store.now())
    found.findings += _write_lock(found.info)
    running = _runs(app, found, Status.RUNNING)
    found.oldest_running = min(running, key=lambda run: run.started or run.created, default=None)
    found.findings += _stuck(app, found, where)
    found.findings += _overdue(_runs(app, found, Status.PENDING, Status.WAITING), found, where)
    found.findings += _dead_workers(running, found, store.orphans(), where)
    if check:
        for problem in store.check():
            what = f"the store's content is damaged: {problem}"
            found.findings.append(Finding(what, ["keep a copy of the file, and restore a good one"]))
    return found


def _runs(app: App, found: Diagnosis, *statuses: Status) -> list[RunRow]:
    """Return the runs of these statuses, newest first, at most MOST_RUNS."""

    def pages() -> Iterator[RunRow]:
        before = None
        while True:
            page = app.store.runs(RunFilter(statuses=statuses), limit=PAGE, before=before)
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
        yield Finding(what, advice_for(run, _records(app, run), where), runs=[run.id])


def _records(app: App, run: RunRow) -> list[Record]:
    try:
        return app.store.records(run.pk)
    except (OutlastError, ValueError):  # a row that cannot be read spoils one line of advice, not the report
        return []


def _overdue(runs: list[RunRow], found: Diagnosis, where: Where) -> Iterator[Finding]:
    """Yield a finding for each workflow whose due runs nobody claims."""

    def late(run: RunRow) -> bool:
        patience = 0.0 if why_nobody(found.workers, run.workflow) else OVERDUE_S
        return run.due is not None and run.due <= found.now - patience

    overdue = [run for run in runs if late(run)]
    for workflow, number in Counter(run.workflow for run in overdue).most_common():
        mine = [run for run in overdue if run.workflow == workflow]
        oldest = min(mine, key=lambda run: run.due or 0.0)
        age = lasted(found.now - (oldest.due or found.now))
        what = f"{counted(number, 'run')} of {workflow} due and not claimed, {oldest.id} since {age}"
        ids = [run.id for run in mine]
        if why := why_nobody(found.workers, workflow):
            places = dict.fromkeys(where.worker_for(run) for run in mine)
            do = ["start a worker, where its code is:", *(f"  {place}" for place in places)]
            if hint := if_renamed(found.workers, workflow):
                do.append(f"or: {hint}")
            yield Finding(f"{what}: {why}", do, runs=ids)
        else:
            yield Finding(f"{what}: the workers that know it are full", [], needs_person=False, runs=ids)


def _dead_workers(running: list[RunRow], found: Diagnosis, orphans: list[str], where: Where) -> Iterator[Finding]:
    """Yield a finding for each owner of runs that is no living worker."""
    conditions = {worker.row.id: worker.condition for worker in found.workers}
    owned = Counter(run.owner for run in running)
    for owner in sorted({worker.row.id for worker in found.workers if not worker.alive} | set(orphans)):
        if not owned[owner]:
            continue
        condition = conditions.get(owner, "unknown to the store")
        what = f"worker {owner} is {condition} and holds {counted(owned[owner], 'run')}"
        mine = [run for run in running if run.owner == owner]
        ids = [run.id for run in mine]
        if any(worker.alive for worker in found.workers):
            yield Finding(f"{what}; a living worker takes them over", [], needs_person=False, runs=ids)
        else:
            places = dict.fromkeys(where.worker_for(run) for run in mine)
            what = f"{what}, and no worker is alive to take them over"
            yield Finding(what, ["start one, where its code is:", *(f"  {place}" for place in places)], runs=ids)
