"""Stopping a run from outside: its code ends at once, can start nothing more, and makes no noise.


Each test stops a run where it waits. Warnings are errors in this suite, those of the garbage collector too: a
coroutine or a task that was left to it fails the test.
"""

# ruff: noqa: RUF006 - the run holds on to its tasks

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

import outlast
from outlast.core import closing
from outlast.core.errors import Suspended
from outlast.core.identity import here
from tests.support.rig import Rig, a_step

fetch = a_step("fetch", effect="pure")
save = a_step("save")
charge = a_step("charge", effect="once")


@pytest.fixture
def seen() -> list[Any]:
    return []


def stopped(body: Callable[[], Coroutine[Any, Any, Any]], *, intends: str = "") -> Rig:
    """Stop a run where it first waits, and let the garbage collector have it."""
    rig = Rig(body).begin()
    if intends:
        rig.intend(intends)
    issued, records = list(rig.engine.calls), list(rig.records)
    rig.engine.stop()
    assert list(rig.engine.calls) == issued, "it issued a call after it was stopped"
    assert rig.engine.unsent == []
    rig.after_turn()
    assert rig.records == records
    assert not rig.engine.loop.timers
    gc.collect()
    return rig


def test_a_finally_block_can_start_nothing(seen: list[Any]) -> None:
    async def body() -> None:
        try:
            await fetch()
        finally:
            seen.append("finally")
            await save()
            seen.append("saved")

    stopped(body)
    assert seen == ["finally"]


def test_operations_that_do_not_wait_raise_suspended(seen: list[Any]) -> None:
    operations: list[Callable[[], Any]] = [outlast.now, outlast.uuid4, outlast.random, lambda: outlast.patched("x")]

    async def body() -> None:
        try:
            await fetch()
        finally:
            for operation in operations:
                try:
                    operation()
                except BaseException as error:  # noqa: BLE001
                    seen.append(type(error))

    stopped(body)
    assert seen == [Suspended] * len(operations)


def test_clean_up_that_waits_again_and_again_is_ended_again_and_again(seen: list[Any]) -> None:
    async def body() -> None:
        try:
            try:
                await fetch()
            finally:
                await asyncio.sleep(1)
        finally:
            try:
                await save()
            finally:
                seen.append("the end")

    stopped(body)
    assert seen == ["the end"]


def test_no_coroutine_in_a_chain_is_left_behind_though_the_outer_ones_catch_errors(seen: list[Any]) -> None:
    async def undo(i: int) -> None:
        await save(i)
        seen.append(f"undone {i}")

    async def inner() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for i in range(3):
                stack.push_async_callback(undo, i)
            await fetch()

    async def body() -> None:
        for _ in range(3):
            try:
                await inner()
            except Exception as error:  # noqa: BLE001
                seen.append(error)

    stopped(body)
    assert seen == []


def test_every_task_is_closed_with_its_clean_up(seen: list[Any]) -> None:
    async def work(i: int) -> None:
        try:
            await fetch(i)
        finally:
            seen.append(i)

    async def body() -> None:
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            for i in range(3):
                group.create_task(work(i))

    stopped(body)
    assert sorted(seen) == [0, 1, 2]


def test_tasks_made_while_it_is_stopped_never_run(seen: list[Any]) -> None:
    async def late() -> None:
        seen.append("late")

    async def body() -> None:
        try:
            await fetch()
        finally:
            asyncio.create_task(late())
            asyncio.get_running_loop().call_soon(seen.append, "callback")
            await asyncio.gather(late(), late())

    stopped(body)
    assert seen == []


def test_code_that_catches_everything_and_tries_again_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    keep = closing._keep
    monkeypatch.setattr(closing, "_keep", lambda coro: (kept.append(coro), keep(coro)))

    async def body() -> None:
        while True:
            try:
                await fetch()
            except BaseException:  # noqa: BLE001
                continue

    stopped(body)
    assert len(kept) == 1


def test_calls_that_were_made_and_not_yet_awaited_are_no_cause_for_a_warning() -> None:
    async def body() -> None:
        calls = [fetch(i) for i in range(3)]
        for call in calls:
            await call

    stopped(body)


def test_a_once_step_whose_intent_is_written_holds_nothing_up(seen: list[Any]) -> None:
    async def body() -> None:
        try:
            await charge()
        except BaseException as error:
            seen.append(type(error))
            raise

    stopped(body, intends="main/charge#1")
    assert seen == [Suspended]


def test_what_clean_up_raises_is_dropped(seen: list[Any]) -> None:
    async def body() -> None:
        try:
            await fetch()
        finally:
            seen.append("raises")
            raise SystemExit(3)

    stopped(body)
    assert seen == ["raises"]


def test_async_generators_are_closed(seen: list[Any]) -> None:
    async def pages() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            seen.append("closed")
            await save()
            seen.append("saved")

    async def body() -> None:
        source = pages()
        await anext(source)
        await fetch()

    stopped(body)
    assert seen == ["closed"]


def test_scopes_are_left_in_good_order(seen: list[Any]) -> None:
    async def body() -> None:
        try:
            with outlast.scope("a"):
                await fetch()
        except Exception as error:  # noqa: BLE001
            seen.append(error)

    stopped(body)
    assert seen == []


def test_the_loop_never_turns_again(seen: list[Any]) -> None:
    async def body() -> None:
        await fetch()
        seen.append("went on")

    rig = Rig(body).begin()
    pending = rig.engine.calls["main/fetch#1"]
    rig.engine.stop()
    rig.engine.stop()  # twice is once
    pending.future.cancel()
    rig.engine.loop.drain()
    assert seen == []


def test_a_run_that_has_ended_is_stopped_in_silence() -> None:
    async def body() -> int:
        return 1

    rig = Rig(body).begin()
    rig.engine.stop()
    assert rig.result == 1


def test_a_stopped_run_leaves_the_thread_as_it_was() -> None:
    async def body() -> None:
        try:
            await fetch()
        finally:
            await save()

    hooks = sys.get_asyncgen_hooks()
    stopped(body)
    assert sys.get_asyncgen_hooks() == hooks
    assert here.get() is None
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()
