"""Several processes have one run of an agent: one works on it, answers count once, and dying twice changes nothing."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

from outlast import App
from tests.adapters.pydantic_ai.scenes import Scene


def test_of_two_processes_that_run_one_agent_one_works(tmp_path: Path) -> None:
    with Scene.at(tmp_path) as made:
        made.is_done_once_by_two()


def test_of_processes_that_answer_at_once_one_is_heard_and_the_tool_acts_once(tmp_path: Path) -> None:
    with Scene.at(tmp_path) as made:
        made.hears_one_of_many_answers()


async def test_a_run_whose_processes_die_one_after_another_comes_to_the_same_end(tmp_path: Path) -> None:
    with Scene.at(tmp_path) as made:
        async with App(made.store, worker=False) as app:
            for kill in ("hears main1", "did weather_Rome", "has sub1", "did lookup", "asked sub2", "hears main2"):
                assert await made.work(kill) == -signal.SIGKILL
            answering = asyncio.create_task(made.answer(app))
            for kill in ("did pay", "hears main3"):
                assert await made.work(kill) == -signal.SIGKILL
            await answering
        result = await made.finish()
        assert result["output"].startswith("All said: a1 The book says: refund is money back; p1 paid 500;")
        assert result["requests"] == 5
        assert made.effects()["pay"] == 1
        assert made.effects()["weather_Rome"] == 2  # it was killed in it, and the call has one key
        keys = {json.loads(line)["tool"]: set[str]() for line in made.effects_file.read_text().splitlines()}
        for line in map(json.loads, made.effects_file.read_text().splitlines()):
            keys[line["tool"]].add(line["key"])
        assert all(len(of_tool) == 1 for of_tool in keys.values())


async def test_a_run_is_killed_while_it_waits_for_people(tmp_path: Path) -> None:
    with Scene.at(tmp_path) as made:
        async with App(made.store, worker=False) as app:
            working = asyncio.create_task(made.work())
            while not await app.approvals():  # noqa: ASYNC110 - the question comes from another process
                await asyncio.sleep(0.02)
            await asyncio.to_thread(made.end)
            assert await working == -signal.SIGKILL
            asked = made.asked()
            await made.answer(app)
        assert await made.work() == 0
        assert made.asked()[len(asked) :] == ["main3"]
        assert set(made.effects().values()) == {1}
