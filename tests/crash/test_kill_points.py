"""A worker is killed at every point where that can matter, once each; the others must make it good.

The points are found, not listed: a first worker passes all of them undisturbed and reports their names. Then each
case starts the same runs anew, has one worker die at one point, and judges what the others made of it.
"""

from __future__ import annotations

from zlib import crc32

import pytest

from tests.crash.conftest import MakeScene
from tests.crash.harness.recorder import RESTING, RUNS, STAYING
from tests.crash.harness.verdict import judge, over

PARTS = 8


def kill_at(make_scene: MakeScene, point: str, others: int, **config: float) -> list[str]:
    """Kill a worker at a point while others are alive; return what is wrong afterwards."""
    scene = make_scene(**config)
    scene.start(*RUNS)
    others_first = {"at": "after Claim", "do": "wait", "pause_s": 10.0, "until": "others"}
    early = point.endswith((" Register", " Claim"))
    victim = scene.worker("victim", ready=False, faults=[{"at": point}] if early else [others_first, {"at": point}])
    victim.wait("ended" if early else "waiting")
    heirs = [scene.fork("heir") for _ in range(others)]
    for heir in heirs:
        heir.wait("ready")
    scene.open_gate("others")
    wrong = judge(scene)
    if not victim.ended:
        victim.wait("ended", deadline_s=1.0)  # it came to this point, or the case tests nothing
    scene.close()
    return [f"killed {point} with {others} others: {what}" for what in wrong]


@pytest.mark.parametrize("part", range(PARTS))
def test_a_kill_at_any_point_loses_and_doubles_nothing(make_scene: MakeScene, points: list[str], part: int) -> None:
    wrong = []
    for point in points:
        others, mine = divmod(crc32(point.encode()), PARTS)
        if mine == part:
            wrong += kill_at(make_scene, point, 1 + others % 2, **STAYING)
    assert wrong == []


@pytest.mark.parametrize("part", range(3))
def test_a_kill_around_a_rest_loses_and_doubles_nothing(
    make_scene: MakeScene, resting_points: list[str], part: int
) -> None:
    wrong, killed, cases = [], 0, resting_points[part::3]
    for point in cases:
        scene = make_scene(**RESTING)
        scene.start(*RUNS)
        victim = scene.worker("victim", ready=False, faults=[{"at": point}])
        scene.until("it is dead or done", lambda scene=scene, victim=victim: victim.ended or over(scene))
        scene.worker("heir")
        wrong += [f"killed {point}: {what}" for what in judge(scene)]
        killed += victim.ended
        scene.close()
    assert wrong == []
    assert killed > len(cases) / 4  # which claim gets which run, and when one rests, is a matter of timing


@pytest.mark.soak
@pytest.mark.parametrize("others", [1, 2])
def test_a_kill_at_every_point_with_one_and_with_two_others(
    make_scene: MakeScene, points: list[str], others: int
) -> None:
    wrong = []
    for point in points:
        wrong += kill_at(make_scene, point, others, **STAYING)
    assert wrong == []
