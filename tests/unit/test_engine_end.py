"""The end of a run: when its body returns, what it left behind is cancelled, cleans up, and only then it is over."""

# ruff: noqa: RUF006 - the run holds on to its tasks

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from outlast.core.errors import Diverged
from outlast.core.records import Kind
from outlast.core.transitions import Status
from tests.support.plain_codec import Boom
from tests.support.rig import Rig, a_step

fetch = a_step("fetch", effect="pure")
save = a_step("save")
charge = a_step("charge", effect="once")


async def _background(name: str, seen: list[Any]) -> None:
    try:
        await fetch(name)
    finally:
        seen.append(name)
        await save(name)


def test_remaining_tasks_are_cancelled_in_order_of_creation_and_clean_up_with_steps() -> None:
    seen: list[Any] = []

    async def body() -> str:
        tasks = [asyncio.create_task(_background(name, seen)) for name in "abc"]
        await asyncio.sleep(0)
        return f"{len(tasks)} left"

    rig = Rig(body).begin()
    assert seen == ["a", "b", "c"]
    assert rig.outcome is None
    assert rig.waiting == [f"main._background#{n}/save#1" for n in (1, 2, 3)]
    for key in rig.waiting:
        rig.finish(key)
    assert rig.result == "3 left"
    rig.must_replay()


def test_a_once_step_that_has_begun_reaches_an_outcome_before_the_run_ends() -> None:
    async def body() -> str:
        asyncio.create_task(charge(5))
        await fetch()
        return "done"

    rig = Rig(body).begin()
    rig.intend("main/charge#1")
    rig.finish("main/fetch#1")
    assert rig.outcome is None
    rig.finish("main/charge#1", "receipt")
    assert rig.result == "done"
    assert rig.records[-1].kind is Kind.STEP
    rig.must_replay()


def test_a_body_that_fails_ends_its_tasks_too() -> None:
    seen: list[Any] = []

    async def body() -> None:
        asyncio.create_task(_background("a", seen))
        await save()
        raise Boom("body")

    rig = Rig(body).begin()
    rig.finish("main/save#1")
    assert rig.outcome is None
    rig.finish("main._background#1/save#1")
    with pytest.raises(Boom, match="body"):
        _ = rig.result


def test_async_generators_left_open_are_closed_and_clean_up_with_steps() -> None:
    async def pages() -> AsyncIterator[int]:
        try:
            yield await fetch()
            yield 2
        finally:
            await save("close")

    async def body() -> int:
        async for page in pages():
            return page
        return 0

    rig = Rig(body).begin()
    rig.finish("main/fetch#1", 1)
    assert rig.waiting == ["main.aclose#1/save#1"]
    rig.finish(rig.waiting[0])
    assert rig.result == 1
    rig.must_replay()


def test_a_generator_in_the_midst_of_a_cancelled_task_ends_with_the_task() -> None:
    async def nested() -> None:
        try:
            await fetch()
        finally:
            await save("nested")

    async def pages() -> AsyncIterator[int]:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(nested())
            yield 1
        finally:
            await save("pages")

    async def consume() -> None:
        async for _ in pages():
            pass

    async def body() -> str:
        task = asyncio.create_task(consume())
        await save("main")
        return task.get_name()

    rig = Rig(body).begin()
    rig.finish("main/save#1")
    assert rig.waiting == ["main.consume#1.nested#1/save#1"]
    rig.finish(rig.waiting[0])
    assert rig.waiting == ["main.consume#1/save#1"]
    rig.finish(rig.waiting[0])
    assert rig.result == "main.consume#1"
    assert rig.engine.loop.unhandled == []
    rig.must_replay()


def test_garbage_collection_never_ends_a_task_or_a_generator() -> None:
    seen: list[Any] = []

    async def pages() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            seen.append("generator")

    async def body() -> None:
        asyncio.create_task(_background("task", seen))
        await anext(pages())
        await save()
        await save()

    rig = Rig(body).begin()
    for key in ("main/save#1", "main/save#2"):
        gc.collect()
        assert seen == []
        rig.finish(key)
    assert seen == ["task"]
    rig.finish("main._background#1/save#1")
    assert seen == ["task", "generator"]
    rig.must_replay()


def test_an_error_of_a_task_that_nobody_awaited_does_not_fail_the_run() -> None:
    async def fails() -> None:
        raise Boom("unseen")

    async def body() -> str:
        task = asyncio.create_task(fails())
        await asyncio.sleep(0)
        return task.get_name()

    rig = Rig(body).begin()
    assert rig.result == "main.fails#1"
    rig.engine.stop()
    gc.collect()


def test_the_culprit_is_the_step_whose_error_ended_the_run() -> None:
    async def body() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fetch())
        except* Boom as group_error:
            raise RuntimeError("wrapped") from group_error

    rig = Rig(body).begin()
    rig.finish("main/fetch#1", error=Boom("step"))
    assert rig.outcome is not None
    assert rig.outcome.status is Status.FAILED
    assert rig.outcome.culprit == "main/fetch#1"
    assert rig.must_replay().outcome is not None


def test_an_error_of_the_body_itself_has_no_culprit() -> None:
    async def body() -> None:
        await fetch()
        raise Boom("body")

    rig = Rig(body).begin()
    rig.finish("main/fetch#1")
    assert rig.outcome is not None
    assert rig.outcome.culprit == ""


def test_entries_left_over_at_the_end_diverge() -> None:
    async def before() -> None:
        await fetch()
        await save()

    async def after() -> str:
        await fetch()
        return "shorter"

    rig = Rig(before).begin()
    rig.finish("main/fetch#1")
    rig.finish("main/save#1")
    with pytest.raises(Diverged, match=r"returned, but its journal goes on\n  journal: #2 step main/save#1 \[\]\n"):
        _ = rig.replay(body=after).outcome


def test_an_open_intent_left_over_at_the_end_diverges() -> None:
    async def before() -> None:
        await charge()

    async def after() -> str:
        return "no charge at all"

    rig = Rig(before).begin()
    rig.intend("main/charge#1")
    with pytest.raises(Diverged, match="#1 intent main/charge#1"):
        _ = rig.replay(body=after).outcome
