"""An answer that passes live: from the step that receives and records it to the client that reads it meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any


class Passing:
    """The pieces on their way. Both ends are on one event loop."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[tuple[int, list[tuple[str, str]]]] = loop.create_future()
        """Done with the status and the headers, once these are there."""
        self.closed: asyncio.Future[None] = loop.create_future()
        """Done when the client has closed the answer before its end."""
        self.taken = 0
        self._pieces: deque[bytes] = deque()
        self._is_over = False
        self._more = asyncio.Event()

    def begin(self, status: int, headers: list[tuple[str, str]]) -> None:
        """The answer begins."""
        if not self.begun.done():
            self.begun.set_result((status, headers))

    def give(self, piece: bytes) -> None:
        """Pass a piece on."""
        self._pieces.append(piece)
        self._more.set()

    def end(self) -> None:
        """No more pieces come."""
        self._is_over = True
        self._more.set()

    def close(self) -> None:
        """The client wants no more."""
        if not self.closed.done():
            self.closed.set_result(None)

    async def pieces(self, recorded: asyncio.Future[Any]) -> AsyncIterator[bytes]:
        """Yield the pieces as they come; `recorded` is done when no more can come, whatever has happened."""
        recorded.add_done_callback(lambda _: self.end())
        while True:
            while self._pieces:
                self.taken += 1
                yield self._pieces.popleft()
            if self._is_over:
                return
            self._more.clear()
            await self._more.wait()
