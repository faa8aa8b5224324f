"""The store fails, or commits and the answer is lost: what is committed is found again, and no step is done twice."""

from __future__ import annotations

import signal
from collections import Counter

import apsw
import pytest

from tests.crash.conftest import MakeScene
from tests.crash.harness.points import READS
from tests.crash.harness.recorder import RUNS, STAYING, moments
from tests.crash.harness.scene import Scene
from tests.crash.harness.verdict import judge, over

SIDES = ("before", "inside", "after")


def repeats(scene: Scene) -> list[str]:
    """Return which attempts left more than one line."""
    counts = Counter((line.run, line.step, line.attempt) for line in scene.ledger)
    return [
        f"{step} of {run} was executed {n} times as attempt {attempt}"
        for (run, step, attempt), n in counts.items()
        if n > 1
    ]


def fail_at(make_scene: MakeScene, point: str, do: str, times: int = 1) -> list[str]:
    """Have the store fail at a point, with one worker that lives on; return what is wrong afterwards."""
    scene = make_scene(**STAYING)
    scene.start(*RUNS)
    worker = scene.worker(ready=False, faults=[{"at": point, "do": do, "times": times}])
    wrong = judge(scene, deadline_s=8.0)
    worker.wait("struck")
    if do == "unavailable":
        wrong += repeats(scene)
    if worker.ended:
        wrong.append("the worker ended")
    scene.close()
    return [f"{do} {point}: {what}" for what in wrong]


@pytest.mark.parametrize("side", SIDES)
def test_a_store_that_is_away_for_a_moment_repeats_no_step(make_scene: MakeScene, points: list[str], side: str) -> None:
    """`before` and `inside`: nothing was committed. `after`: it was, and the answer is lost."""
    wrong = []
    for point in moments(points):
        if point.startswith(side):
            wrong += fail_at(make_scene, point, "unavailable", times=2 if side == "before" else 1)
    assert wrong == []


@pytest.mark.parametrize("side", SIDES)
def test_a_fault_of_the_driver_that_nobody_foresaw_loses_no_run(
    make_scene: MakeScene, points: list[str], side: str
) -> None:
    wrong = []
    for point in moments(points):
        if point.startswith(side) and not point.endswith(" Register"):
            wrong += fail_at(make_scene, point, "break")
    assert wrong == []


@pytest.mark.parametrize("read", READS)
def test_a_read_that_fails_is_done_again(scene: Scene, read: str) -> None:
    """One run is taken over in the middle of a payment, others are new, and each kind of read fails three times."""
    scene.start(*RUNS, ("gated", "one"))
    scene.open_gate("one")
    scene.worker("victim", ready=False, faults=[{"at": "enter main/pay#1 of gated-one"}]).wait("ended")
    fault = {"at": f"read {read}", "do": "unavailable", "times": 3}
    worker = scene.worker(ready=False, faults=[fault], sweep_s=0.1)
    assert judge(scene, deadline_s=10.0) == []
    assert worker.events("struck") or read in ("ended", "owned")


def test_a_write_lock_that_is_held_for_longer_than_a_lease_loses_no_run(scene: Scene) -> None:
    scene.start(("gated", "one"), ("gated", "two"))
    worker = scene.worker(lease=1.0, park_after=5.0)
    scene.until("both wait at their gates", lambda: len(scene.effects("pass_gate")) == 2)
    other = apsw.Connection(str(scene.path))
    other.set_busy_timeout(10_000)
    beat = lease_until(scene)
    scene.until("the lease was just renewed", lambda: lease_until(scene) > beat)
    other.execute("BEGIN IMMEDIATE")
    scene.open_gate("one")  # its record waits for the lock now, in a batch without a beat
    scene.until("the lease has run out", lambda: scene.store.lease_now() > lease_until(scene))
    other.execute("ROLLBACK")
    other.close()
    scene.open_gate("two")
    assert judge(scene, deadline_s=8.0) == []
    assert repeats(scene) == []
    assert worker.events("worker.lost_lease") == []


