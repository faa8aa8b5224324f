"""Processes are killed and frozen around the commit of a transactional step: its rows are there once, as its record."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import outlast
from outlast import App
from tests.databases.scene import Scene, dies, until
from tests.databases.shop import POSTGRES, begun, close, new_shop, ordering

BEFORE_THE_JOURNAL = "before Write step main/save#1 of order-1"

SCENES = (("sqlite", "address"), ("postgres", "engine"), ("postgres", "async_engine"))


@pytest.fixture(params=SCENES, ids="-".join)
def scene(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> Iterator[Scene]:
    yield from _scene(url, tmp_path, *request.param)


@pytest.fixture
def frozen_scene(url: str, tmp_path: Path) -> Iterator[Scene]:
    """One in which the frozen holds no lock that others need."""
    yield from _scene(url, tmp_path, "postgres", "engine")


def _scene(url: str, folder: Path, kind: str, way: str) -> Iterator[Scene]:
    shop = new_shop(folder if kind == "sqlite" else None)
    made = Scene(url, shop, way, folder)
    yield made
    made.end()
    close(shop)


def test_a_kill_between_the_commit_and_the_journal_repeats_nothing(scene: Scene) -> None:
    dies(scene.worker(at=BEFORE_THE_JOURNAL))
    assert scene.shop.orders() == ["lamp"]
    assert scene.journal() == []
    scene.worker()
    assert scene.result() == 4
    assert scene.calls() == 1
    assert scene.shop.orders() == ["lamp"]
    assert len(scene.shop.records()) == 1


@pytest.mark.parametrize("point", ["in save", "saved"])
def test_a_kill_before_the_commit_leaves_nothing_behind(scene: Scene, point: str) -> None:
    dies(scene.worker(at=point))
    until("its rows are gone", lambda: scene.shop.orders() == [])
    scene.worker()
    assert scene.result() == 4
    assert scene.calls() == 2
    assert scene.shop.orders() == ["lamp"]
    assert len(scene.shop.records()) == 1


def test_a_worker_frozen_after_its_commit_is_replaced_by_one_that_finds_it(scene: Scene) -> None:
    frozen = scene.worker(at=BEFORE_THE_JOURNAL, do="stop")
    until("it is frozen", scene.is_frozen)
    assert scene.shop.orders() == ["lamp"]
    scene.worker()
    assert scene.result() == 4
    os.kill(frozen.pid, signal.SIGCONT)
    assert scene.calls() == 1
    assert scene.shop.orders() == ["lamp"]


async def test_a_frozen_worker_that_wakes_in_its_function_changes_nothing(frozen_scene: Scene) -> None:
    scene = frozen_scene
    frozen = scene.worker(at="in save", do="stop")
    until("it is frozen", scene.is_frozen)
    scene.worker()
    async with App(scene.url, worker=False) as app:
        run = await app.get("order-1")
        assert await run.result() == 4
        os.kill(frozen.pid, signal.SIGCONT)
        until("both have called it", lambda: scene.calls() == 2)
        until("it is a worker again", lambda: sum(w.state == "alive" for w in app.store.workers()) == 2)
        assert [(each.id, each.error) for each in await run.steps()] == [("main/save#1", "")]
    assert scene.shop.orders() == ["lamp"]
    assert len(scene.shop.records()) == 1


# -- the outbox ----------------------------------------------------------------------


def note_in_outbox(scene: Scene) -> None:
    """Note the run of the order in a transaction of the shop."""

    async def note() -> None:
        way = next(way for way in POSTGRES if way.name == scene.way)
        async with way.opened(scene.shop) as source, App(scene.url, worker=False, outbox=source):
            _, order = ordering(way, source)
            async with begun(way, source) as tx:
                box = outlast.outbox(tx)
                started = box.start(order("lamp"), id="order-1")
                if way.is_async:
                    await started

    asyncio.run(note())


@pytest.mark.parametrize("point", ["before StartRun order-1", "after StartRun order-1"])
def test_a_kill_around_the_start_of_a_noted_run_starts_it_once(scene: Scene, point: str) -> None:
    note_in_outbox(scene)
    dies(scene.worker(starts=False, at=point))
    assert len(scene.shop.ask("SELECT run_id FROM outlast_outbox")) == 1
    scene.worker(starts=False)
    until("the row is settled", lambda: scene.shop.ask("SELECT run_id FROM outlast_outbox") == [])
    assert scene.result() == 4
    assert scene.calls() == 1
    assert scene.shop.orders() == ["lamp"]
