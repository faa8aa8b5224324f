"""What code in a step sends to other runs: carried to the store once the records before the step are committed."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import TYPE_CHECKING

from outlast.core.effects import InStep
from outlast.runtime.output import given_up
from outlast.stores.verbs import Answer, Done, Verb

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution


class RunPost:
    """The post of one run in memory. See the top of this file, and `outlast.core.effects.Post`."""

    def __init__(self, execution: Execution) -> None:
        self._run = execution
        self._waiting: set[asyncio.Future[None]] = set()
        self.codec = execution.worker.codec

    async def ask(self, place: InStep, verb: Verb) -> Answer:
        """Have a verb committed, wake whom it gives something to do, and return the answer.

        Raises CancelledError when the run is no longer this worker's.
        """
        worker = self._run.worker
        if asyncio.get_running_loop() is not worker.loop:
            return await asyncio.to_thread(self.ask_from_thread, place, verb)
        await self._gate(place)
        answer = await worker.writer.ask(verb)
        if isinstance(answer, Done):
            worker.wake(answer.woke)
        return answer

    def ask_from_thread(self, place: InStep, verb: Verb) -> Answer:
        """Do so from a thread that is not the worker's."""
        asked = asyncio.run_coroutine_threadsafe(self.ask(place, verb), self._run.worker.loop)
        try:
            return asked.result()
        except concurrent.futures.CancelledError:
            raise given_up(place) from None

    async def _gate(self, place: InStep) -> None:
        """Wait for the commit of all that was recorded before the step began, for which a `pure` one did not."""
        if self._run.closed:
            raise given_up(place)
        if self._run.committed >= place.gate:
            return
        opened = self._run.worker.loop.create_future()
        self._waiting.add(opened)
        self._run.after_commit_of(place.gate, _open, opened)
        try:
            await opened
        finally:
            self._waiting.discard(opened)

    def close(self) -> None:
        """The run is stopped here: let go of who waits."""
        for opened in self._waiting:
            opened.cancel()


def _open(opened: asyncio.Future[None]) -> None:
    if not opened.done():
        opened.set_result(None)
