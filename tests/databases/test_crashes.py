"""Processes are killed and frozen around the commit of a transactional step: its rows are there once, as its record."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlast import App
from outlast.sync import App as BlockingApp
from tests.databases.shop import Shop, close, new_shop
from tests.databases.worker import CALLS, TOLD

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30.0
BEFORE_THE_JOURNAL = "before Write step main/save#1 of order-1"

SCENES = (("sqlite", "address"), ("postgres", "engine"), ("postgres", "async_engine"))


class Scene:
    """Worker processes on one store and one shop."""

    def __init__(self, url: str, shop: Shop, way: str, folder: Path) -> None:
        self.url, self.shop, self.way, self.folder = url, shop, way, folder
        self.started: list[subprocess.Popen[bytes]] = []

    def worker(self, **fault: Any) -> subprocess.Popen[bytes]:
        """Start a worker, which starts the run of the order if it is not there."""
        faults = msgspec.json.encode([fault] if fault else []).decode()
        arguments = [self.url, self.shop.address, self.way, str(self.folder), faults]
        process = subprocess.Popen([sys.executable, "-m", "tests.databases.worker", *arguments], cwd=ROOT)
        self.started.append(process)
        return process

    def lines(self, file: str) -> list[list[str]]:
        path = self.folder / file
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def calls(self) -> int:
        return len(self.lines(CALLS))

    def result(self) -> Any:
        with BlockingApp(self.url, worker=False) as app:
            return app.get("order-1").result()

    def journal(self) -> list[str]:
        with BlockingApp(self.url, worker=False) as app:
            return [each.id for each in app.get("order-1").steps()]

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


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


def until(what: str, condition: Callable[[], object]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends, f"this never came: {what}"
        time.sleep(0.005)


def dies(process: subprocess.Popen[bytes]) -> None:
    assert process.wait(PATIENCE_S) == -signal.SIGKILL


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
    until("it is frozen", lambda: any(event == "stopped" for _, event in scene.lines(TOLD)))
    assert scene.shop.orders() == ["lamp"]
    scene.worker()
    assert scene.result() == 4
    os.kill(frozen.pid, signal.SIGCONT)
    assert scene.calls() == 1
    assert scene.shop.orders() == ["lamp"]


async def test_a_frozen_worker_that_wakes_in_its_function_changes_nothing(frozen_scene: Scene) -> None:
    scene = frozen_scene
    frozen = scene.worker(at="in save", do="stop")
    until("it is frozen", lambda: any(event == "stopped" for _, event in scene.lines(TOLD)))
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
