"""A call takes whatever Python would take for its function; what does not fit or cannot be stored is named."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import outlast
from outlast import step, workflow
from tests.behaviour.stage import OpenApp


@step
async def fetch(what: str) -> str:
    return f"fetched {what}"


@step
def add(a: int, b: int = 1) -> int:
    return a + b


@step(effect="once")
async def pay(cents: int) -> int:
    return cents


@workflow
async def flow(what: str) -> str:
    return await fetch(what)


async def test_arguments_that_cannot_be_stored_fail_the_call_with_their_path_and_can_be_caught(
    open_app: OpenApp,
) -> None:
    kept: list[Any] = []

    @step
    async def keep(value: Any) -> str:
        kept.append(value)
        return "kept"

    @workflow
    async def careful() -> str:
        try:
            await keep({"a": [threading.Lock()]})
        except outlast.EncodingError as refused:
            try:
                await keep(value=object())
            except outlast.EncodingError as by_name:
                return f"{refused} {by_name}"
        return "stored"

    async with open_app() as app:
        said = await (await app.start(careful())).result()
    assert "argument 'value'.a[0]: type _thread.lock" in said
    assert "argument 'value': type object" in said
    assert kept == []


async def test_a_call_with_wrong_arguments_raises_type_error_in_the_body(open_app: OpenApp) -> None:
    wrongs: list[Callable[[], Any]] = [
        lambda: fetch("x", "y"),  # type: ignore[call-arg]
        lambda: fetch(*[]),
        lambda: fetch("x", wat="y"),  # type: ignore[call-arg]
        lambda: add.call(b=2),  # type: ignore[call-arg]
        lambda: pay.options(key="k")(cents=5, card=1),  # type: ignore[call-arg]
        lambda: Shop().sell(),  # type: ignore[call-arg]
        lambda: flow("x", 5),  # type: ignore[call-arg]
        lambda: outlast.call(plain, 1, 2),
    ]

    def texts() -> list[str]:
        found = []
        for wrong in wrongs:
            try:
                wrong()
            except TypeError as error:
                found.append(str(error))
        return found

    @workflow
    async def trying() -> list[str]:
        found = texts()
        await fetch("x")
        return found

    @workflow
    def trying_blocking() -> list[str]:
        found = texts()
        fetch("x").result()
        return found

    expected = [
        "step fetch(what: str) -> str: too many positional arguments",
        "step fetch(what: str) -> str: missing a required argument: 'what'",
        "step fetch(what: str) -> str: got an unexpected keyword argument 'wat'",
        "step add(a: int, b: int = 1) -> int: missing a required argument: 'a'",
        "step pay(cents: int) -> int: got an unexpected keyword argument 'card'",
        "step sell(what: str) -> str: missing a required argument: 'what'",
        "workflow flow(what: str) -> str: too many positional arguments",
        "step plain(n: int) -> list[typing.Any]: too many positional arguments",
    ]
    async with open_app() as app:
        for call in (trying(), trying_blocking()):
            run = await app.start(call)
            assert await run.result() == expected
            assert [shown.id for shown in await run.steps()] == ["main/fetch#1"]
    assert texts() == expected  # outside of a run as well


async def test_every_way_to_call_a_function_that_python_takes_is_taken(open_app: OpenApp) -> None:
    @step
    async def many(a: int, /, b: int, *more: int, c: int, d: int = 4, **rest: int) -> list[Any]:
        return [a, b, list(more), c, d, rest]

    @step
    @with_answer
    async def given(answer: int, question: str) -> list[Any]:
        return [answer, question]

    @workflow
    async def calling() -> list[Any]:
        shop = Shop()
        return [
            await many(1, 2, c=3),
            await many(1, b=2, c=3, d=5),
            await many(1, 2, 3, 4, c=5, e=6),
            await given("why?"),  # type: ignore[call-arg, arg-type]
            await given(question="why?"),  # type: ignore[call-arg]
            await shop.sell("lamp"),
            await shop.sell(what="lamp"),
            await shop.sell.options(key="k")("lamp"),
        ]

    async with open_app() as app:
        found = await (await app.start(calling())).result()
    assert found[:3] == [[1, 2, [], 3, 4, {}], [1, 2, [], 3, 5, {}], [1, 2, [3, 4], 5, 4, {"e": 6}]]
    assert found[3:] == [[42, "why?"]] * 2 + ["lamp"] * 3


def with_answer(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function one argument more than its caller does."""

    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await function(42, *args, **kwargs)

    return wrapper


class Shop:
    @step
    async def sell(self, what: str) -> str:
        return what


def plain(n: int) -> list[Any]:
    return [n]
