"""`outlast.call` makes a step of a plain function, and of whatever else can be called."""

from __future__ import annotations

import functools
import threading
from typing import Any

import outlast
from outlast import step, workflow
from tests.behaviour.stage import OpenApp


@step
async def fetch(what: str) -> str:
    return f"fetched {what}"


def plain(n: int) -> list[Any]:
    return [n, outlast.current.step_id, threading.current_thread().name.startswith("outlast-step")]


async def plain_async(n: int) -> list[Any]:
    return [n, outlast.current.step_id]


async def test_outlast_call_makes_a_step_of_a_plain_function(open_app: OpenApp) -> None:
    @workflow
    async def calling() -> list[Any]:
        return [await outlast.call(plain, 1), await outlast.call(plain_async, n=2), await outlast.call(fetch, "x")]

    async with open_app() as app:
        run = await app.start(calling())
        assert await run.result() == [[1, "main/plain#1", True], [2, "main/plain_async#1"], "fetched x"]
        assert {s.effect for s in await run.steps()} == {"idempotent"}


async def test_outlast_call_takes_lambdas_partials_and_callable_objects(open_app: OpenApp) -> None:
    class Adder:
        def __call__(self, n: int) -> int:
            return n + 1

    @workflow
    async def calling() -> list[int]:
        return [
            await outlast.call(lambda: 1),
            await outlast.call(functools.partial(plain_sum, 1), 2),
            await outlast.call(Adder(), 3),
            await outlast.call(max, 1, 5),
        ]

    async with open_app() as app:
        assert await (await app.start(calling())).result() == [1, 3, 4, 5]


def plain_sum(a: int, b: int) -> int:
    return a + b
