"""SIGTERM: a worker claims nothing more, hands its runs back, and another has them within a second."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.crash.harness.scene import Scene
from tests.crash.harness.verdict import judge

WITHIN_S = 1.0
IN_MEMORY = {"park_after": 30.0}  # a run that waits is held, not parked


def test_a_run_between_steps_is_handed_over_at_once(scene: Scene) -> None:
    scene.start(("waiter", "one", 1.5))
    leaving = scene.worker("leaving", **IN_MEMORY)
    scene.until("it waits for its timer", lambda: scene.journal("waiter-one"))
    heir = scene.worker("heir")
    asked = leaving.signal(signal.SIGTERM)
    assert heir.wait("run.claimed", run="waiter-one").at - asked < WITHIN_S
    leaving.wait("left")
    assert judge(scene) == []


def test_a_step_in_flight_ends_first_and_is_not_repeated(scene: Scene) -> None:
    scene.start(("vigil", "one", 0.6))
    leaving = scene.worker("leaving")
    scene.until("the step is under way", lambda: scene.effects("doze"))
    heir = scene.worker("heir")
    leaving.signal(signal.SIGTERM)
    claimed = heir.wait("run.claimed", run="vigil-one")
    assert claimed.at - leaving.wait("run.released", run="vigil-one").at < WITHIN_S
    leaving.wait("left")
    assert judge(scene) == []
    assert len(scene.effects("doze")) == 1
    assert {line.pid for line in scene.effects("put")} == {heir.pid}


def test_a_step_that_outlasts_the_grace_is_done_again_elsewhere(scene: Scene) -> None:
    scene.start(("gated", "one"))
    leaving = scene.worker("leaving", grace=0.3)
    scene.until("the step is under way", lambda: scene.effects("pass_gate"))
    heir = scene.worker("heir")
    asked = leaving.signal(signal.SIGTERM)
    assert heir.wait("run.claimed", run="gated-one").at - asked < 0.3 + WITHIN_S
    leaving.wait("left")
    scene.open_gate("one")
    assert judge(scene) == []
    assert Counter(line.pid for line in scene.effects("pass_gate")) == {leaving.pid: 1, heir.pid: 1}


def test_a_thread_that_outlasts_the_grace_keeps_the_others_waiting_for_its_lease(scene: Scene) -> None:
    """A thread cannot be stopped: as long as its process may still send something, nobody may say that it is gone."""
    scene.start(("queue_up", "one"))
    leaving = scene.worker("leaving", grace=0.2, lease=0.6)
    scene.until("both threads are done or wait", lambda: scene.effects("wait_in_thread"))
    heir = scene.worker("heir", sweep_s=0.1)
    leaving.signal(signal.SIGTERM)
    leaving.wait("left")
    heir.wait("run.claimed", run="queue_up-one")
    scene.open_gate("one")
    assert judge(scene) == []
    assert len(scene.effects("pay_in_thread")) == 1


def test_a_worker_that_leaves_claims_nothing_more(scene: Scene) -> None:
    scene.start(("gated", "one"))
    leaving = scene.worker("leaving")
    scene.until("the step is under way", lambda: scene.effects("pass_gate"))
    leaving.signal(signal.SIGTERM)
    leaving.wait("draining")
    scene.start(("errand", "late"))
    heir = scene.worker("heir")
    heir.wait("run.claimed", run="errand-late")
    scene.open_gate("one")
    assert judge(scene) == []
    assert not leaving.events("run.claimed")[1:]


@pytest.mark.parametrize("side", ["before", "inside", "after"])
@pytest.mark.parametrize("verb", ["Release gated-one", "Release waiter-one", "Leave"])
def test_a_kill_during_a_drain_loses_nothing(scene: Scene, side: str, verb: str) -> None:
    scene.start(("gated", "one"), ("waiter", "one", 1.5), ("letter", "one"), ("chore", "one"))
    leaving = scene.worker("leaving", faults=[{"at": f"{side} {verb}"}], **IN_MEMORY)
    scene.until("work is under way", lambda: scene.effects("pass_gate") and scene.journal("waiter-one"))
    leaving.signal(signal.SIGTERM)
    scene.worker("heir")
    scene.open_gate("one")
    assert judge(scene) == []
    assert leaving.wait("ended").code == -signal.SIGKILL


def test_a_worker_that_left_in_order_is_taken_over_by_nobody(scene: Scene) -> None:
    scene.start(("waiter", "one", 0.5))
    leaving = scene.worker("leaving", **IN_MEMORY)
    scene.until("it waits for its timer", lambda: scene.journal("waiter-one"))
    heir = scene.worker("heir")
    leaving.signal(signal.SIGTERM)
    assert leaving.wait("ended").code == 0
    assert judge(scene) == []
    assert not heir.events("worker.took_over")
    assert scene.row("waiter-one").crashes == 0
