"""What waits for a run (a child's end, a cancellation) is delivered once, whoever dies around it."""

from __future__ import annotations

import apsw
import pytest

from outlast import RunCancelled
from outlast.core.records import Kind
from tests.crash.conftest import MakeScene
from tests.crash.harness import troubles
from tests.crash.harness.recorder import moments
from tests.crash.harness.scene import Scene
from tests.crash.harness.verdict import judge, wrongs


def in_inbox(scene: Scene, run: str) -> int:
    db = apsw.Connection(str(scene.path), flags=apsw.SQLITE_OPEN_READONLY)
    ((rows,),) = db.execute("SELECT count(*) FROM inbox WHERE run = ?", (scene.row(run).pk,)).fetchall()
    db.close()
    return int(rows)


def test_ends_of_children_that_come_together_are_each_taken_out(scene: Scene) -> None:
    scene.start(("two_children", "x"))
    scene.worker(park_after=30.0)
    ends = lambda: [r for r in scene.journal("two_children-x") if r.kind is Kind.CHILD]  # noqa: E731
    scene.until("all children have ended", lambda: len(ends()) == 6)
    scene.until("nothing of it is left", lambda: in_inbox(scene, "two_children-x") == 0, deadline_s=0.4)
    assert judge(scene) == []


def cancelled_at(make_scene: MakeScene, fault: dict[str, str] | None) -> tuple[Scene, list[str]]:
    """Cancel a run whose worker may die of it, and let another finish."""
    scene = make_scene(park_after=5.0)
    with scene.client() as app:
        run = app.start(troubles.cleaner("x"), id="cleaner-x")
        worker = scene.worker(recording=fault is None, faults=[fault] if fault else [])
        scene.until("the step is under way", lambda: scene.effects("pass_gate"))
        run.cancel()
        if fault:
            worker.wait("ended")
            scene.worker("heir")
        with pytest.raises(RunCancelled):
            run.result(timeout=10)
    (_, *rest) = wrongs(scene)  # the run itself, which is cancelled
    return scene, [what for what in rest if "pass_gate" not in what]


def test_a_cancellation_is_carried_out_whoever_dies_of_it(make_scene: MakeScene) -> None:
    scene, wrong = cancelled_at(make_scene, None)
    names = [e.name for e in scene.events("point")]
    scene.close()
    points = [p for p in moments(names[names.index("leave main/pass_gate#1 of cleaner-x") + 1 :]) if "read" not in p]
    assert any("cancel" in point for point in points)
    for point in points:
        scene, what = cancelled_at(make_scene, {"at": point})
        cancels = [r for r in scene.journal("cleaner-x") if r.kind is Kind.CANCEL]
        wrong += [f"killed {point}: {w}" for w in what]
        wrong += [] if len(cancels) == 1 else [f"killed {point}: it was cancelled {len(cancels)} times"]
        wrong += [] if scene.effects("put") else [f"killed {point}: it did not clean up"]
        scene.close()
    assert wrong == []
