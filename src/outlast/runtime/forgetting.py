"""A worker forgets the records of transactional steps that nobody needs any more, in the databases that it writes to.

They would be kept for ever otherwise, a row for each such step. What may go is argued in
`stores/databases/recorded.py`. The databases are the user's, and several stores may write to one: only the records of
this store's own runs are judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from outlast.core.identity import derive
from outlast.core.telling import error_line
from outlast.core.transitions import Status
from outlast.runtime.notices import log
from outlast.runtime.relay import on_its_driver
from outlast.stores.databases.recorded import PAGE, OldRecord, forget, old_records
from outlast.stores.databases.source import Source

if TYPE_CHECKING:
    from outlast.runtime.worker import Worker

FIRST_LOOK_S = 60.0
LOOK_S = 3600.0


class Forgetting:
    """See the top of this file. All methods are called on the worker's loop."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._failed: set[Source] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on, again and again."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="outlast-forgetting")

    async def stop(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        pause = FIRST_LOOK_S
        while True:
            await asyncio.sleep(pause)
            pause = LOOK_S
            for source in list(self._worker.written_to):
                if source.tables:
                    await self._look(source)

    async def _look(self, source: Source) -> None:
        """Go once through what is old in a database."""
        try:
            after: str | None = ""
            while after is not None:
                records = await on_its_driver(source, old_records, after)
                if done := await self._done_with(records):
                    await on_its_driver(source, forget, done)
                after = records[-1].key if len(records) == PAGE else None
        except Exception as error:  # noqa: BLE001 - whatever a driver raises: the next look makes up for it
            if source not in self._failed:
                self._failed.add(source)
                log.warning(
                    "records of transactional steps that nobody needs any more stay in %s: %s",
                    source.text,
                    error_line(error),
                )

    async def _done_with(self, records: Sequence[OldRecord]) -> list[str]:
        """Return the keys of those whose runs are known here, and will never be taken up again."""
        keys = []
        for record in records:
            run = await self._worker.read(self._worker.store.run, record.run_id)
            if run is not None and run.status is Status.SUCCEEDED:
                mine = derive(run.incarnation, "step", record.step_id)  # of another store's run of that id it is not
                keys += [record.key] if record.key == mine else []
        return keys
