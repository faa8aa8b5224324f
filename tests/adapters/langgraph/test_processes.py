"""Several processes at one run of a graph, people who answer at once, forks, and recoveries of recoveries."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from outlast import App
from outlast.langgraph import durable
from tests.adapters.langgraph import desk
from tests.adapters.langgraph.scenes import PROCESSES, Scene, scene
from tests.adapters.langgraph.test_kill_points import TOOLS, said


async def until_asked(app: App) -> str:
    """Return the id of the next question."""
    while not (asked := await app.approvals()):  # noqa: ASYNC110 - over a store
        await asyncio.sleep(0.02)
    return asked[0].id


def test_two_processes_at_one_run_do_its_work_once(tmp_path: Path) -> None:
    with scene(tmp_path) as made:

        async def both() -> Any:
            arguments = (made.store, made.stand_in.url, str(made.effects_file), "")
            processes = [PROCESSES.Process(target=desk.work, args=arguments) for _ in range(2)]
            for process in processes:
                process.start()
            async with App(made.store, worker=False) as app:
                await made.answer(app)
            for process in processes:
                await asyncio.to_thread(process.join, 60)
            return [process.exitcode for process in processes]

        assert asyncio.run(both()) == [0, 0]
        assert dict(made.effects()) == dict.fromkeys(TOOLS, 1)
        assert len(made.asked()) == 5


def test_of_many_processes_that_answer_at_once_one_counts(tmp_path: Path) -> None:
    with scene(tmp_path) as made:

        async def race() -> int:
            working = asyncio.create_task(made.work())
            async with App(made.store, worker=False) as app:
                question = await until_asked(app)
            ready, go, won = PROCESSES.Semaphore(0), PROCESSES.Event(), PROCESSES.Semaphore(0)
            people = [
                PROCESSES.Process(target=desk.answer_once, args=(made.store, question, ready, go, won))
                for _ in range(4)
            ]
            for person in people:
                person.start()
            for _ in people:
                assert await asyncio.to_thread(ready.acquire, True, 60)
            go.set()
            for person in people:
                await asyncio.to_thread(person.join, 60)
                assert person.exitcode == 0
            assert await working == 0
            return sum(won.acquire(False) for _ in people)

        assert asyncio.run(race()) == 1
        assert made.effects()["pay"] == 1


def test_a_run_that_is_killed_while_it_recovers_comes_to_the_same(tmp_path: Path) -> None:
    (tmp_path / "twice").mkdir()
    (tmp_path / "never").mkdir()
    with scene(tmp_path / "twice") as twice, scene(tmp_path / "never") as never:

        async def finish(made: Scene, *kills: str) -> Any:
            async with App(made.store, worker=False) as app:
                answering = asyncio.create_task(made.answer(app))
                for kill in kills:
                    assert await made.work(kill) == -signal.SIGKILL
                assert await made.work() == 0
                await answering
            return said(await made.result())

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
    with scene(tmp_path) as made:
        monkeypatch.setattr(desk, "SETTING", desk.Setting(made.stand_in.url, made.effects_file))
        graph = durable(desk.make())

        async def forks() -> Any:
            async with App(made.store) as app:
                run = await app.start(graph({"messages": [("user", "hello")]}), id="desk-1")
                await app.approve(await until_asked(app))
                original, steps = said(await run.result()), await run.steps()
                results = []
                for new in ("fork-1", "fork-2"):
                    fork = await app.fork("desk-1", "file_away", new_id=new)
                    await app.approve(await until_asked(app))  # a fork asks people by itself
                    results.append(said(await fork.result()))
                assert await run.steps() == steps
                assert said(await run.result()) == original
                return original, results

        original, results = asyncio.run(forks())
        assert results == [original, original]
        assert dict(made.effects()) == {**dict.fromkeys(TOOLS, 1), "file_away": 3}
        assert len(made.asked()) == 5
