"""What holds for every adapter: recovered twice is recovered once, a fork leaves its original alone."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from outlast import App, StepInfo
from tests.adapters.openai_agents import desk
from tests.adapters.openai_agents.scenes import processes
from tests.adapters.stand_in import serving


async def _approve_while(app: App, ended: Any) -> None:
    while not ended():
        for waiting in await app.approvals():
            await app.approve(waiting.id, by="ada")
        await asyncio.sleep(0.01)


async def _finish(run_id: str) -> tuple[str, list[StepInfo]]:
    assert desk.scene.client is not None
    async with desk.scene.client, App(desk.scene.store) as app:
        run = await app.start(desk.desk("help", False), id=run_id)
        ended = asyncio.create_task(run.result())
        await _approve_while(app, ended.done)
        return await ended, await run.steps()


@pytest.mark.parametrize(("first", "second"), [(1, 0), (4, 4), (7, 3), (12, 2), (14, 4)])
def test_a_run_that_is_killed_twice_ends_as_one_that_is_not(first: int, second: int, tmp_path: Path) -> None:
    with serving(desk.says, tmp_path / "asked") as stand_in:
        scene = desk.set_up(tmp_path, stand_in.url)
        for number in (first, second):
            child = processes.Process(target=desk.work_until_killed, args=(tmp_path, stand_in.url, False, number))
            child.start()
            asyncio.run(_approve_in(scene, child.is_alive))
            child.join(60)
            assert child.exitcode == -signal.SIGKILL
        answer, steps = asyncio.run(_finish(desk.RUN))
        bodies = Counter(json.dumps(body, sort_keys=True) for body in stand_in.asked())
    assert answer == desk.ANSWER
    assert len(scene.done("pay")) == 1
    assert len(bodies) == 5  # nothing else is said to a model than to one that is asked without a crash
    assert len({step.id for step in steps}) == len(steps)


async def _approve_in(scene: desk.Scene, is_alive: Any) -> None:
    async with App(scene.store, worker=False) as app:
        await _approve_while(app, lambda: not is_alive())


def test_a_fork_is_told_what_was_recorded_and_leaves_its_original_alone(tmp_path: Path) -> None:
    with serving(desk.says, tmp_path / "asked") as stand_in:
        scene = desk.set_up(tmp_path, stand_in.url)
        answer, steps = asyncio.run(_finish(desk.RUN))
        asked, done = len(stand_in.asked()), Counter(line["what"] for line in scene.lines())
        last = [step for step in steps if step.name == "model"][-1]

        async def fork(run_id: str) -> str:
            desk.make_agents()
            assert desk.scene.client is not None
            async with desk.scene.client, App(scene.store) as app:
                forked = await app.fork(desk.RUN, last.id, new_id=run_id)
                return str(await forked.result(timeout=60))

        assert asyncio.run(fork("fork-1")) == answer
        assert asyncio.run(fork("fork-2")) == answer
        assert len(stand_in.asked()) == asked + 2  # each asked the model that it was to ask, and no other
        for tool in ("weather", "look_up", "pay", "notify"):
            assert Counter(line["what"] for line in scene.lines())[tool] == done[tool]

        async def original() -> list[Any]:
            async with App(scene.store, worker=False) as app:
                return [(step.id, step.value) for step in await (await app.get(desk.RUN)).steps()]

        assert asyncio.run(original()) == [(step.id, step.value) for step in steps]
