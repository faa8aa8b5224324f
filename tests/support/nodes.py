"""What random programs are made of: nodes that make calls and tasks. (More of them: nodes_waiting.py.)"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
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


@leaf
async def started(p: Play, rng: Random, depth: int) -> int:
    running = [await outlast.start(child(i)) for i in range(2)]
    p.see("started", [each.id for each in running])
    total = fold(0, await save("beside the children"))
    if rng.random() < 0.5:  # the second goes on, and nobody waits for it
        total = fold(total, await running[0].result())
    return total


@leaf
async def many(p: Play, rng: Random, depth: int) -> int:
    got = await asyncio.gather(*(rng.choice([fetch, save])(i) for i in range(8)), return_exceptions=True)
    total = 0
    for value in got:
        total = fold(total, value)
    return total


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


@node
async def swallowed(p: Play, rng: Random, depth: int) -> int:
    async def obstinate(each: Random) -> int:
        try:
            return await any_node(p, each, depth)
        except asyncio.CancelledError:
            cast("asyncio.Task[Any]", asyncio.current_task()).uncancel()
            p.see("swallowed", await save("all the same"))
            return 5

    tasks = [asyncio.create_task(obstinate(each)) for each in split(rng, 2)]
    await fetch("then cancel")
    for task in tasks:
        task.cancel("by hand")
    got = await asyncio.gather(*tasks, return_exceptions=True)
    return fold(fold(0, got[0]), got[1])


@node
async def abandoned(p: Play, rng: Random, depth: int) -> int:
    for each in asyncio.as_completed(spawn(p, rng, depth)):
        return fold(0, await each)  # the others go on
    return 0
