"""An agent whose process is killed at any point is finished by another, and nothing that is recorded is done again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.google_adk.scenes import Scene, scene

REQUESTS = ("main1", "sub1", "sub2", "main2", "main3")
TOOLS = ("weather_Rome", "weather_Paris", "lookup", "pay")
POINTS = [f"{when} {which}" for which in REQUESTS for when in ("asks", "asked", "hears", "has")]
POINTS += [f"{when} {which}" for which in TOOLS for when in ("begins", "did", "has")]


@dataclass(frozen=True)
class Undisturbed:
    """What a run comes to that nobody disturbs, what its model saw, and its items."""

    result: Any
    conversations: dict[str, Any]
    items: list[str]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return _undisturbed(tmp_path_factory.mktemp("undisturbed"), resumable=False)


@pytest.fixture(scope="module")
def undisturbed_and_resumable(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return _undisturbed(tmp_path_factory.mktemp("resumable"), resumable=True)


def _undisturbed(folder: Path, *, resumable: bool) -> Undisturbed:
    with scene(folder, resumable=resumable) as made:
        result = asyncio.run(made.finish())
        assert sorted(made.asked()) == sorted(REQUESTS)
        assert dict(made.effects()) == dict.fromkeys(TOOLS, 1)
        return Undisturbed(result, made.conversations(), asyncio.run(made.items()))


def _check(made: Scene, point: str, undisturbed: Undisturbed) -> None:
    asyncio.run(made.be_killed(point))
    recorded, asked, did = asyncio.run(made.recorded()), made.asked(), made.effects()
    result = asyncio.run(made.finish())

    again = made.asked()[len(asked) :]
    assert sorted(again) == sorted(set(REQUESTS) - recorded)
    done = made.effects()
    paid = {"pay"} if did["pay"] else set()  # its `confirm` found it
    assert {tool: done[tool] - did[tool] for tool in TOOLS} == {
        tool: int(tool not in recorded | paid) for tool in TOOLS
    }
    assert result == undisturbed.result
    assert made.conversations() == undisturbed.conversations
    assert asyncio.run(made.items()) == undisturbed.items


@pytest.mark.parametrize("point", POINTS)
def test_another_process_goes_on_where_one_was_killed(point: str, tmp_path: Path, undisturbed: Undisturbed) -> None:
    with scene(tmp_path) as made:
        _check(made, point, undisturbed)


@pytest.mark.parametrize("point", ["hears main1", "did weather_Rome", "has sub2", "did pay"])
def test_an_app_of_the_framework_that_is_resumable_goes_on_alike(
    point: str, tmp_path: Path, undisturbed: Undisturbed, undisturbed_and_resumable: Undisturbed
) -> None:
    assert undisturbed_and_resumable.conversations == undisturbed.conversations
    with scene(tmp_path, resumable=True) as made:
        _check(made, point, undisturbed_and_resumable)
