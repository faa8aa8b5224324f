"""The same graph as runs of Outlast: `outlast worker durable.py` executes them."""

from __future__ import annotations

import asyncio
import sys

from graph import build

from outlast import App
from outlast.langgraph import Middleware, durable  # 1

recorded = Middleware(effects={"refund": "once"}, tokens="tokens")  # 2
support = durable(build([recorded]))  # 3


async def ask(id: str, text: str) -> None:
    """Ask the desk, from any process; a worker answers."""
    async with App(worker=False) as app:
        run = await app.start(support({"messages": [("user", text)]}), id=id)
        print((await run.result())["messages"][-1].content)


if __name__ == "__main__":
    asyncio.run(ask(*sys.argv[1:3]))
