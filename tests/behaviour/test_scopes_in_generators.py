"""A scope in a generator holds for the generator's own code, however that is mixed with the code that iterates it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import outlast
from outlast import WrongUse, step, workflow
from tests.behaviour.stage import Ears, OpenApp, Restart, failure

Body = Callable[[], Any]


@step
async def work(what: Any = None) -> Any:
    return what


@step
def work_in_thread() -> None: ...


async def pages(name: str = "pages", count: int = 2) -> AsyncIterator[int]:
    """Yield inside of a scope, with a call before each and one in its clean-up."""
    with outlast.scope(name):
        try:
            for n in range(count):
                await work(n)
                yield n
        finally:
            await work("clean-up")


async def ids_of(open_app: OpenApp, body: Body) -> list[str]:
    """Return the identities of the calls that a body makes, in order."""

    @workflow
    async def flow() -> None:
        await body()

    async with open_app() as app:
        run = await app.start(flow())
        await run.result()
        return [shown.id for shown in await run.steps()]


async def test_who_iterates_calls_in_its_own_branch(open_app: OpenApp) -> None:
    async def body() -> None:
        async for _ in pages():
            await work()
        await work()

    assert await ids_of(open_app, body) == [
        "main.[pages]/work#1",
        "main/work#1",
        "main.[pages]/work#2",
        "main/work#2",
        "main.[pages]/work#3",
        "main/work#3",
    ]


async def test_whatever_else_is_named_after_a_branch_is_its_own_too(open_app: OpenApp) -> None:
    seen: list[Any] = []

    async def body() -> None:
        source = pages()
        for when in ("before", "within", "after"):
            async with asyncio.TaskGroup() as group:
                group.create_task(work.options(key=when)())
                group.create_task(nested())
            async with asyncio.timeout(3600):
                await asyncio.sleep(0.001)
            with outlast.scope("own"):
                await work()
            seen.append(await anext(source, None) if when != "after" else await source.aclose())

    async def nested() -> None:
        await work()

    ids = await ids_of(open_app, body)
    assert [i for i in ids if "pages" in i] == [f"main.[pages]/work#{n}" for n in (1, 2, 3)]
    assert [i for i in ids if "own" in i] == [f"main.[own]{n}/work#1" for n in ("", "#2", "#3")]
    assert [i for i in ids if "nested" in i] == [f"main.nested#{n}/work#1" for n in (1, 2, 3)]
    assert [i for i in ids if "timer" in i] == [f"main/!timer#{n}" for n in (2, 4, 6)]
    assert [i for i in ids if i.endswith("]") or i.startswith("main/work")] == [
        f"main/work[{when}]" for when in ("before", "within", "after")
    ]


async def test_the_generators_tasks_and_waits_are_in_its_scope_on_every_python(open_app: OpenApp) -> None:
    async def helper() -> None:
        await work()

    async def source() -> AsyncIterator[None]:
        with outlast.scope("s"):
            await asyncio.wait_for(helper(), 3600)
            await asyncio.create_task(helper())
            yield
            await asyncio.wait_for(helper(), 3600)

    async def body() -> None:
        async for _ in source():
            await asyncio.wait_for(helper(), 3600)

    assert await ids_of(open_app, body) == [
        "main.[s]/work#1",
        "main.[s].helper#1/work#1",
        "main/work#1",
        "main.[s]/work#2",
    ]


async def test_generators_may_take_turns(open_app: OpenApp) -> None:
    async def body() -> None:
        first, second = pages("first"), pages("second", count=3)
        await anext(first)
        await anext(second)
        async for _ in first:
            pass
        await work()
        async for _ in second:
            pass
        await work()

    ids = await ids_of(open_app, body)
    assert [i for i in ids if "first" in i] == [f"main.[first]/work#{n}" for n in (1, 2, 3)]
    assert [i for i in ids if "second" in i] == [f"main.[second]/work#{n}" for n in (1, 2, 3, 4)]
    assert [i for i in ids if "[" not in i] == ["main/work#1", "main/work#2"]


async def test_a_generator_that_iterates_another_has_its_own_scope_again(open_app: OpenApp) -> None:
    async def outer() -> AsyncIterator[int]:
        with outlast.scope("outer"):
            async for n in pages("inner", count=1):
                await work()
                yield n
            await work()

    async def body() -> None:
        async for _ in outer():
            await work()

    assert await ids_of(open_app, body) == [
        "main.[outer].[inner]/work#1",
        "main.[outer]/work#1",
        "main/work#1",
        "main.[outer].[inner]/work#2",
        "main.[outer]/work#2",
    ]


@pytest.mark.parametrize("close", [True, False], ids=["closed", "left"])
async def test_a_generator_that_is_not_exhausted_cleans_up_without_an_error(
    open_app: OpenApp, ears: Ears, close: bool
) -> None:
    """One that is left open is closed at the run's end, by a task of its own."""

    @workflow
    async def flow() -> None:
        for _ in range(3):
            source = pages()
            async for _ in source:
                break
            if close:
                await source.aclose()
            await work()

    async with open_app(on_event=ears) as app:
        run = await app.start(flow())
        await run.result()
        ids = [shown.id for shown in await run.steps()]
        shown = [step.value for step in await run.steps()]
    assert [i for i in ids if i.startswith("main/")] == [f"main/work#{n}" for n in (1, 2, 3)]
    assert shown.count("clean-up") == 3
    assert ears.heard("body.unhandled") == []


