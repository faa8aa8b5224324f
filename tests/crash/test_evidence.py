"""What counts as proof that a worker is dead, and what does not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.crash.conftest import MakeScene
from tests.crash.harness.scene import Process, Scene
from tests.crash.harness.verdict import judge
from tests.crash.test_freeze_points import freeze_at

LEASE_S = 1.0


def at_work(scene: Scene, **config: object) -> Process:
    """Return a worker in the middle of a step."""
    scene.start(("gated", "one"))
    worker = scene.worker("at work", **{"lease": LEASE_S, **config})
    scene.until("the step is under way", lambda: scene.effects("pass_gate"))
    return worker


def lock_file(scene: Scene) -> Path:
    (row,) = [row for row in scene.store.workers() if row.lock_path]
    return Path(row.lock_path)


@pytest.mark.parametrize("harm", ["removed", "replaced"])
def test_a_lock_file_that_is_not_the_workers_own_proves_nothing(scene: Scene, harm: str) -> None:
    worker = at_work(scene)
    file = lock_file(scene)
    file.unlink()
    if harm == "replaced":
        file.write_text("somebody else's\n")
    heir = scene.worker("heir", lease=LEASE_S, sweep_s=0.05)
    later = scene.store.lease_now() + 2 * LEASE_S
    scene.until("two leases have passed", lambda: scene.store.lease_now() > later)
    assert not heir.events("worker.took_over")
    killed = worker.kill()
    took = heir.wait("worker.took_over")  # by its lease, which is the proof that always works
    assert took.evidence == "its lease ran out"
    assert took.at - killed < 2 * LEASE_S
    scene.open_gate("one")
    assert judge(scene) == []


def test_after_a_restart_of_the_machine_no_lease_is_waited_for(scene: Scene) -> None:
    worker = at_work(scene, lease=600.0)
    worker.kill()
    heir = scene.worker("heir", rebooted=True)
    assert heir.wait("worker.took_over").evidence == "its machine was restarted"
    scene.open_gate("one")
    assert judge(scene) == []


def test_a_store_that_is_moved_away_and_back_is_taken_up_again(scene: Scene) -> None:
    worker = at_work(scene)
    away = scene.path.rename(scene.file("elsewhere.db"))
    scene.open_gate("one")
    worker.wait("store.unavailable")
    away.rename(scene.path)
    assert judge(scene) == []
    assert set(Counter((line.run, line.step) for line in scene.ledger).values()) == {1}
    assert not worker.ended


@pytest.mark.parametrize("side", ["before", "inside", "after"])
def test_a_kill_around_a_beat_loses_nothing(scene: Scene, side: str) -> None:
    scene.start(("vigil", "one", 1.0), ("errand", "one"))
    scene.worker("victim", lease=0.6, faults=[{"at": f"{side} Beat"}]).wait("ended")
    scene.worker("heir")
    assert judge(scene) == []


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_freeze_around_a_beat_is_like_any_other(make_scene: MakeScene, side: str) -> None:
    assert freeze_at(make_scene, f"{side} Beat", runs=[("vigil", "one", 1.0), ("waiter", "one", 0.3)]) == []
