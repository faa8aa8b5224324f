"""What the tests of the transport share: a server that a test scripts, and runs that are restarted in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2

import outlast
from outlast import App, Call, Run
from outlast.http import DurableTransport

Handler = Callable[[httpx2.Request], httpx2.Response]
PARAMETERS: dict[str, Any] = {"park_after": 0.02, "grace": 0.0}


class Server:
    """Answers requests by a script, without a network, and remembers them."""

    def __init__(self, handler: Handler | None = None) -> None:
        self.requests: list[httpx2.Request] = []
        self.handler = handler or (lambda request: httpx2.Response(200, json={"path": request.url.path}))

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return self.handler(request)

    def transport(self, **settings: Any) -> DurableTransport:
        """Return a transport to it."""
        return DurableTransport(httpx2.MockTransport(self), **settings)

    def client(self, **settings: Any) -> httpx2.AsyncClient:
        """Return a client of it."""
        return httpx2.AsyncClient(transport=self.transport(**settings), base_url="https://api.example.com")

    @property
    def keys(self) -> list[str | None]:
        """The idempotency keys of the requests."""
        return [request.headers.get("idempotency-key") for request in self.requests]


class Breaks(httpx2.AsyncByteStream, httpx2.SyncByteStream):
    """The body of an answer that breaks off behind its pieces."""

    def __init__(self, *pieces: bytes, error: Exception | None = None) -> None:
        self._pieces = pieces
        self._error = error

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        if self._error is not None:
            raise self._error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


class Gate:
    """A step that holds a run up in its first execution: the program is restarted there."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.is_open = False

        @outlast.step(name="gate")
        async def passed() -> None:
            self.reached.set()
            if not self.is_open:
                await asyncio.Event().wait()

        self.passed = passed


async def across_a_restart(folder: Path, call: Callable[[], Call[Any]], gate: Gate, **settings: Any) -> Any:
    """Run a call up to its gate, restart there, and return its result."""
    async with App(str(folder / "runs.db"), **PARAMETERS, **settings) as app:
        run = await app.start(call(), id="one")
        await unless_it_ends(run, gate)
    gate.is_open = True
    async with App(str(folder / "runs.db"), **PARAMETERS, **settings) as app:
        return await (await app.get("one")).result(timeout=20)


async def unless_it_ends(run: Run[Any], gate: Gate) -> None:
    """Wait for the gate; a run that ends before is a fault."""
    waits = [asyncio.ensure_future(gate.reached.wait()), asyncio.ensure_future(run.result())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    assert gate.reached.is_set(), f"it ended first: {waits[1]}"