async def test_it_is_the_same_on_replay(restart: Restart) -> None:
    async def source() -> AsyncIterator[int]:
        with outlast.scope("s"):
            yield await work(1)
            await restart.point()
            yield await work(2)

    @workflow
    async def flow() -> list[Any]:
        return [(n, await work(n)) async for n in source()]

    assert [tuple(pair) for pair in await restart.result(flow())] == [(1, 1), (2, 2)]


async def test_a_scope_that_is_left_before_each_yield_is_as_anywhere(open_app: OpenApp) -> None:
    async def source() -> AsyncIterator[Any]:
        for n in range(2):
            with outlast.scope(f"page {n}"):
                found = await work(n)
            yield found

    async def body() -> None:
        async for _ in source():
            await work()

    assert await ids_of(open_app, body) == [
        "main.[page 0]/work#1",
        "main/work#1",
        "main.[page 1]/work#1",
        "main/work#2",
    ]


async def test_a_context_manager_made_of_a_generator_gives_its_scope_to_its_with_block(open_app: OpenApp) -> None:
    @contextlib.contextmanager
    def order(name: str) -> Iterator[None]:
        with outlast.scope(name):
            yield

    @contextlib.asynccontextmanager
    async def session(name: str) -> AsyncIterator[None]:
        await work()
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(order(name))
            yield

    async def source() -> AsyncIterator[None]:
        async with session("in source"):
            await work()
            yield

    async def body() -> None:
        with order("a"):
            await work()
        async with session("b"):
            await work()
        async for _ in source():
            await work()

    assert await ids_of(open_app, body) == [
        "main.[a]/work#1",
        "main/work#1",
        "main.[b]/work#1",
        "main/work#2",
        "main.[in source]/work#1",
        "main/work#3",
    ]


async def test_a_plain_generator_is_no_different(open_app: OpenApp) -> None:
    def source() -> Iterator[None]:
        with outlast.scope("s"):
            work_in_thread()
            yield
            work_in_thread()

    @workflow
    def flow() -> None:
        for _ in source():
            work_in_thread()
        next(source())  # let go of at once
        work_in_thread()

    async with open_app() as app:
        run = await app.start(flow())
        await run.result()
        assert [shown.id for shown in await run.steps()] == [
            "main.[s]/work_in_thread#1",
            "main/work_in_thread#1",
            "main.[s]/work_in_thread#2",
            "main.[s]#2/work_in_thread#1",
            "main/work_in_thread#2",
        ]


async def test_a_generator_that_several_tasks_iterate_in_turn_is_refused_and_told_why(open_app: OpenApp) -> None:
    @workflow
    async def flow() -> None:
        source = pages()

        async def take() -> int | None:
            return await anext(source, None)

        while await asyncio.create_task(take()) is not None:
            pass

    async with open_app() as app:
        error = await failure(await app.start(flow()))
    assert type(error) is WrongUse
    assert "scope('pages') was entered by one task and left by another" in str(error)
    assert "leave the scope before each yield" in str(error)
