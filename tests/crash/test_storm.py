"""Workers die at random moments: every run comes to its end, and each effect is accounted for."""

from __future__ import annotations

import os
import random

import pytest

from tests.crash.harness.scene import Scene
from tests.crash.harness.storm import Storm
from tests.crash.harness.verdict import settle, wrongs

Record = pytest.FixtureRequest


def blow(scene: Scene, record_property: object, storm: Storm, runs: int, seconds: float) -> None:
    storm.blow(runs, seconds)
    wrong = storm.wrong + settle(scene, deadline_s=60.0)
    wrong += wrongs(scene, may_repeat=storm.under_way())
    table = storm.table(seconds)
    record_property("table", table)  # type: ignore[operator]
    assert wrong == [], table


def test_a_storm_of_kills_loses_and_doubles_nothing(scene: Scene, record_property: object) -> None:
    storm = Storm(scene, seed=random.randrange(10**6))
    blow(scene, record_property, storm, runs=200, seconds=15.0)
    noticed = storm.noticed()
    assert noticed
    assert noticed[len(noticed) // 2] < 1.0


def test_a_storm_in_which_commits_fail_by_chance_loses_and_doubles_nothing(
    scene: Scene, record_property: object
) -> None:
    """Every twentieth commit of a worker fails: half of these were not made, of the others only the answer is lost."""
    storm = Storm(scene, seed=random.randrange(10**6), every_s=1.0, chaos=0.05)
    blow(scene, record_property, storm, runs=60, seconds=8.0)


@pytest.mark.soak
def test_a_long_storm_of_kills_freezes_and_drains(scene: Scene, record_property: object) -> None:
    seconds = 60.0 * float(os.environ.get("OUTLAST_SOAK_MINUTES", "10")) / 3
    storm = Storm(scene, seed=random.randrange(10**6), ways=("kill", "kill", "kill", "stop", "leave"), lease_s=1.0)
    blow(scene, record_property, storm, runs=int(10 * seconds), seconds=seconds)
