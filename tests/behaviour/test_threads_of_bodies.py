"""A thread that a workflow body starts is not refused, and no step called there is taken for the plain function."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import outlast
import outlast.sync
from outlast import LostRun, step, workflow
from tests.behaviour.flows import add, executed
from tests.behaviour.stage import OpenApp, failure


@step(effect="pure")
async def think(what: str) -> str:
    executed.append(what)
    return what


@step(effect="once")
def pay() -> None:
    executed.append("paid")


@workflow
async def child() -> None:
    executed.append("child")


def error_of(act: Callable[[], Any]) -> BaseException | None:
    """Return what it raises."""
    try:
        act()
    except BaseException as error:  # noqa: BLE001 - the test looks at it
        return error
    return None


def in_a_thread(act: Callable[[], Any]) -> BaseException | None:
    """Return what it raises in a thread of its own."""
    found: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: found.append(error_of(act)))
    thread.start()
    thread.join()
    return found[0]


def in_a_pool(act: Callable[[], Any]) -> BaseException | None:
    """Return what it raises in a pool made for it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(error_of, act).result()


def in_a_thread_of_a_thread(act: Callable[[], Any]) -> BaseException | None:
    """Return what it raises in a thread that another one starts."""
    found: list[BaseException | None] = []
    assert in_a_thread(lambda: found.append(in_a_pool(act))) is None
    return found[0]


USES: dict[str, Callable[[], Any]] = {
    "sync step": lambda: add(1, 2),
    "call of a sync step": lambda: asyncio.run(_awaited(add.call(1, 2))),
    "async step": lambda: asyncio.run(_awaited(think("x"))),
    "once step": pay,
    "workflow": lambda: asyncio.run(_awaited(child())),
    "plain function": lambda: asyncio.run(_awaited(outlast.call(len, "x"))),
    "now": outlast.now,
    "uuid4": outlast.uuid4,
    "random": lambda: outlast.random.choice([1, 2]),
    "patched": lambda: outlast.patched("x"),
    "sleep": lambda: outlast.sync.sleep(3600),
}


async def _awaited(call: Any) -> Any:
    return await call


WAYS = [in_a_thread, in_a_pool, in_a_thread_of_a_thread]


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("way", WAYS)
async def test_what_belongs_in_the_body_is_refused_in_its_threads_and_names_the_run(
    open_app: OpenApp, way: Callable[[Callable[[], Any]], BaseException | None], blocking: bool
) -> None:
    found: dict[str, BaseException | None] = {}

    def body() -> None:
        for name, act in USES.items():
            found[name] = way(act)

    @workflow
    async def flow() -> None:
        body()

    @workflow
    def blocking_flow() -> None:
        body()

    async with open_app() as app:
        run = await app.start(blocking_flow() if blocking else flow(), id="one")
        await run.result()
        assert await run.steps() == []
    assert {name for name, error in found.items() if type(error) is not LostRun} == set()
    for error in found.values():
        assert "in a thread that the body of run one (" in str(error)
        assert "do all the work of that thread in a step" in str(error)
    assert executed == []


async def test_what_belongs_in_a_sync_body_is_refused_in_a_context_that_is_not_its_own(open_app: OpenApp) -> None:
    found: dict[str, BaseException | None] = {}
    uses = USES | {
        "result of an async step": lambda: think("x").result(),
        "result of a workflow": lambda: child().result(),
    }

    @workflow
    def flow() -> int:
        for name, act in uses.items():
            found[name] = contextvars.Context().run(error_of, act)
            found[f"{name}, in a thread"] = contextvars.Context().run(in_a_thread, act)
        return add(1, 2)

    async with open_app() as app:
        run = await app.start(flow())
        assert await run.result() == 3
        assert [s.id for s in await run.steps()] == ["main/add#1"]
    assert {name for name, error in found.items() if type(error) is not LostRun} == set()
    assert executed == [(1, 2)]


async def test_a_sync_app_is_refused_in_a_sync_body_in_whatever_context(url: str, open_app: OpenApp) -> None:
    @workflow
    def flow() -> str:
        def use() -> None:
            with outlast.sync.App(url, worker=False) as app:
                app.start(child())

        return str(contextvars.Context().run(error_of, use))

    async with open_app() as app:
        assert "an App cannot be used in a workflow body" in await (await app.start(flow())).result()


async def test_a_thread_whose_error_nobody_catches_fails_the_body_that_waits_for_it(open_app: OpenApp) -> None:
    @workflow
    async def flow() -> list[int]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(add, [1, 2], [3, 4]))

    async with open_app() as app:
        assert isinstance(await failure(await app.start(flow())), LostRun)
    assert executed == []


async def test_a_thread_that_needs_nothing_of_the_run_just_runs(open_app: OpenApp) -> None:
    """As those that a library starts out of a log call."""

    @workflow
    async def flow() -> str:
        assert in_a_thread(lambda: executed.append("sent")) is None
        return await think("x")

    async with open_app() as app:
        assert await (await app.start(flow())).result() == "x"
    assert executed == ["sent", "x"]


async def test_a_thread_that_a_step_starts_is_not_the_bodys(open_app: OpenApp) -> None:
    @step
    def fan_out() -> list[int]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(add, [1, 2], [3, 4]))

    @workflow
    async def flow() -> list[int]:
        return await fan_out.call()

    @workflow
    def blocking_flow() -> list[int]:
        return fan_out()

    async with open_app() as app:
        assert await (await app.start(flow())).result() == [4, 6]
        assert await (await app.start(blocking_flow())).result() == [4, 6]


async def test_threads_of_steps_are_not_taken_for_the_bodys_that_made_the_first_call(open_app: OpenApp) -> None:
    @step
    def nested() -> int:
        return contextvars.Context().run(add, 1, 2)

    @workflow
    def inner() -> int:
        return nested()

    @workflow
    def blocking_flow() -> int:
        return nested() + inner().result()

    async with open_app() as app:
        assert await (await app.start(blocking_flow())).result() == 6


async def test_a_thread_made_outside_of_the_body_is_what_it_was() -> None:
    assert in_a_thread(lambda: executed.append(add(1, 2))) is None
    assert executed == [(1, 2), 3]