def test_a_write_lock_that_outlasts_all_leases_lets_no_worker_judge_another(scene: Scene) -> None:
    """None of them could renew. Taken over for that, their `once` attempts would be in doubt, though nobody is dead."""
    scene.start(*(("gated", f"g{n}") for n in range(3)))
    crew = [scene.worker(lease=0.6, sweep_s=0.05, settings={"worker_concurrency": 1}) for _ in range(3)]
    scene.until("each has a run", lambda: len(scene.effects("pass_gate")) == 3)
    other = apsw.Connection(str(scene.path))
    other.set_busy_timeout(10_000)
    for _ in range(2):
        other.execute("BEGIN IMMEDIATE")
        over_at = lease_until(scene) + 0.6
        scene.until("all leases have run out for long", lambda at=over_at: scene.store.lease_now() > at)
        other.execute("ROLLBACK")
        scene.until(
            "all have renewed", lambda: all(r.lease_until > scene.store.lease_now() for r in scene.store.workers())
        )
    other.close()
    for n in range(3):
        scene.open_gate(f"g{n}")
    assert judge(scene) == []
    assert repeats(scene) == []
    assert not any(worker.events("worker.took_over") or worker.events("worker.lost_lease") for worker in crew)


def test_a_worker_that_has_just_come_judges_nobody_by_a_lease_yet(scene: Scene) -> None:
    """It cannot know whether they could renew: here, none of them could."""
    scene.start(*(("gated", f"g{n}") for n in range(3)))
    crew = [scene.worker(lease=0.6, settings={"worker_concurrency": 1}) for _ in range(3)]
    scene.until("each has a run", lambda: len(scene.effects("pass_gate")) == 3)
    other = apsw.Connection(str(scene.path))
    other.execute("BEGIN IMMEDIATE")
    comers = [scene.fork("new", lease=0.6, sweep_s=0.02) for _ in range(3)]
    over_at = lease_until(scene) + 0.6
    scene.until("all leases have run out for long", lambda: scene.store.lease_now() > over_at)
    other.execute("ROLLBACK")
    other.close()
    for comer in comers:
        comer.wait("ready")
    for n in range(3):
        scene.open_gate(f"g{n}")
    assert judge(scene) == []
    assert repeats(scene) == []
    assert not any(comer.events("worker.took_over") for comer in comers)
    assert not any(worker.events("worker.lost_lease") for worker in crew)


def lease_until(scene: Scene) -> float:
    """Return when the last lease runs out."""
    return max(row.lease_until for row in scene.store.workers())


def test_a_worker_frozen_inside_a_commit_is_named_and_loses_nothing(scene: Scene) -> None:
    """SQLite has one writer: the others wait for it, say so, and go on as soon as it does."""
    scene.start(("errand", "one"), ("errand", "two"), ("letter", "one"))
    frozen = scene.worker("frozen", faults=[{"at": "inside Write step main/put#1 of errand-one", "do": "stop"}])
    frozen.wait("stopped")
    scene.fork("heir", lease=0.5)
    scene.until(
        "the heir says who holds the lock",
        lambda: f"process {frozen.pid} holds the lock and is stopped" in scene.logs(),
    )
    assert f"kill -CONT {frozen.pid}" in scene.store.info().details["write_lock"]
    frozen.signal(signal.SIGCONT)
    assert judge(scene) == []


def test_a_worker_killed_while_frozen_inside_a_commit_is_rolled_back(scene: Scene) -> None:
    scene.start(("errand", "one"), ("letter", "one"))
    frozen = scene.worker("frozen", faults=[{"at": "inside Write step main/put#1 of errand-one", "do": "stop"}])
    frozen.wait("stopped")
    scene.fork("heir")
    frozen.kill()
    assert judge(scene) == []
    assert over(scene)


def test_a_lone_worker_that_was_frozen_takes_up_what_came_meanwhile(scene: Scene) -> None:
    scene.start(("errand", "early"))
    worker = scene.worker(lease=0.5, faults=[{"at": "after Finish errand-early", "do": "stop"}])
    worker.wait("stopped")
    scene.start(("errand", "late"))
    scene.until("the lease has run out", lambda: scene.store.lease_now() > lease_until(scene))
    worker.signal(signal.SIGCONT)
    assert judge(scene, deadline_s=8.0) == []
    assert repeats(scene) == []


@pytest.mark.parametrize("side", SIDES)
def test_a_run_that_cannot_be_begun_is_stuck_in_the_end(scene: Scene, side: str) -> None:
    """It is this worker's, and nobody else will see to it: a fault when it is to be marked is no end of the matter."""
    scene.start(("letter", "one"), ("errand", "one"))
    fault = {"at": f"{side} Stick letter-one", "do": "break"}
    worker = scene.worker(ready=False, broken=["cannot_decode"], faults=[fault])
    worker.wait("struck")
    scene.until("both are over", lambda: over(scene))
    assert scene.row("letter-one").reason == "undecodable"
    assert "not imported" in scene.row("letter-one").detail
