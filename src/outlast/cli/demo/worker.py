"""A worker process of the demo: an App that reports its notices to the parent.

`python -m outlast.cli.demo.worker URL`
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading

from outlast import App, Notice
from outlast.cli.demo import agent
from outlast.cli.demo.lifeline import follow_parent, tell

HEARD = {"run.claimed", "run.ended", "run.stuck", "step.started", "worker.took_over"}
LEAVES_WITHIN_S = 2.0


def listen(notice: Notice) -> None:
    """Pass a notice on."""
    if notice.name in HEARD:
        tell(notice.name, **notice.data)


async def work(url: str) -> None:
    """Execute runs until the parent closes the lifeline."""
    assert agent.process_order.name  # importing the agent is what makes its workflow known to this worker
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def leave() -> None:
        last_resort = threading.Timer(LEAVES_WITHIN_S, os._exit, (1,))
        last_resort.daemon = True
        last_resort.start()
        loop.call_soon_threadsafe(over.set)

    follow_parent(leave=leave)
    async with App(url, on_event=listen):
        tell("ready")
        await over.wait()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
