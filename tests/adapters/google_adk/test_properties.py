"""What holds for a run of an agent, whoever executes it: one owner, one answer, its prefix, forks of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outlast import App
from tests.adapters.google_adk import program
from tests.adapters.google_adk.scenes import ENDS_WITHIN_S, PROCESSES, Scene, scene
from tests.adapters.google_adk.test_kill_points import REQUESTS, TOOLS

pytestmark = pytest.mark.filterwarnings("default")  # the framework says that much of it is experimental


async def _waiting(made: Scene) -> str:
    """Return the id of what the agent asks people, once it does."""
    async with App(made.store, worker=False) as app:
        while not (asked := await app.approvals()):  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
        return asked[0].id


def test_two_processes_that_run_one_session_do_its_work_once(tmp_path: Path) -> None:
    with scene(tmp_path) as made:
        processes = [made.start(), made.start()]
        asyncio.run(_answered(made))
        for process in processes:
            process.join(ENDS_WITHIN_S)
            assert process.exitcode == 0
        assert sorted(made.asked()) == sorted(REQUESTS)
        assert dict(made.effects()) == dict.fromkeys(TOOLS, 1)


async def _answered(made: Scene) -> None:
    async with App(made.store, worker=False) as app:
        await made.answer(app)


def test_an_answer_that_many_processes_give_at_once_counts_once(tmp_path: Path) -> None:
    with scene(tmp_path) as made:
        worker = made.start()
        asked = asyncio.run(_waiting(made))
        barrier, answers = PROCESSES.Barrier(4), PROCESSES.Queue()
        people = [
            PROCESSES.Process(target=program.answer_at_once, args=(made.store, asked, barrier, answers))
            for _ in range(4)
        ]
        for each in people:
            each.start()
        said = sorted(answers.get(timeout=ENDS_WITHIN_S) for _ in people)
        for each in [*people, worker]:
            each.join(ENDS_WITHIN_S)
        answers.close()
        answers.join_thread()
        assert said == ["first", "late", "late", "late"]
        assert worker.exitcode == 0
        assert made.effects()["pay"] == 1


def test_a_run_that_is_killed_again_and_again_comes_to_the_same(tmp_path: Path) -> None:
    for folder in ("undisturbed", "killed"):
        (tmp_path / folder).mkdir()
    with scene(tmp_path / "undisturbed") as calm:
        expected = asyncio.run(calm.finish())
    with scene(tmp_path / "killed") as made:
        for point in ("hears main1", "did weather_Rome", "has sub1", "asks main2", "did pay", "has main3"):
            asyncio.run(made.be_killed(point))
        assert asyncio.run(made.finish()) == expected
        assert made.effects()["pay"] == 1
        before = made.asked()
        assert asyncio.run(made.finish()) == expected  # nothing is left to do
        assert made.asked() == before


def test_a_fork_goes_its_own_way_from_the_recorded_prefix_and_leaves_the_original_alone(tmp_path: Path) -> None:
    with scene(tmp_path) as made:
        result = asyncio.run(made.finish())
        asked, did = made.asked(), made.effects()
        original, steps, forked = asyncio.run(_fork(made))
        assert forked["state"] == result["state"]
        assert original == steps
        assert made.asked()[len(asked) :] == ["main2", "main3"]
        assert made.effects() - did == {"pay": 1}
        assert made.conversations()["main3"] == made.stand_in.asked()[len(asked) - 1]["messages"]
        again = made.asked()
        assert asyncio.run(_forked_result(made)) == forked
        assert made.asked() == again


async def _fork(made: Scene) -> tuple[Any, Any, Any]:
    program.SETTING.effects, program.SETTING.kill = made.effects_file, ""
    async with App(made.store) as app:
        run = await app.get("desk-1")
        before = await run.steps()
        (second,) = [step.id for step in before if step.id == "main/model[main]#2"]
        fork = await app.fork("desk-1", second, new_id="fork-1", repeat_once=True)
        await made.answer(app)
        forked = await fork.result()
        return await run.steps(), before, forked


async def _forked_result(made: Scene) -> Any:
    async with App(made.store) as app:
        return await (await app.get("fork-1")).result()
