"""What a live run sees is what replay sees: values are taken when a step is called and when it ends."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import enum
import threading
import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest

import outlast
from outlast import Retry, step, workflow
from tests.behaviour.stage import OpenApp, Restart, failure


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Plan:
    goal: str
    parts: list[str] = field(default_factory=list)
    done: bool = False


VALUES: list[Any] = [
    None,
    True,
    0,
    -(2**70),
    1.5,
    float("inf"),
    "text ☃ \0",
    b"\x00\xff",
    [1, [2]],
    (1, (2, [3])),
    {"a": 1, "b": {"c": []}},
    {1: "int", (1, 2): "tuple", None: "none"},
    {3, 1, 2},
    frozenset({"a"}),
    dt.datetime(2024, 5, 1, 12, 30, 15, 123456, tzinfo=dt.UTC),
    dt.date(2024, 5, 1),
    dt.timedelta(days=1, microseconds=5),
    decimal.Decimal("1.20"),
    uuid.UUID(int=5),
    Colour.RED,
    Plan("g", ["a"]),
    ValueError("as a value"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_a_value_keeps_its_type_from_a_step_through_the_run_to_the_client(restart: Restart, value: Any) -> None:
    seen: list[Any] = []

    @step
    async def give() -> Any:
        return value

    @workflow
    async def passing() -> Any:
        got = await give()
        seen.append(got)
        await restart.point()
        return got

    result = await restart.result(passing())
    live, replayed = seen
    for one in (live, replayed, result):
        assert type(one) is type(value)
        assert repr(one) == repr(value)


async def test_nan_is_kept(open_app: OpenApp) -> None:
    @step
    async def give() -> Any:
        return {"score": float("nan"), "ok": 1}

    @workflow
    async def passing() -> Any:
        return await give()

    async with open_app() as app:
        result = await (await app.start(passing())).result()
    assert result["score"] != result["score"]
    assert result["ok"] == 1


async def test_the_live_value_is_the_decoded_record_and_not_the_object_of_the_step(restart: Restart) -> None:
    original = Plan("goal", ["a"])
    same: list[bool] = []

    @step
    async def plan() -> Plan:
        return original

    @workflow
    async def planning() -> Plan:
        got = await plan()
        same.append(got is original)
        original.parts.append("later")
        await restart.point()
        return got

    assert await restart.result(planning()) == Plan("goal", ["a"])
    assert same == [False, False]


async def test_what_a_step_changes_in_its_arguments_is_not_seen_by_the_body(restart: Restart) -> None:
    @step
    async def answer(messages: list[str]) -> str:
        messages.append("noted by the step")
        return f"answer {len(messages)}"

    @step
    def count(messages: list[str]) -> int:
        messages.clear()
        return 0

    @workflow
    async def chat() -> list[str]:
        messages = ["question"]
        messages.append(await answer(messages))
        await count.call(messages)
        await restart.point()
        messages.append(await answer(messages))
        return messages

    assert await restart.result(chat()) == ["question", "answer 2", "answer 3"]


async def test_what_the_body_changes_after_a_call_is_not_seen_by_the_step(open_app: OpenApp) -> None:
    @step
    async def size(items: list[int]) -> int:
        return len(items)

    @workflow
    async def changing() -> int:
        items = [1]
        task = asyncio.create_task(size(items))
        await asyncio.sleep(0)
        items.append(2)
        return await task

    async with open_app() as app:
        assert await (await app.start(changing())).result() == 1


async def test_each_attempt_gets_the_arguments_afresh(open_app: OpenApp) -> None:
    @step(retry=Retry(attempts=3, initial=0))
    async def pop(items: list[int]) -> int:
        items.pop()
        if outlast.attempt() < 3:
            raise ConnectionError
        return len(items)

    @workflow
    async def popping() -> int:
        return await pop([1, 2, 3])

    async with open_app() as app:
        assert await (await app.start(popping())).result() == 2


async def test_a_child_gets_the_arguments_of_the_moment_of_its_call(open_app: OpenApp) -> None:
    @workflow
    async def child(items: list[int]) -> int:
        return len(items)

    @workflow
    async def parent() -> int:
        items = [1]
        task = asyncio.create_task(child(items))
        await asyncio.sleep(0)
        items.append(2)
        return await task

    async with open_app() as app:
        assert await (await app.start(parent())).result() == 1


async def test_the_body_gets_its_own_copy_of_the_arguments_on_each_replay(restart: Restart) -> None:
    @step
    async def note(n: int) -> int:
        return n

    @workflow
    async def consuming(items: list[int]) -> list[int]:
        taken = []
        while items:
            taken.append(await note(items.pop()))
            await restart.point()
        return taken

    assert await restart.result(consuming([1, 2, 3])) == [3, 2, 1]


# -- what cannot be stored -----------------------------------------------------------------


@pytest.mark.parametrize("effect", ["pure", "idempotent", "once"])
async def test_a_result_that_cannot_be_stored_fails_its_step_once_with_the_path(open_app: OpenApp, effect: Any) -> None:
    effects: list[int] = []

    @step(effect=effect, retry=Retry(attempts=5, initial=0))
    async def give() -> Any:
        effects.append(1)
        return {"ok": 1, "bad": [threading.Lock()]}

    @workflow
    async def passing() -> Any:
        return await give()

    async with open_app() as app:
        run = await app.start(passing(), id="one")
        back = await failure(run)
        assert isinstance(back, outlast.EncodingError)
        assert "step main/give#1 of run one returned what cannot be stored: $.bad[0]" in str(back)
        assert await run.status() == "failed"
    assert len(effects) == 1


async def test_a_result_larger_than_the_limit_fails_its_step_once(open_app: OpenApp) -> None:
    effects: list[int] = []

    @step(retry=Retry(attempts=5, initial=0))
    async def give() -> str:
        effects.append(1)
        return "x" * (17 * 2**20)

    @workflow
    async def passing() -> str:
        try:
            return await give()
        except outlast.PayloadTooLarge as refused:
            return str(refused)

    async with open_app() as app:
        assert "step main/give#1" in await (await app.start(passing())).result()
    assert len(effects) == 1


async def test_many_large_results_at_once_are_all_kept(open_app: OpenApp) -> None:
    @step
    async def give(n: int, data: str) -> str:
        return data + str(n)

    @workflow
    async def fan_out() -> int:
        results = await asyncio.gather(*(give(n, "x" * 50_000) for n in range(100)))
        return sum(len(r) for r in results)

    async with open_app() as app:
        assert await (await app.start(fan_out())).result() == sum(50_000 + len(str(n)) for n in range(100))


async def test_a_set_has_one_order_live_and_on_replay(restart: Restart) -> None:
    orders: list[list[str]] = []

    @step
    async def give() -> set[str]:
        return {f"item {n}" for n in range(50)}

    @workflow
    async def ordering() -> int:
        orders.append(list(await give()))
        await restart.point()
        return len(orders[-1])

    assert await restart.result(ordering()) == 50
    assert orders[0] == orders[1]
