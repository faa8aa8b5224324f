"""Random workflow bodies: each seed is one program over all that asyncio has to offer.

A program is a tree of nodes; each does something with tasks, locks, timeouts or steps, folds what it sees into a
number, and writes it down (`Play.trace`), so that two executions can be compared deed by deed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from random import Random
from typing import Any, cast

import outlast
from outlast.core.effects import InBody
from outlast.core.identity import here
from tests.support.plain_codec import Boom
from tests.support.rig import a_step, a_workflow

fetch = a_step("fetch", effect="pure")
save = a_step("save")
charge = a_step("charge", effect="once")
child = a_workflow("child")

Node = Callable[["Play", Random, int], Awaitable[int]]
LEAVES: list[Node] = []
BRANCHES: list[Node] = []  # nodes that are made of further nodes


class Play:
    """One execution of a program, and what it saw."""

    def __init__(self, trace: list[Any], branches: list[Node]) -> None:
        self.trace = trace
        self.branches = branches
        self.kept: list[Any] = []

    def see(self, *what: Any) -> None:
        place, task = cast(InBody, here.get()), cast(asyncio.Task[Any], asyncio.current_task())
        self.trace.append((place.branch.path, task.get_name(), *what))


class Program:
    """The program of a seed. `only` limits its branches to some kinds, by name."""

    def __init__(self, seed: int, only: tuple[str, ...] = ()) -> None:
        self.seed = seed
        self._branches = [node for node in BRANCHES if not only or node.__name__ in only]

    def body(self, trace: list[Any]) -> Coroutine[Any, Any, int]:
        """Return the coroutine of one execution, which writes what it sees into `trace`."""
        return main(Play(trace, self._branches), Random(self.seed))


async def main(p: Play, rng: Random) -> int:
    total = 0
    try:
        for each in split(rng, rng.randint(2, 3)):
            total = fold(total, await any_node(p, each, 0))
    except asyncio.CancelledError:
        p.see("cancelled")
        await save("goodbye")
        raise
    return total


async def any_node(p: Play, rng: Random, depth: int) -> int:
    chance = rng.random()
    node = rng.choice(p.branches if chance < (0.9, 0.6, 0.2, 0)[min(depth, 3)] else LEAVES)
    p.see("enter", node.__name__)
    try:
        total = await node(p, rng, depth + 1)
    except Exception as error:
        p.see("raised", node.__name__, repr(error))
        if rng.random() < 0.3:
            raise
        return 7
    p.see("leave", node.__name__, total)
    return total


def split(rng: Random, n: int) -> list[Random]:
    return [Random(rng.getrandbits(64)) for _ in range(n)]


def spawn(p: Play, rng: Random, depth: int) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(any_node(p, each, depth)) for each in split(rng, rng.randint(2, 3))]


def fold(total: int, value: Any) -> int:
    """Mix what was seen into a number that depends on its type, its value and the order."""
    if isinstance(value, BaseException):
        value = [len(repr(value)), {}]
    if isinstance(value, list):
        number, rest = value
        value = number * 2 + ("mine" in rest)
        rest["mine"] = True  # a body owns what it is given: nobody else may see this
    elif not isinstance(value, int):
        value = 99_991  # a live object, not what was recorded
    return (total * 31 + value) % 1_000_003


def leaf(function: Node, nodes: list[Node] = LEAVES) -> Node:
    nodes.append(function)
    return function


node = partial(leaf, nodes=BRANCHES)


# -- calls ---------------------------------------------------------------------


@leaf
async def chain(p: Play, rng: Random, depth: int) -> int:
    total = 0
    for _ in range(rng.randint(1, 3)):
        step = rng.choice([fetch, save, charge])
        total = fold(total, await step(rng.randint(0, 9), total % 5))
        p.see("got", total)
        if rng.random() < 0.2:
            await asyncio.sleep(rng.choice([0, 0.3, 1.0]))
    return total


@leaf
async def made_before_awaited(p: Play, rng: Random, depth: int) -> int:
    calls = [rng.choice([fetch, save])(i) for i in range(3)]
    rng.shuffle(calls)
    total = 0
    try:
        for call in calls:
            try:
                total = fold(total, await call)
            except Boom as error:
                total = fold(total, error)
    finally:
        for call in calls:
            call.close()  # a cancellation may have come before it was awaited
    return total


@leaf
async def keyed(p: Play, rng: Random, depth: int) -> int:
    keys = rng.sample("abcd", 2)
    with outlast.scope(rng.choice("xy")):
        got = await asyncio.gather(*(charge.options(key=key)(key) for key in keys), return_exceptions=True)
    return fold(fold(0, got[0]), got[1])


@leaf
async def children(p: Play, rng: Random, depth: int) -> int:
    async with asyncio.timeout(rng.choice([0.4, 5])):
        got = await asyncio.gather(child(0), child(1), return_exceptions=True)
    return fold(fold(0, got[0]), got[1])


@leaf
async def drawn(p: Play, rng: Random, depth: int) -> int:
    p.see(outlast.uuid4().hex, outlast.random.randint(0, 999), outlast.random(), outlast.now().timestamp())
    p.see("patched", outlast.patched(f"change-{rng.randint(0, 3)}"))
    return fold(outlast.random.randint(0, 999), await fetch(outlast.uuid4().hex))


# -- tasks ---------------------------------------------------------------------


@node
async def gathered(p: Play, rng: Random, depth: int) -> int:
    lenient = rng.random() < 0.5
    got = await asyncio.gather(*(any_node(p, r, depth) for r in split(rng, 2)), return_exceptions=lenient)
    return fold(fold(0, got[0]), got[1])


@node
async def raced(p: Play, rng: Random, depth: int) -> int:
    tasks = spawn(p, rng, depth)
    done, losers = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in losers:
        task.cancel()
    total = 0
    for task in done:  # in the order of the set
        total = fold(total, task.exception() or task.result())
    for task in losers:
        total = fold(total, (await asyncio.gather(task, return_exceptions=True))[0])
    return total


@node
async def waited(p: Play, rng: Random, depth: int) -> int:
    tasks = spawn(p, rng, depth)
    how = rng.choice([asyncio.FIRST_EXCEPTION, asyncio.ALL_COMPLETED])
    done, late = await asyncio.wait(tasks, timeout=rng.choice([0.4, 1.0, None]), return_when=how)
    p.see("done", [task.get_name() for task in done], [task.get_name() for task in late])
    return sum([fold(i, task.exception() or task.result()) for i, task in enumerate(done)])


@node
async def grouped(p: Play, rng: Random, depth: int) -> int:
    tasks = []
    async with asyncio.timeout(rng.choice([0.7, 3, None])), asyncio.TaskGroup() as group:
        tasks = [group.create_task(any_node(p, each, depth)) for each in split(rng, 2)]
        tasks.append(group.create_task(rng.choice([fetch, charge])("in a group")))
    return sum([fold(i, task.result()) for i, task in enumerate(tasks)])


@node
async def completed_in_turn(p: Play, rng: Random, depth: int) -> int:
    total = 0
    todo: list[Any] = spawn(p, rng, depth) if rng.random() < 0.5 else [fetch(i) for i in range(3)]
    for each in asyncio.as_completed(todo, timeout=rng.choice([0.6, None])):
        total = fold(total, await each)
    return total


@leaf
async def left_behind(p: Play, rng: Random, depth: int) -> int:
    async def linger() -> None:
        try:
            while True:
                await asyncio.sleep(rng.choice([0.4, 2]))
                p.see("lingers", await fetch("linger"))
        finally:
            p.see("swept", await save("sweep"))

    p.kept.append(asyncio.create_task(linger()))
    return fold(0, await save("beside"))


@node
async def cancelled_by_hand(p: Play, rng: Random, depth: int) -> int:
    task = asyncio.create_task(any_node(p, rng, depth))
    await fetch("then cancel")
    task.cancel()
    (got,) = await asyncio.gather(task, return_exceptions=True)
    return fold(0, got)


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
