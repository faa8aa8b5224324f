"""A process that dies loses nothing: another notices, takes its runs over, and finishes them."""

from __future__ import annotations

from tests.crash.harness.scene import Scene
from tests.crash.harness.verdict import judge


def test_a_killed_workers_runs_are_finished_by_another(scene: Scene) -> None:
    scene.start(("errand", "one"), ("letter", "one"), ("chore", "one"))
    victim = scene.worker("victim", faults=[{"at": "after Write step main/put#1 of errand-one"}])
    victim.wait("ended")
    scene.worker("heir")
    assert judge(scene) == []
