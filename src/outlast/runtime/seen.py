"""What a store and the kernel say of the workers, and of a run that none of them executes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from math import inf

import msgspec

from outlast.core.records import RunRow, WorkerRow, WorkerState
from outlast.core.schedule_rows import ScheduleRow
from outlast.core.transitions import Status
from outlast.runtime.awaited import detail_of
from outlast.runtime.liveness import Alive, last_sent, probe
from outlast.stores.open import shown
from outlast.stores.protocol import Store


class SeenWorker(msgspec.Struct, frozen=True):
    """A worker as far as can be seen from here. `condition` is `alive`, `disconnected`, `expired`, `dead` or `gone`.

    `lease_left_s` is None where its lease cannot be read here (another start of the machine). `process` is what the
    kernel says of its process.
    """

    row: WorkerRow
    condition: str
    lease_left_s: float | None
    process: Alive = Alive.UNKNOWN

    @property
    def alive(self) -> bool:
        """Whether it executes runs, as far as can be seen."""
        return self.condition == "alive"

    def may_serve(self, workflow: str) -> bool:
        """Tell whether it executes runs of this name, or has not said what it executes."""
        return self.alive and (self.row.serves is None or workflow in self.row.serves)


def seen_workers(store: Store) -> list[SeenWorker]:
    """Return all workers that the store knows, newest first. Blocking."""
    epoch, lease_now, cut_off = store.lease_epoch(), store.lease_now(), store.cut_off()
    return [_seen(row, epoch, lease_now, row.id in cut_off) for row in store.workers()]


def _seen(row: WorkerRow, epoch: str, lease_now: float, cut_off: bool) -> SeenWorker:
    process = Alive.NO if row.state is WorkerState.GONE else probe(row, epoch)
    if row.state is not WorkerState.ALIVE:
        return SeenWorker(row, row.state.value, None, process)
    if row.boot != epoch:
        return SeenWorker(row, "dead", None)  # from before this machine's last start, or of another machine's file
    left = row.lease_until - lease_now
    if process is Alive.NO:
        return SeenWorker(row, "dead", left, process)
    return SeenWorker(row, "expired" if left <= 0 else "disconnected" if cut_off else "alive", left, process)


def still_executes(worker: SeenWorker, boot_id: str) -> bool:
    """Tell whether a worker's lease has ended, and its process lives and executes a `once` step in a thread."""
    return (
        worker.row.state is WorkerState.EXPIRED
        and worker.process is Alive.YES
        and last_sent(worker.row, boot_id) == inf
    )


def why_nobody(workers: Sequence[SeenWorker], workflow: str) -> str:
    """Return why no worker executes runs of this name, or nothing where one does, or may."""
    if any(worker.may_serve(workflow) for worker in workers):
        return ""
    alive = any(worker.alive for worker in workers)
    return f"no living worker knows {workflow}" if alive else "no worker is alive"


def why_idle(run: RunRow, workers: Sequence[SeenWorker], now: float) -> str:
    """Return why nobody executes a run that is due, or whose worker is gone; nothing where somebody does, or may.

    A run that waits for a time to come is nobody's, too, where no worker is alive to see it come. `now` is the
    store's time.
    """
    why = why_nobody(workers, run.workflow)
    if run.status is Status.RUNNING:
        owner = next((worker for worker in workers if worker.row.id == run.owner), None)
        if why and (owner is None or not owner.alive):
            return f"its worker is {owner.condition if owner is not None else 'unknown to the store'}, and {why}"
        return ""
    if run.status not in (Status.PENDING, Status.WAITING):
        return ""
    if run.due is None or run.due > now:  # it waits for a time, a child or a person
        return "" if any(worker.alive for worker in workers) else why
    return why


def if_renamed(workers: Sequence[SeenWorker], workflow: str) -> str:
    """Return what to do if the workflow has another name now; nothing where that cannot be the trouble."""
    if not any(worker.alive for worker in workers) or not why_nobody(workers, workflow):
        return ""
    noun, name = ("step", workflow[5:]) if workflow.startswith("step:") else ("workflow", workflow)
    return f"renamed? give the new one the old name: @{noun}(name={name!r})"


def worker_command(run: RunRow, url: str) -> str:
    """Return what starts a worker for a run's code: a command, to be typed beside that code."""
    if url.startswith("memory:"):
        return "App(worker=True) in this process"
    return shlex.join(["outlast", "worker", code_of(run), "--url", shown(url)])


def start_one(run: RunRow, workers: Sequence[SeenWorker], command: str) -> str:
    """Return the end of a sentence that says why nobody executes a run: what to do."""
    hint = if_renamed(workers, run.workflow)
    return f"start one: {command}" + (f" ({hint})" if hint else "")


def code_of(of: RunRow | ScheduleRow) -> str:
    """Return the module that the workflow was defined in, as `outlast worker` takes it; CODE if nobody knows."""
    return of.definition.partition(":")[0] or "CODE"


def standing(run: RunRow, workers: Sequence[SeenWorker], command: str, held_up: str = "") -> str:
    """Say how a run stands: its status, what it waits for or who executes it, and what to do where nobody does.

    `held_up` says why nobody may begin it now, whoever is free.
    """
    says = (
        run.status.value
        + (f": {detail}" if (detail := detail_of(run)) else "")
        + (f", and {held_up}" if held_up else "")
    )
    owner = next((worker for worker in workers if worker.row.id == run.owner), None)
    if owner is not None and owner.alive:
        return f"{says} on worker {owner.row.id}"
    why = why_nobody(workers, run.workflow)
    if owner is not None and why:
        return f"{says}, its worker is {owner.condition}, and {why}; {start_one(run, workers, command)}"
    if run.status in (Status.PENDING, Status.WAITING) and why:
        return f"{says}, and {why}; {start_one(run, workers, command)}"
    return says
