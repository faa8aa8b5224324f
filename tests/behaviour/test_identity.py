"""The identity of a step: by name and order of creation within its branch, or by a key; never by timing."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

import outlast
from outlast import step, workflow
from tests.behaviour.stage import OpenApp, Restart


@step
async def work(what: Any = None) -> Any:
    return what


async def ids_of(open_app: OpenApp, call: Any) -> list[str]:
    async with open_app() as app:
        run = await app.start(call)
        await run.result()
        return [s.id for s in await run.steps()]


async def test_calls_in_the_body_are_numbered_by_name(open_app: OpenApp) -> None:
    @step
    async def other() -> None: ...

    @workflow
    async def flow() -> None:
        await work()
        await other()
        await work()

    assert await ids_of(open_app, flow()) == ["main/work#1", "main/other#1", "main/work#2"]


async def test_a_call_is_numbered_when_it_is_made_and_not_when_it_is_awaited(open_app: OpenApp) -> None:
    @workflow
    async def flow() -> list[Any]:
        first, second = work("first"), work("second")
        return [await second, await first]

    assert await ids_of(open_app, flow()) == ["main/work#2", "main/work#1"]


async def test_a_task_is_a_branch_named_after_its_coroutine(open_app: OpenApp) -> None:
    async def branch(n: int) -> None:
        await work(n)
        await work(n)

    @workflow
    async def flow() -> None:
        await asyncio.gather(branch(1), branch(2))

    assert sorted(await ids_of(open_app, flow())) == [
        "main.branch#1/work#1",
        "main.branch#1/work#2",
        "main.branch#2/work#1",
        "main.branch#2/work#2",
    ]


@pytest.mark.parametrize("spawn", ["wait_for", "gather", "create_task", "timeout"])
async def test_a_bare_call_keeps_its_identity_however_it_is_awaited(open_app: OpenApp, spawn: str) -> None:
    @workflow
    async def flow() -> None:
        match spawn:
            case "wait_for":
                await asyncio.wait_for(work(), 60)
            case "gather":
                await asyncio.gather(work())
            case "create_task":
                await asyncio.create_task(work())
            case _:
                async with asyncio.timeout(60):
                    await work()

    assert await ids_of(open_app, flow()) == ["main/work#1"]


async def test_a_key_names_a_step(open_app: OpenApp) -> None:
    @workflow
    async def flow() -> None:
        await work.options(key="call_abc")()
        await work()
        await work.options(key="a/b#c.d[e]%")()

    assert await ids_of(open_app, flow()) == [
        "main/work[call_abc]",
        "main/work#1",
        "main/work[a%2Fb%23c%2Ed%5Be%5D%25]",
    ]


@pytest.mark.parametrize("key", ["a\0b", "\ud800", "line\nbreak", "ü☃", "", " "])
async def test_any_text_can_be_a_key(restart: Restart, key: str) -> None:
    executions: list[int] = []

    @step
    async def count() -> int:
        executions.append(1)
        return len(executions)

    @workflow
    async def flow() -> list[int]:
        with outlast.scope(key):
            first = await count.options(key=key)()
        await restart.point()
        return [first, await count()]

    assert await restart.result(flow()) == [1, 2]


async def test_a_key_used_twice_gives_two_steps(restart: Restart) -> None:
    @workflow
    async def flow() -> list[Any]:
        first = await work.options(key="same")("a")
        second = await work.options(key="same")("b")
        await restart.point()
        return [first, second]

    assert await restart.result(flow()) == ["a", "b"]


async def test_keys_that_would_read_alike_stay_apart(open_app: OpenApp) -> None:
    keys = ["a\0", "a%00", "a", "A", "a ", "a#1", "a%231"]

    @workflow
    async def flow() -> list[Any]:
        return [await work.options(key=key)(key) for key in keys]

    assert len(set(await ids_of(open_app, flow()))) == len(keys)


async def test_a_scope_names_a_branch(open_app: OpenApp) -> None:
    @workflow
    async def flow() -> None:
        with outlast.scope("order 5"):
            await work()
            with outlast.scope("line 1"):
                await work()
        await work()
        with outlast.scope("order 5"):
            await work()

    assert await ids_of(open_app, flow()) == [
        "main.[order 5]/work#1",
        "main.[order 5].[line 1]/work#1",
        "main/work#1",
        "main.[order 5]#2/work#1",
    ]


async def test_a_scope_survives_that_another_comes_before_it(restart: Restart) -> None:
    executed: list[str] = []
    orders = ["b"]

    @step
    async def ship(order: str) -> str:
        executed.append(order)
        return order

    @workflow
    async def shipping() -> list[str]:
        shipped = []
        for order in sorted(orders):
            with outlast.scope(order):
                shipped.append(await ship(order))
        await restart.point()
        return shipped

    run = await restart.run(shipping())
    assert run
    assert executed == ["b"]


async def test_random_timing_replays_every_time(open_app: OpenApp, restart: Restart) -> None:
    """Two chains of steps of random length, side by side: what was recorded is found again, in any interleaving."""

    @step
    async def hop(chain: int, n: int) -> int:
        for _ in range(random.randrange(4)):
            await asyncio.sleep(0)
        return n

    async def chain(number: int) -> list[int]:
        return [await hop(number, n) for n in range(3)]

    @workflow
    async def chains() -> list[list[int]]:
        found = list(await asyncio.gather(chain(0), chain(1), chain(2)))
        await restart.point()
        return found

    for _ in range(20):
        assert await restart.result(chains()) == [[0, 1, 2]] * 3


async def test_positions_do_not_depend_on_what_came_first(restart: Restart) -> None:
    """Different steps under gather, each after a random wait."""

    @step
    async def a() -> str:
        return "a"

    @step
    async def b() -> str:
        return "b"

    @step
    async def wait(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    async def after(turns: int, call: Any) -> str:
        await wait(turns)
        return str(await call())

    @workflow
    async def racing(turns: list[int]) -> list[str]:
        found = list(await asyncio.gather(after(turns[0], a), after(turns[1], b), after(turns[2], a)))
        await restart.point()
        return found

    for turns in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        assert await restart.result(racing(turns)) == ["a", "b", "a"]
