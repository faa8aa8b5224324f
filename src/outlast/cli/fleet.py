"""The workers of a store, together: who is alive, what each holds, and how long runs that are due wait for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from outlast.cli.wording import counted
from outlast.core.records import QueueState, RunRow
from outlast.runtime.held_up import why_queued
from outlast.runtime.seen import SeenWorker, seen_workers
from outlast.stores.protocol import Store


@dataclass(frozen=True, slots=True)
class Member:
    """A worker. `runs` is how many it holds, `since_beat_s` the time since it last renewed its lease.

    `lease_s` is how long a lease it takes, None where that cannot be told.
    """

    seen: SeenWorker
    runs: int
    since_beat_s: float | None
    lease_s: float | None


@dataclass(frozen=True, slots=True)
class Fleet:
    """All workers that a store knows, newest first."""

    members: list[Member]

    @property
    def workers(self) -> list[SeenWorker]:
        """Return the workers without what they hold."""
        return [member.seen for member in self.members]

    @property
    def alive(self) -> list[Member]:
        """Return those that execute runs, as far as can be seen."""
        return [member for member in self.members if member.seen.alive]

    @property
    def hosts(self) -> int:
        """Return on how many machines living workers are."""
        return len({member.seen.row.host for member in self.alive})

    def without(self, worker: str) -> Fleet:
        """Return the others."""
        return Fleet([member for member in self.members if member.seen.row.id != worker])

    def versions(self) -> Counter[str]:
        """Return how many living workers there are of each version of the code."""
        return Counter(member.seen.row.version for member in self.alive)

    def at_odds(self) -> list[tuple[list[str], Counter[str]]]:
        """Return the workflows that living workers of several versions serve, each list with how many of each.

        Workers that have no workflow in common are programs of their own, whose versions say nothing of each other.
        """
        serving: dict[str, Counter[str]] = {}
        for member in self.alive:
            for name in member.seen.row.serves or ():
                serving.setdefault(name, Counter())[member.seen.row.version] += 1
        alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
        for name in sorted(serving):
            if len(serving[name]) > 1:
                alike.setdefault(tuple(sorted(serving[name].items())), []).append(name)
        return [(names, Counter(dict(versions))) for versions, names in alike.items()]


@dataclass(frozen=True, slots=True)
class Lag:
    """The runs of a workflow that are due and that nobody has claimed: how many, and how long the oldest has waited."""

    workflow: str
    runs: int
    oldest: str
    waits_s: float


@dataclass(frozen=True, slots=True)
class Queued:
    """The runs that are due and that their queue lets wait: how many, how long the oldest has waited, and why."""

    queue: str
    why: str
    runs: int
    oldest: str
    waits_s: float


def fleet_of(store: Store) -> Fleet:
    """Return the workers of a store. Blocking."""
    seen, owners, now = seen_workers(store), store.owners(), store.now()
    return Fleet([_member(worker, owners.get(worker.row.id, 0), now) for worker in seen])


def _member(worker: SeenWorker, runs: int, now: float) -> Member:
    since = max(0.0, now - worker.row.beat) if worker.row.beat else None
    left = worker.lease_left_s
    lease = None if since is None or left is None else round(since + left, 1)
    return Member(worker, runs, since, lease if lease and lease > 0 else None)


def lags_of(due: Iterable[RunRow], now: float, store: Store, *, all_seen: bool) -> list[Lag]:
    """Return the lag of each workflow that has runs which are due, longest first.

    A run on a queue waits for its turn, which is no worker's lag: `queued_of` tells of it. Where not `all_seen` of
    the due runs are given, the store is asked what the oldest of each workflow is due since.
    """
    by_workflow: dict[str, list[RunRow]] = {}
    for run in (run for run in due if not run.queue):
        by_workflow.setdefault(run.workflow, []).append(run)
    lags = []
    for workflow, runs in by_workflow.items():
        oldest = min(runs, key=lambda run: run.due or 0.0)
        name, since = oldest.id, oldest.due or now
        if not all_seen and (first := store.next_due((workflow,))) is not None and first < since:
            name, since = "", first  # it is none of those that were looked at
        lags.append(Lag(workflow, len(runs), name, max(0.0, now - since)))
    return sorted(lags, key=lambda lag: (-lag.waits_s, lag.workflow))


def queued_of(due: Iterable[RunRow], queues: dict[str, QueueState], now: float) -> list[Queued]:
    """Return what waits on queues, for each queue and reason, longest first."""
    by_reason: dict[tuple[str, str], list[RunRow]] = {}
    for run in due:
        if why := why_queued(run, queues):
            by_reason.setdefault((run.queue, why), []).append(run)
    found = []
    for (queue, why), runs in by_reason.items():
        oldest = min(runs, key=lambda run: run.due or 0.0)
        found.append(Queued(queue, why, len(runs), oldest.id, max(0.0, now - (oldest.due or now))))
    return sorted(found, key=lambda queued: (-queued.waits_s, queued.queue))


def versions_text(versions: Counter[str]) -> str:
    """Return `v2 (3 workers), v1 (1 worker)`, most workers first."""
    return ", ".join(
        f"{version or 'not given'} ({counted(number, 'worker')})" for version, number in versions.most_common()
    )
