"""Waiting for the ends of runs, whoever executes them.

A run that this process executes tells of its end itself. For all others the store is asked: soon after it changed; and
for all that are waited for, now and then in any case. Whoever stops waiting changes nothing for the run. A process that
waits and has no worker ends the runs, too, that nobody has begun by their deadlines: there may be no worker to do it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from outlast.core.errors import OutlastError, RunNotFound, WrongUse
from outlast.core.records import RunRow
from outlast.core.transitions import Status
from outlast.stores.protocol import Store

POLL_S = 0.02
LOOK_ANYWAY_POLLS = 50
LOOK_FOR_GONE_POLLS = 25
GONE_AT_ONCE = 50
"""So many runs are asked about at once, whether they are still there."""

Read = Callable[..., Awaitable[Any]]


class Ends:
    """Those who wait for runs to end or to get stuck. Used on the App's event loop."""

    def __init__(
        self,
        store: Store,
        read: Read,
        executed_here: Callable[[int], bool],
        expire: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._read = read
        self._executed_here = executed_here
        self._expire = expire  # where this process has no worker that does it
        self._waiters: dict[int, list[asyncio.Future[RunRow | None]]] = {}
        self._looking = False
        self._look_again = False
        self._poller: asyncio.Task[None] | None = None
        self._asked = 0  # where the next look for deleted runs begins

    async def wait(self, row: RunRow) -> RunRow:
        """Return the run's row once it has ended or is stuck. Raises RunNotFound when it was deleted."""
        if row.status is Status.SUCCEEDED:  # the only end that nobody can take back
            return row
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[RunRow | None] = loop.create_future()
        self._waiters.setdefault(row.pk, []).append(waiter)
        if not self._executed_here(row.pk):
            self.look_soon()
        if self._poller is None or self._poller.done():
            self._poller = loop.create_task(self._poll(), name="outlast-results")
        try:
            ended = await waiter
        finally:
            left = self._waiters.get(row.pk)
            if left is not None and waiter in left:
                left.remove(waiter)
                if not left:
                    del self._waiters[row.pk]
        if ended is None:
            raise RunNotFound(f"run {row.id} is no longer in the store (it was pruned)")
        return ended

    def tell(self, row: RunRow) -> None:
        """This run has ended or is stuck (pk 0: some run)."""
        if not row.pk:
            self.look_soon()
        self._tell(row.pk, row)

    def _tell(self, pk: int, row: RunRow | None) -> None:
        for waiter in self._waiters.get(pk, ()):
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
                asked = {pk: tuple(waiters) for pk, waiters in self._waiters.items()}
                for row in await self._read(self._store.ended, tuple(asked)):
                    for waiter in asked[row.pk]:  # whoever has come since may know that this end was taken back
                        if not waiter.done():
                            waiter.set_result(row)
        except OutlastError:
            return  # the poller comes back
        finally:
            self._looking = False

    async def _look_for_gone(self) -> None:
        """Tell those whose run was deleted, a few runs at a time: such a run never ends."""
        asked, self._asked = self._asked, self._asked + GONE_AT_ONCE
        pks = [pk for pk in self._waiters if not self._executed_here(pk)]
        if asked >= len(pks):
            asked, self._asked = 0, GONE_AT_ONCE
        for pk in pks[asked : asked + GONE_AT_ONCE]:
            if await self._read(self._store.run_by_pk, pk) is None:
                self._tell(pk, None)

    async def _poll(self) -> None:
        change, idle, polls = -1, 0, 0
        while self._waiters:
            await asyncio.sleep(POLL_S)
            polls += 1
            if polls % LOOK_FOR_GONE_POLLS == 0:
                with contextlib.suppress(OutlastError):
                    await self._look_for_gone()
                    if self._expire is not None:
                        await self._expire()
            idle += 1
            if idle >= LOOK_ANYWAY_POLLS:
                idle = 0
                self.look_soon()
            elif not all(map(self._executed_here, self._waiters)):
                try:
                    seen = self._store.change()
                except OutlastError:
                    continue
                if seen != change:
                    change, idle = seen, 0
                    self.look_soon()
