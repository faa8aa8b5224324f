"""Workflows that write streams while their process is killed."""

from __future__ import annotations

import asyncio

import outlast
from outlast import step, workflow


@step(effect="pure")
async def tell(who: str, count: int) -> int:
    """Write so many items, many of them one by one."""
    items = outlast.stream("told")
    for n in range(count):
        items.write(f"{who}.{n}")
        outlast.publish(who, n)
        if n % 7 == 0:
            await asyncio.sleep(0.001)
        await items.drain()
    return count


@step
def tell_in_thread(who: str, count: int) -> int:
    """Do so in a thread."""
    for n in range(count):
        outlast.stream("told").write(f"{who}.{n}")
    return count


@workflow
async def teller(what: str, count: int) -> str:
    """Write in the body and in three steps at once."""
    outlast.stream("told").write("body.0")
    told = await asyncio.gather(tell("a", count), tell("b", count), tell_in_thread.call("c", count))
    outlast.stream("told").write("body.1")
    await tell("d", 3)
    outlast.stream("told").write("body.2")
    outlast.publish("body", "over")
    return f"{what} {sum(told)}"
