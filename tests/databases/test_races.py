"""Many execute one step at once, or meet other transactions: one commits, and all get its result."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from outlast.stores.databases.driving import run_blocking
from outlast.stores.databases.recorded import RecordedStep, committed_once
from outlast.stores.databases.source import Source
from outlast.stores.databases.sources import source_of
from tests.behaviour.stage import Ears, OpenApp
from tests.databases.scene import PATIENCE_S, ROOT, until
from tests.databases.shop import Shop, Way, close, execute, new_shop, ordering, put

RACERS = 4
Given = tuple[Shop, Way]


def the_step(function: Any) -> RecordedStep:
    """Return one step, as each of the racers executes it; its result is text."""
    return RecordedStep(
        key="key-1",
        run_id="order-1",
        step_id="main/save#1",
        function=function,
        stored=lambda value: (value.encode(), value),
        decoded=bytes.decode,
        check=lambda: None,
    )


async def race(source: Source, functions: list[Any]) -> list[str]:
    """Execute the step by all these functions at once; return their results."""
    if source.is_async:
        return await asyncio.gather(*(committed_once(source, the_step(each)) for each in functions))
    with ThreadPoolExecutor(len(functions)) as threads:
        results = [threads.submit(lambda f=f: run_blocking(committed_once(source, the_step(f)))) for f in functions]
        return await asyncio.to_thread(lambda: [each.result() for each in results])


def racer(way: Way, number: int) -> Any:
    """Return a function that orders a lamp and returns who it is."""

    async def later(tx: Any) -> str:
        await put(tx, "lamp")
        return f"racer {number}"

    def now(tx: Any) -> str:
        put(tx, "lamp")
        return f"racer {number}"

    return later if way.is_async else now


async def test_of_many_at_once_one_commits_and_all_get_its_result(given: Given) -> None:
    shop, way = given
    async with way.opened(shop) as source:
        results = await race(source_of(source, is_async=way.is_async), [racer(way, n) for n in range(RACERS)])
    assert len(set(results)) == 1
    assert shop.orders() == ["lamp"]
    assert len(shop.records()) == 1


def test_of_several_processes_one_commits_and_all_get_its_result(shop: Shop, tmp_path: Path) -> None:
    racers = []
    for n in range(3):
        command = [sys.executable, "-m", "tests.databases.racer", shop.address, "engine", f"racer {n}", str(tmp_path)]
        racers.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
    try:
        until("all are ready", lambda: all((tmp_path / f"racer {n}").exists() for n in range(3)))
        (tmp_path / "go").touch()
        results = [each.communicate(timeout=PATIENCE_S)[0] for each in racers]
    finally:
        for each in racers:
            each.kill()
            each.communicate()
    assert len(set(results)) == 1
    assert results[0].startswith("racer ")
    assert shop.orders() == ["lamp"]
    assert len(shop.records()) == 1


@pytest.fixture
def postgres() -> Iterator[Shop]:
    shop = new_shop(None)
    yield shop
    close(shop)


async def test_two_in_the_function_at_once_get_one_result(postgres: Shop) -> None:
    both_are_in = threading.Barrier(2)
    source = source_of(postgres.address, is_async=False)

    def racer(number: int) -> Any:
        def function(tx: Any) -> str:
            if not both_are_in.broken and not both_were_in.is_set():
                both_are_in.wait(10)
                both_were_in.set()
            put(tx, "lamp")
            return f"racer {number}"

        return function

    both_were_in = threading.Event()
    results = await race(source, [racer(1), racer(2)])
    assert len(set(results)) == 1
    assert postgres.orders() == ["lamp"]


async def test_a_loser_whose_rows_do_not_collide_is_rolled_back(postgres: Shop) -> None:
    both_are_in = threading.Barrier(2)
    source = source_of(postgres.address, is_async=False)

    def racer(item: str) -> Any:
        def function(tx: Any) -> str:
            put(tx, item)
            both_are_in.wait(10)
            return item

        return function

    results = await race(source, [racer("lamp"), racer("chair")])
    assert len(set(results)) == 1
    assert postgres.orders() == [results[0]]


@pytest.mark.parametrize("state", ["40001", "40P01"])
async def test_a_transaction_that_met_another_one_is_tried_again(
    postgres: Shop, state: str, open_app: OpenApp, ears: Ears
) -> None:
    calls: list[str] = []

    def meets(tx: Any, item: str) -> None:
        calls.append(item)
        put(tx, item)
        if len(calls) < 3:
            execute(tx, f"DO $$ BEGIN RAISE EXCEPTION 'met' USING ERRCODE = '{state}'; END $$")

    async with open_app(on_event=ears) as app:
        _, order = ordering(Way("address", False, lambda shop: None), postgres.address, meets)
        assert await (await app.start(order("lamp"))).result() == 4
    assert len(calls) == 3
    assert postgres.orders() == ["lamp"]
    assert not ears.heard("step.failed")


def test_the_table_is_created_once_by_many(shop: Shop) -> None:
    together = threading.Barrier(RACERS)

    def use(n: int) -> str:
        source, step = source_of(shop.address, is_async=False), the_step(lambda tx: f"racer {n}")
        together.wait(10)
        return str(run_blocking(committed_once(source, step._replace(key=f"key-{n}"))))

    with ThreadPoolExecutor(RACERS) as threads:
        assert list(threads.map(use, range(RACERS))) == [f"racer {n}" for n in range(RACERS)]
    assert len(shop.records()) == RACERS
