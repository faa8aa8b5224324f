"""Processes beside each other on one file: forks, two Apps in one, many at once, old code beside new."""

from __future__ import annotations

import signal
from collections import Counter

import apsw
import pytest

from outlast import RunConflict
from tests.crash.conftest import MakeScene
from tests.crash.harness import agent, troubles
from tests.crash.harness.scene import Scene
from tests.crash.harness.verdict import judge, over

# -- fork ------------------------------------------------------------------------------------


def test_a_fork_is_refused_the_app_and_the_parent_goes_on(scene: Scene) -> None:
    scene.start(("waiter", "one", 0.3), ("gated", "one"))
    parent = scene.worker("parent", role="fork")
    scene.until("the step is under way", lambda: scene.effects("pass_gate"))
    parent.signal(signal.SIGUSR1)
    said = parent.wait("child.said")
    assert "WrongUse" in said.what
    assert "forked child" in said.what
    assert parent.wait("child.left").code == 0  # leaving the App's `with` block is no trap for it
    scene.open_gate("one")
    assert judge(scene) == []
    assert set(Counter((line.run, line.step) for line in scene.ledger).values()) == {1}
    assert {line.pid for line in scene.ledger} == {parent.pid}


def test_a_parents_death_is_noticed_while_its_child_lives(scene: Scene) -> None:
    scene.start(("gated", "one"))
    parent = scene.worker("parent", role="fork", lease=60.0)
    scene.until("the step is under way", lambda: scene.effects("pass_gate"))
    parent.signal(signal.SIGUSR2)  # its child sleeps, with all that it inherited
    parent.wait("child.sleeps")
    heir = scene.worker("heir")
    killed = parent.kill()
    assert heir.wait("worker.took_over").at - killed < 1.0
    scene.open_gate("one")
    assert judge(scene) == []


def test_a_child_with_an_app_of_its_own_notices_its_parents_death(scene: Scene) -> None:
    """The child has inherited the descriptor of the parent's lock file, and must not take it for a lock of its own."""
    scene.start(("gated", "one"))
    parent = scene.worker("parent", role="fork", lease=60.0)
    scene.until("the step is under way", lambda: scene.effects("pass_gate"))
    parent.signal(signal.SIGHUP)  # its child becomes a worker, too
    child = parent.wait("child.works")
    killed = parent.kill()
    assert parent.scene.wait("worker.took_over", deadline_s=10.0).at - killed < 1.0
    scene.open_gate("one")
    assert judge(scene) == []
    assert {line.pid for line in scene.effects("put")} == {child.pid}


# -- two Apps, many starts ---------------------------------------------------------------------


def test_two_apps_in_one_process_share_the_work_and_die_together(scene: Scene) -> None:
    scene.start(*(("vigil", f"v{n}", 0.2) for n in range(6)))
    both = scene.worker("both", role="work_twice")
    scene.until("work is under way", lambda: len(scene.effects("doze")) == 6)
    assert len(scene.store.workers()) == 2
    both.kill()
    heir = scene.worker("heir")
    assert judge(scene) == []
    assert len(heir.events("worker.took_over")) >= 1


def test_two_apps_in_one_process_finish_everything_once(scene: Scene) -> None:
    scene.start(*(("errand", f"e{n}") for n in range(6)))
    both = scene.worker("both", role="work_twice", sweep_s=0.05)
    assert judge(scene) == []
    assert not both.events("worker.took_over")
    both.signal(signal.SIGTERM)
    assert both.wait("ended").code == 0


def test_starts_of_one_id_at_the_same_moment_make_one_run(scene: Scene) -> None:
    scene.accepted["vigil-one"] = ("vigil", ["one", 0.2])
    workers = [scene.worker() for _ in range(2)]
    starts = [("vigil-one", "vigil", ["one", 0.2])] * 5
    clients = [scene.fork("client", role="start", starts=starts) for _ in range(3)]
    for client in clients:
        client.wait("left")
    assert judge(scene) == []
    assert len(scene.rows()) == 1
    assert len(scene.effects("doze")) == 1
    with scene.client() as app, pytest.raises(RunConflict):
        app.start(agent.vigil("other", 0.2), id="vigil-one")
    assert workers


@pytest.mark.parametrize("side", ["before", "inside", "after"])
def test_what_was_acknowledged_is_there(scene: Scene, side: str) -> None:
    """(P8) A client is killed while it starts runs: what it reported is committed."""
    starts = [(f"vigil-v{n}", "vigil", [f"v{n}", 0.0]) for n in range(5)]
    client = scene.fork("client", role="start", starts=starts, faults=[{"at": f"{side} StartRun vigil-v3"}])
    client.wait("ended")
    scene.accepted.update({e.run: ("vigil", [e.run.removeprefix("vigil-"), 0.0]) for e in client.events("accepted")})
    assert len(scene.accepted) == 3
    scene.worker()
    assert judge(scene) == []
    assert len(scene.rows()) == (4 if side == "after" else 3)


def test_first_opens_at_the_same_moment_all_succeed(make_scene: MakeScene) -> None:
    for _ in range(6):
        scene = make_scene()
        workers = [scene.fork("worker") for _ in range(8)]
        for worker in workers:
            worker.wait("ready")
        assert scene.store.check() == []
        scene.close()


def test_a_kill_in_the_first_open_leaves_a_file_that_opens(make_scene: MakeScene) -> None:
    for point in ("inside migration", "after migration"):
        scene = make_scene()
        scene.fork("victim", faults=[{"at": point}]).wait("ended")
        others = [scene.fork("worker") for _ in range(3)]
        for other in others:
            other.wait("ready")
        scene.start(("errand", "one"))
        assert judge(scene) == []
        scene.close()


def test_many_writers_never_see_a_locked_database(scene: Scene) -> None:
    scene.start(*(("march", f"m{n}", 12, 0.0) for n in range(24)))
    for _ in range(4):
        scene.worker(settings={"worker_concurrency": 6})
    assert judge(scene, deadline_s=40.0) == []
    assert not scene.events("store.unavailable")
    assert set(Counter((line.run, line.step) for line in scene.ledger).values()) == {1}


def test_an_error_of_the_users_own_database_is_the_users(scene: Scene) -> None:
    with scene.client() as app:
        run = app.start(troubles.own_fault("x"), id="own")
        scene.worker()
        with pytest.raises(apsw.BusyError, match="database is locked"):
            run.result(timeout=10)
    assert len(scene.effects("use_own_database")) == 2


# -- old code beside new -----------------------------------------------------------------------


def test_a_worker_leaves_alone_what_its_code_does_not_know(scene: Scene) -> None:
    scene.start(("errand", "one"))
    scene.worker("victim", ready=False, faults=[{"at": "after Write step main/put#1 of errand-one"}]).wait("ended")
    old = scene.worker("old code", unknown=["errand"])
    old.wait("worker.took_over")
    scene.start(("chore", "one"))
    scene.until("it has done what it knows", lambda: scene.row("chore-one").ended)
    assert scene.row("errand-one").status == "pending"
    scene.worker("new code")
    assert judge(scene) == []
    assert not any(e.run == "errand-one" for e in old.events("run.claimed"))
    assert over(scene)
