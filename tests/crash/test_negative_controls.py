"""Outlast with one guard taken out must fail these tests; with all guards in place the same scenes are clean."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.crash.conftest import MakeScene
from tests.crash.harness.recorder import STAYING
from tests.crash.harness.verdict import judge
from tests.crash.test_freeze_points import freeze_at, journals

Play = Callable[[MakeScene, list[str]], list[str]]


def woken_writer(make_scene: MakeScene, broken: list[str]) -> list[str]:
    """A worker wakes with a record in its hand that would fit, since its heir has come no further yet."""
    scene = make_scene(broken=broken)
    scene.start(("gated", "one"))
    scene.open_gate("one")
    stop = {"at": "before Write step main/pass_gate#1 of gated-one", "do": "stop"}
    frozen = scene.worker("frozen", ready=False, lease=0.4, faults=[stop])
    frozen.wait("stopped")
    scene.close_gate("one")
    heir = scene.worker("heir", lease=2.0, sweep_s=0.05)
    scene.until("the heir is as far", lambda: [e for e in scene.effects("pass_gate") if e.pid == heir.pid])
    before = journals(scene)
    frozen.signal(signal.SIGCONT)
    frozen.wait("worker.lost_lease")
    frozen.signal(signal.SIGTERM)
    frozen.wait("ended")
    wrong = [] if journals(scene) == before else ["a worker that had lost its lease has written"]
    scene.open_gate("one")
    return wrong + judge(scene, deadline_s=5.0)


def forgotten_thought(make_scene: MakeScene, broken: list[str]) -> list[str]:
    """A worker dies before a thought is committed, with time enough for an effect that rests on it."""
    scene = make_scene(broken=broken)
    scene.start(("errand", "one"))
    die = {"at": "before Write step main/think#1 of errand-one", "pause_s": 0.3}
    scene.worker("victim", ready=False, faults=[die]).wait("ended")
    scene.worker("heir")
    return judge(scene)


def killed_after_paying(make_scene: MakeScene, broken: list[str]) -> list[str]:
    """A worker dies between a payment and its record."""
    scene = make_scene(broken=broken)
    scene.start(("errand", "one"), ("letter", "one"))
    scene.worker("victim", ready=False, faults=[{"at": "leave main/pay#1 of errand-one"}]).wait("ended")
    scene.worker("heir")
    return judge(scene)


def killed_after_mailing(make_scene: MakeScene, broken: list[str]) -> list[str]:
    """A worker dies between a letter and its record."""
    scene = make_scene(broken=broken)
    scene.start(("letter", "one"))
    scene.worker("victim", ready=False, faults=[{"at": "leave main/mail#1 of letter-one"}]).wait("ended")
    scene.worker("heir")
    return judge(scene)


def failed_takeover(make_scene: MakeScene, broken: list[str]) -> list[str]:
    """The takeover fails once."""
    scene = make_scene(broken=broken)
    scene.start(*(("vigil", f"v{n}", 0.0) for n in range(5)))
    scene.worker("victim", ready=False, faults=[{"at": "after Claim"}]).wait("ended")
    scene.worker("heir", faults=[{"at": "before TakeOver", "do": "break"}], sweep_s=0.1)
    return judge(scene, deadline_s=4.0)


def woken_with_leave(make_scene: MakeScene, broken: list[str]) -> list[str]:
    """A worker wakes just as the commit is done that its next effect has waited for."""
    at = "after Write step main/think#1 of errand-one"
    return freeze_at(make_scene, at, **STAYING, broken=broken)


def frozen_before_paying(make_scene: MakeScene, broken: list[str]) -> list[str]:
    """A worker is frozen in front of a payment, and the other asks whether it was made."""
    scene = make_scene(broken=broken)
    scene.start(("gated", "one"))
    scene.open_gate("one")
    stop = {"at": "enter main/pay#1 of gated-one", "do": "stop"}
    scene.worker("frozen", ready=False, lease=0.3, faults=[stop]).wait("stopped")
    scene.worker("heir", lease=1.0, sweep_s=0.05)
    wrong = judge(scene)
    first = next(r for r in scene.journal("gated-one") if r.kind == "intent")
    paid = scene.effects("pay")[-1].at
    return wrong + ([] if paid > (first.due or 0.0) else ["it paid again while the first attempt could still pay"])


def dead_with_a_long_lease(make_scene: MakeScene, broken: list[str]) -> list[str]:
    """A worker dies whose lease has long to go."""
    scene = make_scene(broken=broken)
    scene.start(("errand", "one"))
    stop = {"at": "after Write step main/think#1 of errand-one"}
    scene.worker("victim", ready=False, lease=60.0, faults=[stop]).wait("ended")
    scene.worker("heir")
    return judge(scene, deadline_s=4.0)


CONTROLS: list[tuple[str, Play, str]] = [
    ("no_fence", woken_writer, "has written"),
    ("no_barrier", forgotten_thought, "the journal says"),
    ("no_intent", killed_after_paying, "was done 2 times"),
    ("lose_doubt", killed_after_mailing, "was done 2 times"),
    ("single_pass", failed_takeover, "is running, owner="),
    ("no_local_look", woken_with_leave, "was begun after the lease was lost"),
    ("believe_at_once", frozen_before_paying, "could still pay"),
    ("blind", dead_with_a_long_lease, "is running, owner="),
]


@pytest.mark.parametrize(("guard", "play", "complaint"), CONTROLS, ids=[c[0] for c in CONTROLS])
def test_a_guard_that_is_taken_out_is_missed(make_scene: MakeScene, guard: str, play: Play, complaint: str) -> None:
    assert play(make_scene, []) == []
    wrong = play(make_scene, [guard])
    assert any(complaint in what for what in wrong), wrong or "nobody noticed"
