"""A worker is frozen at every point until its lease was taken, and then wakes: it may do nothing any more.

What was under way when it froze is the one exception, and a small one: the step's function goes on where it stood.
Nothing of it reaches the journal, and a system that is told the fence (`pay` is) refuses it.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import pytest

from tests.crash.conftest import MakeScene
from tests.crash.harness.ledger import REFUSED
from tests.crash.harness.recorder import RUNS, STAYING, moments
from tests.crash.harness.scene import Missing, Scene
from tests.crash.harness.verdict import settle, wrongs

LEASE_S = 0.6
PARTS = 6


def journals(scene: Scene) -> list[object]:
    """Return all that the store holds of runs."""
    return [(row, scene.store.records(row.pk)) for row in scene.rows()]


def freeze_at(make_scene: MakeScene, point: str, runs: Sequence[Any] = RUNS, **config: Any) -> list[str]:
    """Freeze a worker at a point, let another take its lease and finish its runs, and wake it; return what is wrong.

    It has a moment before its next beat, in which it does not know yet.
    """
    scene = make_scene(**config)
    scene.start(*runs)
    faults = [{"at": f"before Beat{n}", "do": "wait", "pause_s": 0.1} for n in ("", "#2", "#3", "#4")]
    faults.append({"at": point, "do": "stop"})
    frozen = scene.worker("frozen", ready=False, lease=LEASE_S, faults=faults, reports=["step.started"])
    try:
        frozen.wait("stopped")
        heir = scene.worker("heir", lease=1.0, sweep_s=0.05)
        heir.wait("worker.took_over")
        wrong = settle(scene)
        before, effects = journals(scene), scene.ledger
        under_way = {(e.run, e.step) for e in frozen.events("step.started")}
        frozen.signal(signal.SIGCONT)
        said = frozen.wait("worker.lost_lease")
        if "taken over" not in said.why:
            wrong.append(f"it says of its lease: {said.why}")
        frozen.wait("worker.started", after=said.at)  # it works on, under a new name
        frozen.signal(signal.SIGTERM)
        frozen.wait("ended")  # from here on nothing more can come of it
    except Missing as missing:
        return [f"frozen {point}: {missing}"]
    if journals(scene) != before:
        wrong.append("the store's runs were changed by a worker that had lost its lease")
    late = [line for line in scene.ledger[len(effects) :] if line.pid == frozen.pid]
    wrong += [
        f"{line.step} of {line.run} was begun after the lease was lost"
        for line in late
        if (line.run, line.step) not in under_way
    ]
    wrong += [
        f"{line.run} paid though the fence had moved on"
        for line in late
        if line.name == "pay" and line.effect != REFUSED
    ]
    wrong += wrongs(scene, may_repeat=frozenset(late))
    scene.close()
    return [f"frozen {point}: {what}" for what in wrong]


def can_freeze(points: list[str]) -> list[str]:
    """Leave out where a freeze blocks all others, or is over before there is a lease."""
    return [p for p in points if not p.startswith("inside ") and p != "before Register"]


@pytest.mark.parametrize("part", range(PARTS))
def test_a_frozen_worker_that_wakes_does_nothing_any_more(make_scene: MakeScene, points: list[str], part: int) -> None:
    wrong = []
    for point in can_freeze(moments(points)):
        if crc32(point.encode()) % PARTS == part:
            wrong += freeze_at(make_scene, point, **STAYING)
    assert wrong == []


@pytest.mark.soak
def test_a_worker_frozen_at_every_point_does_nothing_any_more(make_scene: MakeScene, points: list[str]) -> None:
    wrong = []
    for point in can_freeze(points):
        wrong += freeze_at(make_scene, point, **STAYING)
    assert wrong == []
