"""A client that waits for runs says so in the log when nobody is there to execute them: else it waits in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from outlast.core.errors import OutlastError
from outlast.core.records import RunRow
from outlast.runtime.seen import seen_workers, start_one, why_idle, worker_command

if TYPE_CHECKING:
    from outlast.runtime.client import Client

LOOK_S = 3.0
MOST_RUNS = 20
"""So many of the runs that are waited for are looked at, those first that were waited for first."""


class Lookout:
    """Looks now and then while an App waits. Used on the App's event loop."""

    def __init__(self, app: Client) -> None:
        self.app = app
        self._waits: dict[int, int] = {}  # run -> how many wait for it
        self._told: dict[str, str] = {}  # name of runs -> what was said of them last
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def waiting_for(self, run: RunRow) -> Iterator[None]:
        """Look after a run while the block waits for it."""
        self._waits[run.pk] = self._waits.get(run.pk, 0) + 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look_out(), name="outlast-lookout")
        try:
            yield
        finally:
            self._waits[run.pk] -= 1
            if not self._waits[run.pk]:
                del self._waits[run.pk]
            if not self._waits:
                self.close()

    def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _look_out(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                idle = await self.app._read(self._look, tuple(islice(self._waits, MOST_RUNS)))
            except OutlastError:
                continue  # whoever waits is told of that elsewhere
            for run, why, do in idle:
                if why and self._told.get(run.workflow) != why:
                    self.app.notices("run.unserved", run=run.id, workflow=run.workflow, why=why, do=do)
                self._told[run.workflow] = why

    def _look(self, pks: tuple[int, ...]) -> list[tuple[RunRow, str, str]]:
        """Return the runs with why nobody executes them, if so, and what to do. Blocking."""
        store = self.app.store
        rows = [row for pk in pks if (row := store.run_by_pk(pk)) is not None]
        workers = seen_workers(store) if rows else []
        now = store.now()
        return [
            (row, why_idle(row, workers, now), start_one(row, workers, worker_command(row, self.app.url)))
            for row in rows
        ]
