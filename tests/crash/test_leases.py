"""A lease is kept by whoever lives, whatever its code does, and whoever lost it stands back."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.crash.harness.scene import Process, Scene
from tests.crash.harness.verdict import judge, settle, wrongs

LEASE_S = 1.5  # of workers that must not lose it, also where many tests share two cores


def executions(scene: Scene) -> set[int]:
    """Return how often the steps of this scene were executed."""
    return set(Counter((line.run, line.step) for line in scene.ledger).values())


def undisturbed(scene: Scene, *workers: Process) -> None:
    """Check that all went well and that no lease was lost or taken on the way."""
    assert judge(scene) == []
    assert executions(scene) == {1}
    assert not any(w.events("worker.lost_lease") or w.events("worker.took_over") for w in workers)
    assert {row.claim for row in scene.rows()} == {1}


def test_a_step_longer_than_the_lease_is_executed_once(scene: Scene) -> None:
    scene.start(("vigil", "one", 3.0))
    workers = [scene.worker(lease=LEASE_S, sweep_s=0.1) for _ in range(2)]
    undisturbed(scene, *workers)
    beats = {row.id: row.beat for row in scene.store.workers()}
    assert len(beats) == 2


def test_a_long_run_of_short_steps_is_entered_once(scene: Scene) -> None:
    scene.start(("march", "one", 14, 0.15))
    workers = [scene.worker(lease=LEASE_S, sweep_s=0.1) for _ in range(2)]
    undisturbed(scene, *workers)
    assert len(scene.events("run.claimed")) == 1


def test_code_that_blocks_the_loop_does_not_stop_the_beats(scene: Scene) -> None:
    scene.start(("blocker", "one", 3.0))
    workers = [scene.worker(lease=LEASE_S, sweep_s=0.1, reports=["loop.blocked"]) for _ in range(2)]
    undisturbed(scene, *workers)
    said = scene.wait("loop.blocked")
    assert "main/block_loop#1 of run blocker-one" in said["where"]


def test_code_that_holds_the_interpreter_loses_the_lease_and_is_told(scene: Scene) -> None:
    """No thread can beat then: another takes over, and what comes back late is refused."""
    scene.start(("holder", "one", 2.0))
    holding = scene.worker("holding", lease=0.6)
    scene.until("the step is under way", lambda: scene.effects("hold_interpreter"))
    heir = scene.worker("heir", lease=1.0, sweep_s=0.05)
    heir.wait("worker.took_over")
    said = holding.wait("worker.lost_lease")
    assert "taken over" in said.why
    scene.open_gate("never")
    holding.signal(signal.SIGKILL)  # or its second self would take the run up again, should the heir be lost
    assert judge(scene) == []
    assert {record.worker for record in scene.journal("holder-one")} == {heir.workers[0]}
    assert len({line.key for line in scene.effects("hold_interpreter")}) == 1


def test_a_wall_clock_that_is_wrong_takes_nobodys_lease(scene: Scene) -> None:
    scene.start(("vigil", "one", 2.0), ("vigil", "two", 2.0))
    worker = scene.worker(lease=LEASE_S, sweep_s=0.1)
    scene.until("both sleep", lambda: len(scene.effects("doze")) == 2)
    others = [scene.worker(f"skewed {hours} h", lease=LEASE_S, sweep_s=0.1, skew_s=3600.0 * hours) for hours in (-1, 1)]
    undisturbed(scene, worker, *others)


def test_a_dead_worker_is_noticed_by_one_whose_wall_clock_is_wrong(scene: Scene) -> None:
    scene.start(("errand", "one"))
    scene.worker("victim", ready=False, faults=[{"at": "after Write step main/put#1 of errand-one"}]).wait("ended")
    heir = scene.worker("heir", skew_s=-3600.0)
    heir.wait("worker.took_over")
    heir.kill()
    scene.worker("right again")
    assert settle(scene) == []
    assert [w for w in wrongs(scene) if "executed again" not in w] == []  # that one compares wall times


def test_a_thread_that_ends_after_its_time_is_not_believed(scene: Scene) -> None:
    """The attempts overlap, as a thread cannot be stopped; the late result is nobody's."""
    scene.start(("overrunner", "one"))
    scene.worker()
    scene.until("the second attempt is done", lambda: scene.journal("overrunner-one")[2:])
    scene.open_gate("overrun")
    assert judge(scene) == []
    assert [line.attempt for line in scene.effects("overrun")] == [1, 2]


def test_a_step_that_waits_for_a_thread_does_not_start_after_a_freeze(scene: Scene) -> None:
    """The lease held when the step was given to the pool. When a thread is free at last, that is long ago."""
    scene.start(("queue_up", "one"))
    frozen = scene.worker("frozen", lease=0.5, settings={"max_threads": 1})
    scene.until("the only thread is taken", lambda: scene.effects("wait_in_thread"))
    scene.until("the payment has its intent", lambda: scene.journal("queue_up-one"))
    frozen.signal(signal.SIGSTOP)
    scene.open_gate("one")
    heir = scene.worker("heir", lease=1.0, sweep_s=0.05)
    heir.wait("worker.took_over")
    assert judge(scene) == []
    frozen.signal(signal.SIGCONT)
    frozen.wait("worker.lost_lease")
    frozen.signal(signal.SIGTERM)
    frozen.wait("ended")
    assert [line.pid for line in scene.effects("pay_in_thread")] == [heir.pid]


def test_a_woken_worker_is_useful_again(scene: Scene) -> None:
    scene.start(("errand", "one"))
    frozen = scene.worker(
        "frozen", lease=0.5, faults=[{"at": "after Write step main/put#1 of errand-one", "do": "stop"}]
    )
    frozen.wait("stopped")
    heir = scene.worker("heir", lease=1.0, sweep_s=0.05)
    heir.wait("worker.took_over")
    frozen.signal(signal.SIGCONT)
    frozen.wait("worker.lost_lease")
    heir.kill()
    scene.start(("errand", "two"))
    assert judge(scene) == []
    assert len(frozen.workers) == 2


@pytest.mark.parametrize("lease", [0.1, 0.3])
def test_a_very_short_lease_is_kept(scene: Scene, lease: float) -> None:
    worker = scene.worker(lease=lease)
    scene.start(("vigil", "one", 1.0))
    assert judge(scene) == []
    assert not worker.events("worker.lost_lease")
