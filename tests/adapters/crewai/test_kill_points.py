"""A crew whose process is killed at any point is finished by another, and nothing that is recorded is done again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.crewai.scenes import Scene
from tests.adapters.scene import Undisturbed, points


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    with Scene.at(tmp_path_factory.mktemp("undisturbed"), "akickoff") as made:
        return made.undisturbed()


@pytest.mark.parametrize("point", points(Scene.REQUESTS, Scene.TOOLS))
def test_another_process_goes_on_where_one_was_killed(point: str, tmp_path: Path, undisturbed: Undisturbed) -> None:
    with Scene.at(tmp_path, "akickoff") as made:
        made.is_finished_by_another(point, undisturbed)


@pytest.mark.parametrize("point", ["hears main1", "did weather_Rome", "has sub2", "did pay"])
def test_a_crew_in_a_thread_goes_on_alike(point: str, tmp_path: Path, undisturbed: Undisturbed) -> None:
    with Scene.at(tmp_path, "kickoff_async") as made:
        made.is_finished_by_another(point, undisturbed)
