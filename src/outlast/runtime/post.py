"""What code in a step sends to other runs: carried to the store by the step's worker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from outlast.stores.verbs import Answer, Done, Verb

if TYPE_CHECKING:
    from outlast.runtime.worker import Worker


class WorkersPost:
    """See the top of this file, and `outlast.core.effects.Post`."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.codec = worker.codec

    async def ask(self, verb: Verb) -> Answer:
        """Have a verb committed, wake whom it gives something to do, and return the answer. On the worker's loop."""
        answer = await self._worker.writer.ask(verb)
        if isinstance(answer, Done):
            self._worker.wake(answer.woke)
        return answer

    def ask_from_thread(self, verb: Verb) -> Answer:
        """Do so from a step's thread."""
        return asyncio.run_coroutine_threadsafe(self.ask(verb), self._worker.loop).result()
