"""Fetching what has arrived for the runs that this worker holds.

Many things say that something may have arrived, often all at once; one look at the store serves them all, as long as
it begins after the last of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.core.errors import StoreError, StoreUnavailable
from outlast.core.records import InboxRow
from outlast.core.telling import error_line
from outlast.core.transitions import Reason
from outlast.runtime.notices import log

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution
    from outlast.runtime.worker import Worker

TRY_AGAIN_S = 0.5


class Deliveries:
    """See the top of this file. All methods are called on the worker's loop."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._under_way = False
        self._again = False
        self._doubted = False  # whether all runs held here are still this worker's

    def others_wrote(self) -> None:
        """Another process wrote something: it may have sent something to a run, or ended one by force."""
        self.fetch_soon()
        self._doubted = True

    def look_if_doubted(self) -> None:
        """Look at what is owned, if others have written since the last time. Called each second."""
        if self._doubted and self._worker.executions:
            self.look_at_owned()

    def look_at_owned(self) -> None:
        """Stop the runs that are no longer this worker's: a person has ended them by force."""
        self._doubted = False
        self._worker.loop.create_task(self._stop_disowned())

    async def _stop_disowned(self) -> None:
        worker = self._worker
        held, me = dict(worker.executions), worker.id
        try:
            owned = set(await worker.read(worker.store.owned, me))
        except StoreError:
            self._doubted = True
            return
        for pk, execution in held.items():
            leaves = execution.parking or execution.ending or execution.closed  # its own verb says what became of it
            if (pk, execution.row.claim) not in owned and not leaves and worker.id == me:
                worker.notices("run.lost", run=execution.row.id, why="it is no longer this worker's")
                worker.forget(execution)
                worker.look_at_ends()

    def fetch_soon(self) -> None:
        """Something may have arrived."""
        if self._under_way:
            self._again = True
        else:
            self._under_way = True
            self._worker.loop.create_task(self._fetch_all())

    async def _fetch_all(self) -> None:
        try:
            self._again = True
            while self._again:
                self._again = False
                await self._fetch()
        finally:
            self._under_way = False

    async def _fetch(self) -> None:
        worker = self._worker
        held = dict(worker.executions)
        if not held:
            return
        seen = {pk: execution.inbox.seen for pk, execution in held.items() if execution.inbox.mail.keeps_any}
        try:
            rows: list[InboxRow] = await worker.read(worker.store.inbox, worker.id, seen)
        except StoreUnavailable:
            worker.loop.call_later(TRY_AGAIN_S, self.fetch_soon)
            return
        except Exception:  # noqa: BLE001 - a row that makes no sense: found and named where each run is read alone
            for pk, each in held.items():
                await self._fetch_alone(pk, each)
            return
        for row in rows:
            execution = worker.executions.get(row.run)
            if execution is None:
                continue
            if execution is held.get(row.run):
                execution.inbox.receive((row,))
            else:
                self._again = True  # loaded meanwhile: what was read may have been taken in the life before

    async def _fetch_alone(self, pk: int, execution: Execution) -> None:
        """Fetch for one run; where what has arrived cannot be read, it gets stuck."""
        worker = self._worker
        try:
            found = await worker.read(worker.store.load, [pk])
        except StoreUnavailable:
            worker.loop.call_later(TRY_AGAIN_S, self.fetch_soon)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the run is named and a person sees it
            log.exception("run %s cannot be read from the store", execution.row.id)
            execution.stick(Reason.UNDECODABLE, f"what is stored of it cannot be read: {error_line(error)}")
            return
        for loaded in found:
            if worker.executions.get(pk) is execution:
                execution.inbox.receive(loaded.inbox)
