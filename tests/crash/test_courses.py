"""A run that undoes what it did, or goes on as another call, does so once, whoever dies in the middle of it."""

from __future__ import annotations

import msgspec

from outlast.core.transitions import ENDED
from tests.crash.conftest import MakeScene
from tests.crash.harness.recorder import moments
from tests.crash.harness.scene import Scene

PARTS = ["flight", "hotel", "car"]
TURNS = 3


def deadly(names: list[str]) -> list[str]:
    """Return the moments of a run's life at which its worker is to die."""
    passed_by = ("read", " Leave", " Beat", "migration", " Register")
    return [point for point in moments(names) if not any(word in point for word in passed_by)]


def lived(make_scene: MakeScene, start: tuple[object, ...], fault: dict[str, str] | None) -> Scene:
    """Let a worker die at some moment, and another finish."""
    scene = make_scene(park_after=5.0)
    scene.start(start)
    run = f"{start[0]}-{start[1]}"
    with scene.client() as app:
        if start[0] == "rolling":
            for n in range(2 * TURNS):
                app.send(run, "n", n, id=f"m{n}")
    worker = scene.worker(ready=False, recording=fault is None, faults=[fault] if fault else [])
    if fault:
        scene.until("it died, or was done", lambda: worker.ended or scene.row(run).status in ENDED)
        scene.worker("heir")
    scene.until("it has ended", lambda: scene.row(run).status in ENDED)
    return scene


def undone(scene: Scene) -> list[str]:
    """Return what is wrong with a trip that failed."""
    row = scene.row("trip-x")
    steps = [(r.name, msgspec.json.decode(r.value or b"")) for r in scene.journal("trip-x") if r.kind == "step"]
    right = [*(("book", part) for part in PARTS), *(("give_back", part) for part in reversed(PARTS))]
    return [] if (row.status, steps) == ("failed", right) else [f"{row.status}: {steps}"]


def rolled(scene: Scene) -> list[str]:
    """Return what is wrong with a run of several turns."""
    row = scene.row("rolling-x")
    got = msgspec.json.decode(row.result) if row.result else None
    keys = {line.key for line in scene.effects("book")}
    right = (row.status, row.turn, got, len(keys)) == ("succeeded", TURNS, list(range(2 * TURNS)), TURNS)
    return [] if right else [f"{row.status} in turn {row.turn}: {got}, keys {sorted(keys)}"]


def test_a_worker_that_dies_while_it_undoes_leaves_the_rest_to_another(make_scene: MakeScene) -> None:
    start = ("trip", "x")
    scene = lived(make_scene, start, None)
    assert undone(scene) == []
    points = deadly([e.name for e in scene.events("point")])
    scene.close()
    assert any("give_back" in point for point in points)
    wrong = []
    for point in points:
        scene = lived(make_scene, start, {"at": point})
        wrong += [f"killed {point}: {what}" for what in [*undone(scene), *scene.store.check()]]
        scene.close()
    assert wrong == []


def test_a_worker_that_dies_between_turns_loses_no_message_and_no_turn(make_scene: MakeScene) -> None:
    start = ("rolling", "x", TURNS, [])
    scene = lived(make_scene, start, None)
    assert rolled(scene) == []
    points = deadly([e.name for e in scene.events("point")])
    scene.close()
    wrong = []
    for point in points:
        scene = lived(make_scene, start, {"at": point})
        wrong += [f"killed {point}: {what}" for what in [*rolled(scene), *scene.store.check()]]
        scene.close()
    assert wrong == []
