"""Waiting for the ends of runs, whoever executes them.

A run that this process executes tells of its end itself. For all others the store is asked: soon after it changed, and
now and then in any case. Whoever stops waiting changes nothing for the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from outlast.core.errors import OutlastError, WrongUse
from outlast.core.records import RunRow
from outlast.core.transitions import Status
from outlast.stores.protocol import Store

POLL_S = 0.02
LOOK_ANYWAY_POLLS = 50

Read = Callable[..., Awaitable[list[RunRow]]]


class Ends:
    """Those who wait for runs to end or to get stuck. Used on the App's event loop."""

    def __init__(self, store: Store, read: Read, executed_here: Callable[[int], bool]) -> None:
        self._store = store
        self._read = read
        self._executed_here = executed_here
        self._waiters: dict[int, list[asyncio.Future[RunRow]]] = {}
        self._looking = False
        self._look_again = False
        self._poller: asyncio.Task[None] | None = None

    async def wait(self, row: RunRow) -> RunRow:
        """Return the run's row once it has ended or is stuck."""
        if row.status is Status.SUCCEEDED:  # the only end that nobody can take back
            return row
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[RunRow] = loop.create_future()
        self._waiters.setdefault(row.pk, []).append(waiter)
        if not self._executed_here(row.pk):
            self.look_soon()
        if self._poller is None or self._poller.done():
            self._poller = loop.create_task(self._poll(), name="outlast-results")
        try:
            return await waiter
        finally:
            left = self._waiters.get(row.pk)
            if left is not None and waiter in left:
                left.remove(waiter)
                if not left:
                    del self._waiters[row.pk]

    def tell(self, row: RunRow) -> None:
        """This run has ended or is stuck (pk 0: some run)."""
        if not row.pk:
            self.look_soon()
        for waiter in self._waiters.get(row.pk, ()):
            if not waiter.done():
                waiter.set_result(row)

    def look_soon(self) -> None:
        """Ask the store about all runs that are waited for."""
        self._look_again = bool(self._waiters)
        if self._look_again and not self._looking:
            self._looking = True
            asyncio.get_running_loop().create_task(self._look())

    def close(self) -> None:
        """Nobody will be told any more."""
        if self._poller is not None:
            self._poller.cancel()
        for waiters in self._waiters.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(WrongUse("the App was closed while somebody waited for a run's result"))
        self._waiters.clear()

    async def _look(self) -> None:
        try:
            while self._look_again:  # somebody may come while a look is under way that does not ask for their run
                self._look_again = False
                for row in await self._read(self._store.ended, tuple(self._waiters)):
                    self.tell(row)
        except OutlastError:
            return  # the poller comes back
        finally:
            self._looking = False

    async def _poll(self) -> None:
        change, idle = -1, 0
        while self._waiters:
            await asyncio.sleep(POLL_S)
            try:
                seen = self._store.change()
            except OutlastError:
                continue
            idle += 1
            if seen != change or idle >= LOOK_ANYWAY_POLLS:
                change, idle = seen, 0
                self.look_soon()
