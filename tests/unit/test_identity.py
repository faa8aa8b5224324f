"""Identities: which name a call, a timer, a task or a draw has, and that timing has no part in it."""

from __future__ import annotations

import asyncio
import itertools
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import outlast
from outlast.core.errors import WrongUse
from outlast.core.identity import (
    DIGEST_ABOVE_BYTES,
    MAX_ID_LENGTH,
    Branch,
    check_run_id,
    child_run_id,
    derive,
    recorded_args,
)
from tests.support.rig import Body, Rig, a_step, a_workflow

fetch = a_step("fetch")
save = a_step("save")
child = a_workflow("child")


def keys_of(body: Body) -> list[str]:
    """Return the identities of all calls that a body issues, in order of issue; each is finished as it comes."""
    rig, issued = Rig(body).begin(), list[str]()
    while rig.waiting:
        issued += [key for key in rig.waiting if key not in issued]
        rig.finish(rig.waiting[0])
    rig.must_replay()
    return issued


def test_calls_of_one_name_are_numbered_in_the_order_they_are_made() -> None:
    async def body() -> None:
        await fetch()
        await save()
        await fetch()
        await child()

    assert keys_of(body) == ["main/fetch#1", "main/save#1", "main/fetch#2", "main/child#1"]


def test_the_number_is_that_of_the_making_and_not_of_the_awaiting() -> None:
    async def body() -> None:
        first, second = fetch(), fetch()
        await second
        await first

    assert keys_of(body) == ["main/fetch#2", "main/fetch#1"]


def test_a_key_names_a_call_and_leaves_the_numbers_alone() -> None:
    async def body() -> None:
        await fetch.options(key="a")()
        await fetch()
        await fetch.options(key="a")()

    assert keys_of(body) == ["main/fetch[a]", "main/fetch#1", "main/fetch[a]#2"]


def test_a_scope_is_a_branch_of_its_own() -> None:
    async def body() -> None:
        for order in ("b", "a"):
            with outlast.scope(order):
                await fetch()
        with outlast.scope("a"), outlast.scope("inner"):
            await fetch()
        await fetch()

    assert keys_of(body) == [
        "main.[b]/fetch#1",
        "main.[a]/fetch#1",
        "main.[a]#2.[inner]/fetch#1",
        "main/fetch#1",
    ]


def test_a_task_is_a_branch_named_by_its_coroutine() -> None:
    async def work() -> None:
        await fetch()
        await asyncio.gather(more(), more())

    async def more() -> None:
        await save()

    async def body() -> None:
        await asyncio.create_task(work(), name="any name")
        async with asyncio.TaskGroup() as group:
            group.create_task(work())

    assert keys_of(body) == [
        "main.work#1/fetch#1",
        "main.work#1.more#1/save#1",
        "main.work#1.more#2/save#1",
        "main.work#2/fetch#1",
        "main.work#2.more#1/save#1",
        "main.work#2.more#2/save#1",
    ]


def test_a_call_given_to_a_task_keeps_the_identity_it_was_made_with() -> None:
    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fetch())
        await asyncio.gather(fetch(), asyncio.create_task(fetch()))
        await asyncio.wait_for(fetch(), 5)
        await asyncio.shield(fetch())

    assert sorted(keys_of(body)) == [f"main/fetch#{n}" for n in (1, 2, 3, 4, 5)]


def test_wait_for_goes_on_in_the_branch_that_waits() -> None:
    async def work() -> None:
        await fetch()
        await asyncio.create_task(inner())

    async def inner() -> None:
        await fetch()

    async def body() -> None:
        await asyncio.wait_for(work(), 5)
        await asyncio.wait_for(work(), None)
        await fetch()

    assert keys_of(body) == [
        "main/fetch#1",
        "main.inner#1/fetch#1",
        "main/fetch#2",
        "main.inner#2/fetch#1",
        "main/fetch#3",
    ]


def test_timers_are_numbered_in_their_branch() -> None:
    async def nap() -> None:
        await asyncio.sleep(1)
        await asyncio.sleep(2)

    async def body() -> None:
        async with asyncio.timeout(9):
            await asyncio.gather(nap(), asyncio.wait_for(nap(), 8))

    rig = Rig(body).begin()
    assert rig.timers == {
        "main/!timer#1": 9,
        "main.nap#1/!timer#1": 1,
        "main.wait_for#1/!timer#1": 8,
        "main.wait_for#1/!timer#2": 1,
    }
    assert rig.fire() == "main.nap#1/!timer#1"  # of two that are due at once, the one that was set first
    assert rig.fire() == "main.wait_for#1/!timer#2"
    assert rig.fire() == "main.nap#1/!timer#2"
    rig.must_replay()


