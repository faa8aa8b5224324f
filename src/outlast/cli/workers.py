"""What a store and the kernel say of the workers."""

from __future__ import annotations

from dataclasses import dataclass

from outlast.core.records import WorkerRow, WorkerState
from outlast.runtime.app import App
from outlast.runtime.liveness import Alive, probe


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A worker as far as can be seen from here. `condition` is `alive`, `expired`, `dead` or `gone`.

    `lease_left_s` is None where its lease cannot be read here (another start of the machine).
    """

    row: WorkerRow
    condition: str
    lease_left_s: float | None

    @property
    def alive(self) -> bool:
        """Whether it executes runs, as far as can be seen."""
        return self.condition == "alive"


def seen_workers(app: App) -> list[SeenWorker]:
    """Return all workers that the store knows, newest first. Blocking."""
    boot, lease_now = app.clock.boot_id(), app.store.lease_now()
    return [_seen(row, boot, lease_now) for row in app.store.workers()]


def living_workers(app: App) -> list[SeenWorker]:
    """Return the workers that are alive. Blocking."""
    return [worker for worker in seen_workers(app) if worker.alive]


def _seen(row: WorkerRow, boot: str, lease_now: float) -> SeenWorker:
    if row.state is not WorkerState.ALIVE:
        return SeenWorker(row, row.state.value, None)
    if row.boot != boot:
        return SeenWorker(row, "dead", None)  # from before this machine's last start, or of another machine's file
    left = row.lease_until - lease_now
    if probe(row, boot) is Alive.NO:
        return SeenWorker(row, "dead", left)
    return SeenWorker(row, "alive" if left > 0 else "expired", left)
