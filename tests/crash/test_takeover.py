"""A process that dies loses nothing: another notices, takes its runs over, and finishes them."""

from __future__ import annotations

import signal
from collections import Counter

import apsw
import pytest

from tests.crash.conftest import MakeScene
from tests.crash.harness import troubles
from tests.crash.harness.scene import Scene
from tests.crash.harness.verdict import judge, over, settle, wrongs

MANY = [("vigil", f"v{n}", 0.0) for n in range(60)]
ALL_CLAIMED = {"at": "after Claim"}


def test_a_dead_worker_is_noticed_within_a_second(scene: Scene) -> None:
    heir = scene.worker("heir")
    victim = scene.worker("victim")
    (name,) = victim.workers
    killed = victim.kill()
    noticed = heir.wait("worker.took_over", dead=name)
    assert noticed.at - killed < 1.0
    assert "its process is gone" in noticed.evidence


@pytest.mark.parametrize("side", ["before", "inside", "after"])
def test_a_takeover_that_is_cut_off_is_done_by_the_next(scene: Scene, side: str) -> None:
    scene.start(*MANY)
    scene.worker("victim", ready=False, faults=[ALL_CLAIMED]).wait("ended")
    scene.worker("heir", ready=False, faults=[{"at": f"{side} TakeOver"}]).wait("ended")
    scene.worker("heir of both")
    assert judge(scene) == []


@pytest.mark.parametrize("do", ["unavailable", "break"])
@pytest.mark.parametrize("side", ["before", "inside", "after"])
def test_a_takeover_that_fails_comes_back(scene: Scene, side: str, do: str) -> None:
    scene.start(*MANY)
    scene.worker("victim", ready=False, faults=[ALL_CLAIMED]).wait("ended")
    heir = scene.worker("heir", faults=[{"at": f"{side} TakeOver", "do": do}], sweep_s=0.1)
    heir.wait("struck")
    assert judge(scene) == []


def test_of_many_heirs_one_takes_over_and_no_run_has_two_owners(scene: Scene) -> None:
    scene.start(*MANY)
    hold = {"at": "after Claim", "do": "wait", "pause_s": 10.0, "until": "die"}
    victim = scene.worker("victim", ready=False, faults=[hold])
    victim.wait("waiting")
    heirs = [scene.worker("heir", lease=10.0) for _ in range(4)]
    victim.kill()
    assert judge(scene) == []
    assert sum(len(heir.events("worker.took_over")) for heir in heirs) == 1
    assert {row.claim for row in scene.rows()} == {2}
    assert set(Counter((line.run, line.step) for line in scene.ledger).values()) == {1}


def test_all_workers_die_and_a_fresh_one_finishes_everything(scene: Scene) -> None:
    scene.start(*(("errand", f"e{n}") for n in range(6)), ("letter", "one"), ("chore", "one"))
    workers = [scene.worker() for _ in range(3)]
    scene.until("work is under way", lambda: len(scene.ledger) > 15)
    for worker in workers:
        worker.signal(signal.SIGKILL)
    for worker in workers:
        worker.wait("ended")
    assert not over(scene)
    scene.worker("fresh")
    assert judge(scene) == []


def test_the_heir_of_an_heir_dies_too(scene: Scene) -> None:
    """Each of five workers in a row gets a little further."""
    scene.start(("errand", "one"), ("chore", "one"))
    for point in ("think#1", "put#1", "pay#1", "flaky#1", "crunch#1"):
        scene.worker(ready=False, faults=[{"at": f"after Write step main/{point} of errand-one"}]).wait("ended")
    scene.worker("last")
    assert judge(scene) == []
    assert scene.row("errand-one").crashes == 0
    assert scene.row("errand-one").claim >= 6


def test_runs_of_a_worker_whose_row_is_gone_are_found(scene: Scene) -> None:
    """Whoever tidies the table of workers makes no run invisible."""
    scene.start(*MANY[:5])
    scene.worker("victim", ready=False, faults=[ALL_CLAIMED]).wait("ended")
    db = apsw.Connection(str(scene.path))
    db.execute("DELETE FROM workers")
    db.close()
    scene.worker("heir")
    assert judge(scene) == []


def test_a_run_under_which_workers_keep_dying_is_stuck_in_the_end(scene: Scene) -> None:
    """And no other: a run beside it that never got to its first record is not blamed."""
    with scene.client() as app:
        app.start(troubles.poison("well"), id="poison")
        scene.start(("errand", "one"))
        lives = 0
        while scene.row("poison").reason is None:
            worker = scene.worker(ready=False, settings={"max_crashes": 3}, sweep_s=0.1)
            lives += 1
            scene.until("it is dead or done", lambda worker=worker: worker.ended or scene.row("poison").reason)
        worker.wait("run.stuck", run="poison", reason="crash_loop")
        row = scene.row("poison")
        assert (row.status, row.reason, row.crashes) == ("stuck", "crash_loop", 3)
        assert "3 workers in a row died" in row.detail
        assert len(scene.effects("die")) == 3
        assert lives == 4
        app.get("errand-one").result(timeout=10)
    assert [what for what in wrongs(scene) if "poison" not in what] == []


def test_recovery_does_not_need_a_thread_per_run(make_scene: MakeScene) -> None:
    """Sync workflows and sync steps of more runs than the pool has threads."""
    scene = make_scene(settings={"max_threads": 2})
    scene.start(*(("chore", f"c{n}") for n in range(7)), *(("many_threads", f"m{n}") for n in range(7)))
    scene.worker("victim", ready=False, faults=[{"at": "after Write step main/crunch#1 of chore-c3"}]).wait("ended")
    scene.worker("heir")
    assert settle(scene) + wrongs(scene) == []
