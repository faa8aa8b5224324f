"""Code that passes the text of a traceback on to a step replays: the text is the same live and after a restart."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from outlast import Retry, step, workflow
from tests.behaviour.stage import Door, OpenApp, Restart, unless_it_ends

reported: list[str] = []


@step
async def report(text: str) -> None:
    reported.append(text)


@step
async def fail() -> None:
    try:
        {}["missing"]
    except KeyError as error:
        raise ValueError("not found") from error


@step(retry=Retry(attempts=3, initial=0))
def fail_in_a_thread() -> None:
    raise ConnectionError("down")


@step(timeout=0.01)
async def take_too_long() -> None:
    await asyncio.sleep(3600)


@step
async def take(value: Any) -> None: ...


@workflow
async def fail_in_a_child() -> None:
    await fail()


async def fail_in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(fail())
        group.create_task(fail_in_a_child())


async def be_late() -> None:
    async with asyncio.timeout(0.01):
        await asyncio.sleep(3600)


WAYS: dict[str, Callable[[], Awaitable[Any]]] = {
    "a step": fail,
    "a thread": fail_in_a_thread.call,
    "a timeout of a step": take_too_long,
    "a child": fail_in_a_child,
    "a group": fail_in_a_group,
    "gather": lambda: asyncio.gather(fail(), asyncio.sleep(0)),
    "wait_for": lambda: asyncio.wait_for(fail(), 3600),
    "a task": lambda: asyncio.create_task(fail_in_a_child()),
    "a shield": lambda: asyncio.shield(fail()),
    "a timeout": be_late,
    "a refusal": lambda: take(threading.Lock()),
}


@pytest.mark.parametrize("way", WAYS)
async def test_it_is_the_same_after_a_restart(restart: Restart, way: str) -> None:
    reported.clear()

    @workflow
    async def flow() -> str:
        for _ in range(2):
            try:
                await WAYS[way]()
            except Exception as error:  # noqa: BLE001 - whatever it is, its text is what matters
                await report(f"{traceback.format_exc()} {error!r}")
            await restart.point()
        return "replayed"

    assert await restart.result(flow()) == "replayed"
    assert len(reported) == 2


@pytest.mark.parametrize("way", ["a step", "a thread", "a child"])
async def test_it_is_the_same_in_a_sync_body(open_app: OpenApp, way: str) -> None:
    reported.clear()
    door = Door()

    @step
    async def point() -> None:
        await door.passed()

    def do() -> None:
        if way == "a thread":
            fail_in_a_thread()
        else:
            (fail() if way == "a step" else fail_in_a_child()).result()

    @workflow
    def flow() -> str:
        for _ in range(2):
            try:
                do()
            except Exception as error:  # noqa: BLE001 - whatever it is, its text is what matters
                report(f"{traceback.format_exc()} {error!r}").result()
            point().result()
        return "replayed"

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await unless_it_ends(run, door.reached())
    door.open()
    async with open_app() as app:
        assert await (await app.get("one")).result() == "replayed"
    assert len(reported) == 2
