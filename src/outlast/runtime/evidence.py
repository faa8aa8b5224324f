"""What can be known of a `once` attempt without a certain outcome: who made it, and since when it sends nothing more.

An attempt can send nothing more once

- its code has returned, and the process that executed it has seen that, or
- its worker's process is known to be gone, or
- its worker's lease has ended, the attempt's own deadline has passed, and its worker's lock file, where there is one to
  ask, says that no thread of the process executes a `once` step any more.

That it did not happen is believed `settle` seconds after that. Each of these is measured twice: by the wall clock,
which all that is recorded goes by, and by the clock of leases, since the wall clock may be set at any time.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from outlast.core.certainty import NOT_RECORDED
from outlast.core.identity import derive
from outlast.core.records import WorkerRow, WorkerState
from outlast.runtime.attempts import Attempt, runs_in_a_thread
from outlast.runtime.liveness import Alive, last_sent, probe

if TYPE_CHECKING:
    from outlast.core.pending import Pending
    from outlast.runtime.worker import Worker

COMMIT_ALLOWANCE_S = 1.0
"""What the commit of an intent may take without shortening its attempt."""


class Silence(NamedTuple):
    """Since when an attempt can send nothing more, and from when on it is believed that it did not happen.

    Both are times of the store, and None where that is not known yet; then `waits_for` says what has to happen.
    `soon`: the store is about to know. `only_here`: only this process can tell.
    """

    since: float | None
    believable: float | None
    waits_for: str
    soon: bool = False
    only_here: bool = False


class Evidence:
    """What this worker can find out about one attempt in doubt."""

    def __init__(self, worker: Worker, incarnation: str, pending: Pending) -> None:
        assert pending.intent is not None
        self._worker = worker
        self._intent = pending.intent
        self._settings = pending.call.settings
        self._token = derive(incarnation, "step", pending.key)
        self._name = (self._token, self._intent.attempt)
        self._ran = False  # when last looked at, its code still ran here

    @property
    def runs_here(self) -> bool:
        """Whether its code still runs in this process, whatever became of its run."""
        attempts = ((each.place.idempotency_key, each.number) for each in self._worker.sending)
        return runs_in_a_thread(self._token) or self._name in attempts

    @property
    def ended(self) -> float | None:
        """When its code ended, where a process has seen that; None while it runs, or where nobody can know."""
        if self.runs_here:
            return None
        seen = self._worker.code_ended.get(self._name)
        return seen[0] if seen is not None else self._intent.ended or None

    async def silence(self) -> Silence:
        """Look since when it can send nothing more. Raises StoreError."""
        worker, intent = self._worker, self._intent
        settling = f"{self._settings.settle:g} s to pass since the attempt could last send anything"
        if self.runs_here:
            self._ran = True
            return Silence(None, None, "the code of the attempt to end, which still runs", only_here=True)
        if self._ran:
            self._ran = False
            worker.code_ended[self._name] = (worker.now(), worker.code_ended.get(self._name, (0.0, None))[1])
        if (ended := self.ended) is not None:
            return self._settled(ended, str(self._name), 0.0, settling)
        row = await self._row()
        if row is not None and row.state is WorkerState.GONE:
            return self._settled(row.left or 0.0, f"gone {row.id}", 0.0, settling)
        deadline = intent.due or 0.0  # a deploy may have made the timeout shorter since
        timeout = max(self._settings.timeout or 0.0, deadline - intent.at - COMMIT_ALLOWANCE_S)
        if deadline > worker.now():
            settling = f"its time to be over, on worker {intent.worker} at {_utc(deadline)}, and {settling}"
        if row is None:
            return self._settled(deadline, str(self._name), timeout, settling)
        sent = None if row.id == worker.id else last_sent(row, worker.clock.boot_id())
        if sent == inf:
            return _may_still_send(row, worker.clock.boot_id())
        since, fact = deadline, str(self._name)
        if row.state is WorkerState.EXPIRED:
            since, fact = max(row.left or 0.0, deadline), f"expired {row.id}"
            if row.boot == worker.store.lease_epoch():  # it began no attempt after that
                worker.first_seen.setdefault(fact, row.lease_until)
        if sent is not None:
            since = max(since, worker.now() + sent - worker.store.lease_now())
        return self._settled(since, fact, timeout, settling)

    async def why(self) -> tuple[str, str]:
        """Return why it is in doubt, and what a person has to know of its worker's process. Raises StoreError."""
        row = await self._row()
        if row is None or row.state is WorkerState.GONE or self._alive(row) is Alive.NO:
            return NOT_RECORDED, ""
        if (row.pid, row.host) == (self._worker.row.pid, self._worker.row.host):
            return "its worker, of this process, gave it up before its outcome was recorded", ""
        if row.state is WorkerState.ALIVE:
            return f"its worker {row.id} gave it up, or was cut off, before its outcome was recorded", ""
        process = f"process {row.pid} on host {row.host}"  # this is kept, so it says what was then
        seen = f"{process} still lived then"
        beware = seen if self._alive(row) is Alive.YES else f"nobody could see whether {process} lived"
        return f"its worker {row.id} was not heard from any more", f", and {beware}: see to it that it has ended"

    def _alive(self, row: WorkerRow) -> Alive:
        return probe(row, self._worker.clock.boot_id())

    async def _row(self) -> WorkerRow | None:
        rows = await self._worker.read(self._worker.store.workers)
        return next((row for row in rows if row.id == self._intent.worker), None)

    def _settled(self, since: float, fact: str, timeout: float, waits_for: str) -> Silence:
        """Return when `settle` has passed since then, and, by the clock of leases, since this fact and `timeout`."""
        worker, settle = self._worker, self._settings.settle
        now = worker.store.lease_now()
        left = worker.first_seen.setdefault(fact, now) + timeout + settle - now
        return Silence(since, max(since + settle, worker.now() + left if left > 0 else 0.0), waits_for)


def end_first(row: WorkerRow, alive: Alive) -> str:
    """Say what a person has to do about the process of a worker whose lease has ended; nothing for any other worker."""
    if row.state is not WorkerState.EXPIRED or alive is Alive.NO:
        return ""
    process = f"process {row.pid} on host {row.host}"
    if alive is Alive.YES:
        return f"{process} still lives: end it before you say that it did not happen"
    return f"nobody can see from here whether {process} still lives: make sure that it has ended"


def code_ended(worker: Worker, attempt: Attempt) -> None:
    """Note that the code of a `once` attempt has ended, also where its outcome had been given up before."""
    worker.sending.discard(attempt)
    name = (attempt.place.idempotency_key, attempt.number)
    if name in worker.code_ended:
        worker.code_ended[name] = (worker.now(), worker.code_ended[name][1])


def _utc(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"


def _may_still_send(row: WorkerRow, boot_id: str) -> Silence:
    if probe(row, boot_id) is Alive.NO:
        return Silence(None, None, f"the end of process {row.pid} on host {row.host} to be recorded", soon=True)
    what = f"process {row.pid} on host {row.host} to end, or its thread: it still executes a once step"
    return Silence(None, None, f"{what} (worker {row.id})")
