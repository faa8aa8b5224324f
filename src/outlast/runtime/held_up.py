"""Why a run that is due waits though workers may be free: it is held back, or its queue has not let it begin.

And why a run had not begun by its deadline. For people; nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from outlast.core.deadlines import moment
from outlast.core.records import QueueState, RunRow
from outlast.core.transitions import Status
from outlast.runtime.seen import SeenWorker, why_nobody
from outlast.stores.protocol import Store

EVERY_KEY = 1 << 30


def queue_states(store: Store, runs: Iterable[RunRow]) -> dict[str, QueueState]:
    """Return how the queues stand, by name; without a look where none of the runs is on one. Blocking."""
    if not any(run.queue for run in runs):
        return {}
    return {state.row.name: state for state in store.queues(EVERY_KEY)}


def why_queued(run: RunRow, queues: dict[str, QueueState]) -> str:
    """Return what keeps a run on its queue just now; nothing where that is free, or there is none."""
    state = queues.get(run.queue)
    if state is None:
        return ""
    row, limits, what = state.row, state.row.limits, f"queue {run.queue}"
    if row.paused is not None:
        return f"{what} is paused" + (f" by {row.paused_by}" if row.paused_by else "")
    if limits.concurrency is not None and state.running >= limits.concurrency:
        return f"{what} is at its limit of {limits.concurrency}"
    if limits.per_key is not None and state.keys.get(run.queue_key, (0, 0))[1] >= limits.per_key:
        whose = f"key {run.queue_key!r}" if run.queue_key else "runs without a key"
        return f"{what} is at its limit of {limits.per_key} for {whose}"
    if limits.rate is not None and run.started is None and state.begun >= limits.rate:
        return f"{what} is at its rate of {limits.rate} in {limits.per:g} s"
    if limits.per_worker is not None and state.running >= limits.per_worker:
        return f"{what} is at its limit of {limits.per_worker} per worker"
    return ""


def why_held_up(run: RunRow, queues: dict[str, QueueState], now: float) -> str:
    """Return why nobody may begin a run that is due, whoever is free for it; nothing where somebody may."""
    if run.status not in (Status.PENDING, Status.WAITING):
        return ""
    if run.held:
        return f"it is held back, until: outlast release {run.id}"
    return why_queued(run, queues) if run.due is not None and run.due <= now else ""


def why_not_begun(run: RunRow, queues: dict[str, QueueState], workers: Sequence[SeenWorker]) -> str:
    """Return why a run that is overdue had not begun by its deadline, as things stand now."""
    if run.held:
        return "it was held back"
    if run.due is not None and run.deadline is not None and run.due >= run.deadline:
        return f"it was put off until {moment(run.due).isoformat(timespec='milliseconds')}"
    return why_queued(run, queues) or why_nobody(workers, run.workflow) or "no worker was free for it"
