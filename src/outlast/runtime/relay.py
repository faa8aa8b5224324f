"""The relay of a worker: it starts the runs that were noted in an outbox.

A loop that comes back: whatever one look missed, the next one finds. It starts the runs of all rows that it reads, and
deletes the rows when these starts are committed. A row that can never be started stays, with the reason in it, and
holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from outlast.core.errors import (
    DecodingError,
    EncodingError,
    OutlastError,
    RunConflict,
    StoreError,
    StoreUnavailable,
    WrongUse,
)
from outlast.core.functions import Definition
from outlast.core.records import RunRow
from outlast.core.telling import error_line
from outlast.runtime import registry
from outlast.runtime.starting import start_run
from outlast.stores.databases.driving import run_blocking
from outlast.stores.databases.outbox import MOST_ROWS, Posted, posted, settle
from outlast.stores.databases.source import Source
from outlast.stores.databases.tables import OUTBOX
from outlast.stores.rules import keepable

if TYPE_CHECKING:
    from outlast.runtime.app import App

T = TypeVar("T")

LOOK_S = 1.0
FIRST_LOOK_S = 0.01
"""So long after a row was noted in this process it looks for the first time, then after twice as long, and so on: the
row's transaction has to be committed first, and nobody tells of that."""


class Relay:
    """See the top of this file. All methods are called on the App's loop unless they say otherwise."""

    def __init__(self, app: App, source: Source) -> None:
        self._app = app
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._expected = asyncio.Event()
        self._failing = False
        self._task: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """See to it that the table is there. Raises StoreError."""
        try:
            await self._do(OUTBOX.ensure)
        except OutlastError:
            raise
        except Exception as error:
            raise StoreUnavailable(f"the outbox in {self._source.text} cannot be reached: {error}") from error

    def start(self) -> None:
        """Relay from now on."""
        self._task = self._loop.create_task(self._run(), name="outlast-relay")
        _relays.append(self)

    async def stop(self) -> None:
        """Relay no more. What is under way is begun anew by the next relay."""
        task, self._task = self._task, None
        if task is not None:
            _relays.remove(self)
            task.cancel()
            await asyncio.wait([task])

    def expect_rows(self) -> None:
        """A row was noted, and its transaction will be committed soon. Called in any thread."""
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._expected.set)

    async def _run(self) -> None:
        pause = LOOK_S
        while True:
            if await self._look() == MOST_ROWS:
                continue
            pause = min(2 * pause, LOOK_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._expected.wait()
            if self._expected.is_set():
                self._expected.clear()
                pause = FIRST_LOOK_S
                await asyncio.sleep(pause)  # many that come at once are found by one look

    async def _look(self) -> int:
        """Relay what is there; return how many rows are settled by that."""
        try:
            rows = await self._do(posted)
            settled = await self._relay(rows) if rows else 0
        except Exception as error:  # noqa: BLE001 - whatever a driver raises
            if not self._failing:
                self._failing = True
                self._app.notices("outbox.unavailable", database=self._source.text, error=error_line(error))
            return 0
        if self._failing:
            self._failing = False
            self._app.notices("outbox.back", database=self._source.text)
        return settled

    async def _relay(self, rows: list[Posted]) -> int:
        whys = await asyncio.gather(*(self._why_not_started(row) for row in rows))
        answered = list(zip(rows, whys, strict=True))
        done = [row.n for row, why in answered if why == ""]
        refused = [(row, why) for row, why in answered if why]
        await self._do(settle, done, [(row.n, why) for row, why in refused])
        for row, why in refused:
            self._app.notices("outbox.refused", run=row.run_id, database=self._source.text, why=why)
        return len(done) + len(refused)

    async def _why_not_started(self, row: Posted) -> str | None:
        """Start the run of a row; return '' when that is committed, None to try again, else why it can never be."""
        if row.run is None:
            return row.why
        row.run.version = self._app.version
        try:
            await start_run(self._app, row.run, _known(row.run))
        except StoreUnavailable:
            return None
        except (RunConflict, StoreError, EncodingError, DecodingError) as error:
            return keepable(str(error))
        return ""

    async def _do(self, act: Callable[..., Coroutine[object, object, T]], *args: object) -> T:
        return await on_its_driver(self._source, act, *args)


async def on_its_driver(source: Source, act: Callable[..., Coroutine[object, object, T]], *args: object) -> T:
    """Do something with a user's database: here, or in a thread where its driver blocks."""
    if source.is_async:
        return await act(source, *args)
    return await asyncio.get_running_loop().run_in_executor(None, lambda: run_blocking(act(source, *args)))


def expect_rows() -> None:
    """Have all relays of this process look soon. Called in any thread."""
    for relay in _relays.copy():
        relay.expect_rows()


def _known(run: RunRow) -> Definition[..., object] | None:
    try:
        return registry.find(run)
    except WrongUse:
        return None


_relays: list[Relay] = []
