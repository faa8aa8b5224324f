"""What holds for a run of a crew, whoever executes it: one owner, one answer, its prefix, forks of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from outlast import App
from tests.adapters.crewai.scenes import Scene
from tests.adapters.effects import SETTING

FORM = "akickoff"


def test_two_processes_that_run_one_crew_do_its_work_once(tmp_path: Path) -> None:
    with Scene.at(tmp_path, FORM) as made:
        made.is_done_once_by_two()


def test_an_answer_that_many_processes_give_at_once_counts_once(tmp_path: Path) -> None:
    with Scene.at(tmp_path, FORM) as made:
        made.hears_one_of_many_answers()


def test_a_run_that_is_killed_again_and_again_comes_to_the_same(tmp_path: Path) -> None:
    for folder in ("undisturbed", "killed"):
        (tmp_path / folder).mkdir()
    with Scene.at(tmp_path / "undisturbed", FORM) as calm:
        expected = asyncio.run(calm.finish())
    with Scene.at(tmp_path / "killed", FORM) as made:
        for point in ("hears main1", "did weather_Rome", "has sub1", "asks main2", "did pay", "has main3"):
            asyncio.run(made.be_killed(point))
        assert asyncio.run(made.finish()) == expected
        assert made.effects()["pay"] == 1
        before = made.asked()
        assert asyncio.run(made.finish()) == expected  # nothing is left to do
        assert made.asked() == before


def test_people_reject_a_call_and_the_model_is_told(tmp_path: Path) -> None:
    with Scene.at(tmp_path, FORM) as made:
        result = asyncio.run(made.finish(approve=False))
        assert "call-pay The call of pay was not approved: too much" in result["raw"]
        assert made.effects()["pay"] == 0


def test_a_fork_goes_its_own_way_from_the_recorded_prefix_and_leaves_the_original_alone(tmp_path: Path) -> None:
    with Scene.at(tmp_path, FORM) as made:
        result = asyncio.run(made.finish())
        asked, did = made.asked(), made.effects()
        original, steps, forked = asyncio.run(_fork(made))
        assert forked == result
        assert original == steps
        assert made.asked()[len(asked) :] == ["main2", "main3"]
        assert made.effects() - did == {"pay": 1}
        assert made.conversations()["main3"] == made.stand_in.asked()[len(asked) - 1]["messages"]
        again = made.asked()
        assert asyncio.run(_forked_result(made)) == forked
        assert made.asked() == again


async def _fork(made: Scene) -> tuple[Any, Any, Any]:
    SETTING.effects, SETTING.kill = made.effects_file, ""
    async with App(made.store) as app:
        run = await app.get("desk-1")
        before = await run.steps()
        (second,) = [step.id for step in before if step.id.endswith("/model[main]#2")]
        fork = await app.fork("desk-1", second, new_id="fork-1", repeat_once=True)
        await made.answer(app)
        forked = await fork.result()
        return await run.steps(), before, forked


async def _forked_result(made: Scene) -> Any:
    async with App(made.store) as app:
        return await (await app.get("fork-1")).result()
