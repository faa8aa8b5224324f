"""Several processes at one run of a graph, people who answer at once, forks, and recoveries of recoveries."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from outlast import App
from outlast.langgraph import durable
from tests.adapters.effects import SETTING
from tests.adapters.langgraph import desk
from tests.adapters.langgraph.scenes import Scene


def test_two_processes_at_one_run_do_its_work_once(tmp_path: Path) -> None:
    with Scene.at(tmp_path) as made:
        made.is_done_once_by_two()


def test_of_many_processes_that_answer_at_once_one_counts(tmp_path: Path) -> None:
    with Scene.at(tmp_path) as made:
        made.hears_one_of_many_answers()


def test_a_run_that_is_killed_while_it_recovers_comes_to_the_same(tmp_path: Path) -> None:
    (tmp_path / "twice").mkdir()
    (tmp_path / "never").mkdir()
    with Scene.at(tmp_path / "twice") as twice, Scene.at(tmp_path / "never") as never:

        async def finish(made: Scene, *kills: str) -> Any:
            async with App(made.store, worker=False) as app:
                answering = asyncio.create_task(made.answer(app))
                for kill in kills:
                    assert await made.work(kill) == -signal.SIGKILL
                assert await made.work() == 0
                await answering
                return made.told(await (await app.get("desk-1")).result())

        kills = ("has sub1", "did lookup", "has main2", "did pay", "has file_away")
        assert asyncio.run(finish(twice, *kills)) == asyncio.run(finish(never))
        assert twice.conversations() == never.conversations()
        done = twice.effects()
        assert (done["weather_Rome"], done["weather_Paris"], done["pay"]) == (1, 1, 1)
        assert done["lookup"] == 2  # it was under way
        assert done["file_away"] in (1, 2)  # it was done, and perhaps not yet committed


def test_a_fork_goes_by_what_is_recorded_and_leaves_the_original_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Scene.at(tmp_path) as made:
        monkeypatch.setattr(desk, "URL", made.stand_in.url)
        monkeypatch.setattr(SETTING, "effects", made.effects_file)
        graph = durable(desk.make())

        async def forks() -> Any:
            async with App(made.store) as app:
                run = await app.start(graph({"messages": [("user", "hello")]}), id="desk-1")
                await app.approve(await made.question(app))
                original, steps = made.told(await run.result()), await run.steps()
                results = []
                for new in ("fork-1", "fork-2"):
                    fork = await app.fork("desk-1", "file_away", new_id=new)
                    await app.approve(await made.question(app))  # a fork asks people by itself
                    results.append(made.told(await fork.result()))
                assert await run.steps() == steps
                assert made.told(await run.result()) == original
                return original, results

        original, results = asyncio.run(forks())
        assert results == [original, original]
        assert dict(made.effects()) == {**dict.fromkeys(made.TOOLS, 1), "file_away": 3}
        assert len(made.asked()) == 5