def test_draws_belong_to_their_branch_and_place() -> None:
    async def draw() -> list[Any]:
        return [outlast.uuid4().hex, outlast.random.randint(0, 10**9)]

    async def body() -> list[Any]:
        together = await asyncio.gather(draw(), draw())
        return [*together, await draw(), await draw()]

    rig = Rig(body).begin()
    seen = [value for pair in rig.result for value in pair]
    assert len(set(seen)) == len(seen)
    assert rig.replay().result == rig.result
    assert Rig(body, incarnation="another").begin().result != rig.result


def test_the_order_in_which_things_happen_changes_no_identity() -> None:
    async def work(name: str) -> None:
        await fetch(name)
        await save(name)
        await asyncio.wait_for(save(name), 5)

    async def body() -> None:
        await asyncio.gather(*(work(name) for name in "abc"))

    issued = set()
    for order in itertools.permutations(range(3)):
        rig = Rig(body).begin()
        for n in order:
            for key in ("fetch#1", "save#1", "save#2"):
                rig.finish(f"main.work#{n + 1}/{key}")
        assert rig.outcome is not None
        issued.add(frozenset((record.key, record.args) for record in rig.records))
    assert [len(calls) for calls in issued] == [9]


def test_sets_of_tasks_calls_and_futures_iterate_by_their_order_in_the_branch() -> None:
    async def body() -> list[list[str]]:
        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(asyncio.sleep(0), name=f"{n}") for n in range(3)]
        futures = [loop.create_future() for _ in range(3)]
        for future in futures:
            future.set_result(None)
        calls = [fetch() for _ in range(3)]
        for call in calls:
            call.close()
        done, _ = await asyncio.wait(tasks)
        ready, _ = await asyncio.wait(futures)
        return [
            [task.get_name() for task in done],
            [f"{futures.index(future)}" for future in ready],
            [call.key for call in set(calls)],
        ]

    rigs = [Rig(body).begin() for _ in range(20)]  # twenty, since addresses may agree by chance
    assert len({repr(rig.result) for rig in rigs}) == 1


def test_a_task_that_has_no_name_is_named_by_its_branch() -> None:
    async def work() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    async def body() -> list[str]:
        return [await work(), *await asyncio.gather(work(), asyncio.create_task(work(), name="mine"))]

    assert Rig(body).begin().result == ["main", "main.work#2", "mine"]


@given(st.lists(st.text(max_size=8), min_size=1, max_size=6))
def test_no_two_keys_make_one_identity_and_all_can_be_stored(keys: list[str]) -> None:
    branch = Branch("main")
    names = [branch.call("step", key) for key in keys] + [branch.scope(key).path for key in keys]
    assert len(set(names)) == len(names)
    for name in names:
        assert name.isprintable()
        name.encode()


@given(st.text(max_size=300), st.text(min_size=1, max_size=300), st.text(max_size=300))
def test_a_child_run_id_is_short_enough_and_says_whose_it_is(run_id: str, name: str, key: str) -> None:
    made = child_run_id(run_id, "incarnation", name, key)
    assert len(made) <= MAX_ID_LENGTH
    assert made == child_run_id(run_id, "incarnation", name, key)
    assert made != child_run_id(run_id, "another", name, key)
    assert re.search(r"\.[0-9a-f]{16}$", made), "64 bits tell it from every other run's children"


def test_parts_that_run_together_derive_differently() -> None:
    assert derive("i", "ab", "c") != derive("i", "a", "bc")
    assert derive("i", "a") != derive("j", "a")


def test_long_arguments_are_recorded_as_a_digest() -> None:
    short, long = b"x" * DIGEST_ABOVE_BYTES, b"x" * (DIGEST_ABOVE_BYTES + 1)
    assert recorded_args(short) == short
    assert recorded_args(long).startswith(b"#")
    assert len(recorded_args(long)) == 65
    assert recorded_args(long) != recorded_args(long + b"x")


@pytest.mark.parametrize("good", ["order-55", "55", "ä/ö", "x" * MAX_ID_LENGTH, "with space", "雪"])
def test_run_ids_that_are_taken(good: str) -> None:
    assert check_run_id(good) == good


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("", "empty"),
        ("x" * (MAX_ID_LENGTH + 1), "at most 255"),
        (" x", "white space"),
        ("x\n", "control characters"),
        ("a\0b", "control characters"),
        ("\ud800", "control characters"),
        (55, "is a str, not int"),
        (None, "is a str, not NoneType"),
        (b"x", "is a str, not bytes"),
    ],
)
def test_run_ids_that_are_refused(bad: Any, why: str) -> None:
    with pytest.raises(WrongUse, match=why):
        check_run_id(bad)
