"""What a call of a tool costs more with Outlast than without: `python -m tests.adapters.mcp.overhead`.

A server in the same process, over the client's connection in memory, is called again and again. Prints the p50 of a
call in milliseconds, bare and on SQLite, and the difference: of a tool that reads, and of one that may be repeated,
which waits each time until what was recorded before is on disk.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time

from mcp import Client
from mcp.server import MCPServer

from outlast import App, workflow
from outlast.mcp import DurableSession

CALLS = 500

server = MCPServer("nothing")


@server.tool()
def nothing(number: int) -> str:
    """Do nothing."""
    return "done"


@workflow(loop="native")
async def measured(effect: str) -> list[float]:
    """Call in turns, so that both see the machine alike; return the p50 of a call in milliseconds, bare and durable."""
    times: tuple[list[float], list[float]] = ([], [])
    effects = {"nothing": effect}
    async with Client(server) as bare, DurableSession(Client(server), effects=effects) as durable:
        for number in range(CALLS):
            for session, mine in zip((bare, durable), times, strict=True):
                begun = time.perf_counter()
                await session.call_tool("nothing", {"number": number})  # type: ignore[attr-defined]  # both have it
                mine.append(time.perf_counter() - begun)
    return [statistics.median(mine) * 1000 for mine in times]


async def main() -> None:
    """Measure, and print a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        async with App(f"sqlite:///{folder}/runs.db") as app:
            await (await app.start(measured("pure"))).result()  # to warm up
            for effect in ("pure", "idempotent"):
                bare, durable = await (await app.start(measured(effect))).result()
                more = durable - bare
                sys.stdout.write(f"{effect}: {bare:.2f} ms bare, {durable:.2f} ms durable, {more:.2f} ms more\n")


if __name__ == "__main__":
    asyncio.run(main())
