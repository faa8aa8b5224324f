"""Fetching what has arrived for the runs that this worker holds.

Many things say that something may have arrived, often all at once; one look at the store serves them all, as long as
it begins after the last of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.core.errors import StoreError
from outlast.core.records import InboxRow

if TYPE_CHECKING:
    from outlast.runtime.worker import Worker

TRY_AGAIN_S = 0.5


class Deliveries:
    """See the top of this file. All methods are called on the worker's loop."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._under_way = False
        self._again = False

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
        try:
            rows: list[InboxRow] = await worker.read(worker.store.inbox, worker.id)
        except StoreError:
            worker.loop.call_later(TRY_AGAIN_S, self.fetch_soon)
            return
        for row in rows:
            execution = worker.executions.get(row.run)
            if execution is None:
                continue
            if execution is held.get(row.run):
                execution.inbox.receive((row,))
            else:
                self._again = True  # loaded meanwhile: what was read may have been taken in the life before
