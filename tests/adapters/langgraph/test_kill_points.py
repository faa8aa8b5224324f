"""An agent whose process is killed at any point is finished by another, and nothing that is recorded is done again."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from outlast import App
from tests.adapters.langgraph.scenes import Scene, scene

REQUESTS = ("main1", "sub1", "sub2", "main2", "main3")
TOOLS = ("weather_Rome", "weather_Paris", "lookup", "pay", "file_away")
POINTS = [f"{when} {which}" for which in REQUESTS for when in ("asks", "asked", "hears", "has")]
POINTS += [f"{when} {which}" for which in TOOLS for when in ("begins", "did", "has")]


async def _finish(made: Scene, **answer: Any) -> Any:
    async with App(made.store, worker=False) as app:
        answering = asyncio.create_task(made.answer(app, **answer))
        assert await made.work() == 0
        answering.cancel()
    return await made.result()


async def _killed(made: Scene, point: str) -> None:
    async with App(made.store, worker=False) as app:
        answering = asyncio.create_task(made.answer(app))
        assert await made.work(point) == -signal.SIGKILL
        answering.cancel()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Any], list[str]]:
    """What a run comes to that nobody disturbs, what its model saw, and its items."""
    with scene(tmp_path_factory.mktemp("undisturbed")) as made:
        result = asyncio.run(_finish(made))
        assert sorted(made.asked()) == sorted(REQUESTS)
        assert dict(made.effects()) == dict.fromkeys(TOOLS, 1)
        return said(result), made.conversations(), asyncio.run(_items(made))


def said(result: Any) -> list[Any]:
    """Return the messages of a result, but for what no two runs have alike: the ids that are drawn."""
    return [
        (message.type, message.content, getattr(message, "tool_calls", None), getattr(message, "tool_call_id", None))
        for message in result["messages"]
    ]


async def _items(made: Scene) -> list[str]:
    async with App(made.store, worker=False) as app:
        run = await app.get("desk-1")
        return [item.value async for item in run.stream("tokens")]


@pytest.mark.parametrize("point", POINTS)
def test_another_process_goes_on_where_one_was_killed(point: str, tmp_path: Path, undisturbed: Any) -> None:
    with scene(tmp_path) as made:
        asyncio.run(_killed(made, point))
        recorded, asked, did = asyncio.run(made.recorded()), made.asked(), made.effects()
        result = asyncio.run(_finish(made))

        again = made.asked()[len(asked) :]
        assert sorted(again) == sorted(set(REQUESTS) - recorded)
        done = made.effects()
        paid = {"pay"} if did["pay"] else set()  # its `confirm` found it
        assert {tool: done[tool] - did[tool] for tool in TOOLS} == {
            tool: int(tool not in recorded | paid) for tool in TOOLS
        }
        assert said(result) == undisturbed[0]
        assert made.conversations() == undisturbed[1]
        assert asyncio.run(_items(made)) == undisturbed[2]
