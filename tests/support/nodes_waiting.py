"""What random programs are made of: nodes that wait, for a time or for each other."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from random import Random
from typing import Any

import outlast
from tests.support.nodes import Play, any_node, charge, fetch, fold, leaf, node, save, spawn, split

# -- time ----------------------------------------------------------------------


@node
async def timed_out(p: Play, rng: Random, depth: int) -> int:
    try:
        async with asyncio.timeout(rng.choice([0, 0.4, 1.2])) as limit:
            if rng.random() < 0.3:
                limit.reschedule(asyncio.get_running_loop().time() + 0.9)
            return await any_node(p, rng, depth)
    except TimeoutError:
        p.see("timeout", outlast.now().timestamp())
        return fold(0, await fetch("after a timeout"))


@node
async def waited_for(p: Play, rng: Random, depth: int) -> int:
    what: Any = any_node(p, rng, depth)
    if rng.random() < 0.4:
        what.close()
        what = rng.choice([fetch, charge])("waited for")
    elif rng.random() < 0.3:
        what = asyncio.create_task(what)
    try:
        return fold(0, await asyncio.wait_for(what, rng.choice([0, 0.4, 1.2, None])))
    except TimeoutError:
        return fold(1, await save("after wait_for"))


@node
async def shielded(p: Play, rng: Random, depth: int) -> int:
    task = asyncio.create_task(any_node(p, rng, depth))
    try:
        async with asyncio.timeout(0.4):
            return await asyncio.shield(task)
    except TimeoutError:
        p.see("shielded", task.done())
        return fold(1, await task)


@node
async def cleaned_up(p: Play, rng: Random, depth: int) -> int:
    first, second = split(rng, 2)
    try:
        async with asyncio.timeout(rng.choice([0.4, None])):
            total = await any_node(p, first, depth)
    finally:
        p.see("finally", await save("clean up"))
        await asyncio.sleep(0.1)
        p.see("finally", await any_node(p, second, depth + 1))
    return total


@leaf
async def generated(p: Play, rng: Random, depth: int) -> int:
    async def pages() -> Any:
        try:
            for page in range(3):
                yield await fetch(page)
        finally:
            p.see("closed", await save("close the generator"))

    if rng.random() < 0.5:  # left open: the end of the run closes it
        async for page in pages():
            return fold(0, page)
    async with aclosing(pages()) as source:
        async for page in source:
            return fold(1, page)
    return 0


# -- synchronisation -----------------------------------------------------------


@node
async def taking_turns(p: Play, rng: Random, depth: int) -> int:
    gate: Any = rng.choice([asyncio.Lock, asyncio.Semaphore])()

    async def enter(each: Random) -> int:
        async with gate:
            return await any_node(p, each, depth)

    tasks = [asyncio.create_task(enter(each)) for each in split(rng, 3)]
    if rng.random() < 0.3:
        tasks[rng.randint(0, 2)].cancel()
    got = await asyncio.gather(*tasks, return_exceptions=True)
    return fold(fold(0, got[0]), got[2])


@leaf
async def signalled(p: Play, rng: Random, depth: int) -> int:
    event, future = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def wait(i: int) -> None:
        await event.wait()
        p.see("woken", i)
        if not future.done():
            future.set_result(i)

    async def signal() -> None:
        await fetch("signal")
        event.set()

    asyncio.get_running_loop().call_later(rng.choice([0.3, 3]), event.set)
    async with asyncio.TaskGroup() as group:
        for i in range(3):
            group.create_task(wait(i))
        group.create_task(signal())
    return int(await future)


@leaf
async def conditional(p: Play, rng: Random, depth: int) -> int:
    condition, stock = asyncio.Condition(), [0]

    async def consume() -> int:
        async with asyncio.timeout(2), condition:
            await condition.wait_for(lambda: stock[0] > 0)
            stock[0] -= 1
            return fold(0, await save(stock[0]))

    async def produce(i: int) -> None:
        await fetch(i)
        async with condition:
            stock[0] += 1
            condition.notify(rng.randint(1, 2))

    consumers = [asyncio.create_task(consume()) for _ in range(2)]
    got = await asyncio.gather(*consumers, produce(1), produce(2), return_exceptions=True)
    return fold(fold(0, got[0] or 0), got[1] or 0)


@node
async def queued(p: Play, rng: Random, depth: int) -> int:
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=rng.choice([0, 1]))

    async def produce(each: Random) -> None:
        await queue.put(await any_node(p, each, depth + 1))

    tasks = [asyncio.create_task(produce(each)) for each in split(rng, 3)]
    total = 0
    async with asyncio.timeout(rng.choice([0.6, 4])):
        for _ in tasks:
            total = fold(total, await queue.get())
            p.see("dequeued", total)
    return total


@leaf
async def met(p: Play, rng: Random, depth: int) -> int:
    barrier = asyncio.Barrier(2)

    async def arrive(i: int) -> int:
        await (fetch, save)[i](i)
        async with asyncio.timeout(2):
            return i if await barrier.wait() == 0 else 0

    got = await asyncio.gather(*(arrive(i) for i in range(2)), return_exceptions=True)
    return fold(fold(0, got[0]), got[1])


@node
async def shields_raced(p: Play, rng: Random, depth: int) -> int:
    shields = [asyncio.shield(task) for task in spawn(p, rng, depth)]
    done, late = await asyncio.wait(shields, timeout=rng.choice([0.4, 2]), return_when=asyncio.FIRST_COMPLETED)
    p.see("done", [shields.index(each) for each in done], [shields.index(each) for each in late])
    return sum([fold(i, each.exception() or each.result()) for i, each in enumerate(done)])


@node
async def gathers_raced(p: Play, rng: Random, depth: int) -> int:
    gathers = [asyncio.gather(any_node(p, r, depth), fetch(i)) for i, r in enumerate(split(rng, 3))]
    done, late = await asyncio.wait(gathers, timeout=rng.choice([0.4, 2]), return_when=asyncio.FIRST_COMPLETED)
    p.see("done", [gathers.index(each) for each in done], [gathers.index(each) for each in late])
    total = 0
    for each in {*done, *gathers[1:]}:  # in the order of the set
        total = fold(total, (await asyncio.gather(each, return_exceptions=True))[0] and 1)
        p.see("gathered", gathers.index(each), await save("gathered"))
    return total


@node
async def polled(p: Play, rng: Random, depth: int) -> int:
    task, polls = asyncio.create_task(any_node(p, rng, depth)), 0
    while not task.done() and polls < 40:
        await asyncio.sleep(0)
        polls += 1
    p.see("polls", polls)
    return fold(polls, await task)


@node
async def stacked(p: Play, rng: Random, depth: int) -> int:
    async def undo(i: int) -> None:
        p.see("undo", i, await save(f"undo {i}"))

    async with AsyncExitStack() as stack:
        for i in range(2):
            stack.push_async_callback(undo, i)
        return await any_node(p, rng, depth)


@node
async def worked_off(p: Play, rng: Random, depth: int) -> int:
    queue: asyncio.Queue[Any] = rng.choice([asyncio.PriorityQueue, asyncio.LifoQueue])()
    totals = [0]

    async def work() -> None:
        while True:
            _, each = await queue.get()
            try:
                totals[0] = fold(totals[0], await any_node(p, Random(each), depth))
            finally:
                queue.task_done()

    for i in range(3):
        queue.put_nowait((rng.randint(0, 9), i))
    workers = [asyncio.create_task(work()) for _ in range(2)]
    try:
        async with asyncio.timeout(3):
            await queue.join()
    finally:
        for worker in workers:
            worker.cancel()
    return totals[0]
