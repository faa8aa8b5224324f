"""A `once` attempt without a certain outcome is never repeated by itself: a confirm settles it, or a person."""

from __future__ import annotations

import json
import signal
import socket
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outlast import DidNotHappen, Happened, InDoubt, NotResumable
from outlast.cli import app as cli
from outlast.core.records import Kind, WorkerState
from tests.crash.harness import troubles
from tests.crash.harness.scene import Process, Scene
from tests.crash.harness.verdict import judge, settle, wrongs

MAIL = "main/mail#1"
LATE = "main/mail_late#1"


def die_at(scene: Scene, point: str, **config: Any) -> None:
    """Have a worker die at a point."""
    scene.worker("victim", ready=False, faults=[{"at": point}], **config).wait("ended")


def stuck(scene: Scene, run: str = "letter-one") -> None:
    """Wait until the run is stuck in doubt."""
    scene.until("it is stuck", lambda: scene.row(run).reason == "in_doubt")


def decide(scene: Scene, decision: Any, *, attempt: int, run: str = "letter-one") -> None:
    with scene.client() as app:
        app.resolve(run, MAIL, decision, attempt=attempt, by="a person")


@pytest.mark.parametrize("at", ["enter", "leave"])
def test_a_deploy_that_weakens_the_step_does_not_weaken_the_doubt(scene: Scene, at: str) -> None:
    scene.start(("letter", "one"))
    die_at(scene, f"{at} {MAIL} of letter-one")
    sent = scene.effects("mail")
    scene.worker("new code", weaken=["mail"])
    stuck(scene)
    assert scene.effects("mail") == sent
    assert settle(scene) == []
    assert len(scene.effects("mail")) == 1
    assert scene.row("letter-one").status == "succeeded"


def test_a_decision_holds_for_its_attempt_and_no_other(scene: Scene) -> None:
    scene.start(("letter", "one"))
    die_at(scene, f"enter {MAIL} of letter-one")
    second = scene.worker("victim too", faults=[{"at": f"enter {MAIL} of letter-one"}])
    stuck(scene)
    decide(scene, DidNotHappen(), attempt=1)
    second.wait("ended")
    scene.worker("heir")
    scene.until("attempt 2 is stuck", lambda: scene.row("letter-one").reason == "in_doubt" and open_attempt(scene) == 2)
    before = scene.journal("letter-one")
    decide(scene, DidNotHappen(), attempt=1)  # the same decision once more is no other
    for late in (Happened("mailed one"), "fail"):
        with pytest.raises(NotResumable, match="attempt 1"):
            decide(scene, late, attempt=1)
    assert scene.journal("letter-one") == before
    assert scene.row("letter-one").status == "stuck"
    decide(scene, DidNotHappen(), attempt=2)
    assert judge(scene) == []
    assert [line.attempt for line in scene.effects("mail")] == [3]


def open_attempt(scene: Scene) -> int:
    return [r.attempt for r in scene.journal("letter-one") if r.kind is Kind.INTENT][-1]


def test_a_person_can_say_that_it_happened(scene: Scene) -> None:
    scene.start(("letter", "one"))
    die_at(scene, f"leave {MAIL} of letter-one")
    scene.worker("heir")
    stuck(scene)
    decide(scene, Happened("mailed one"), attempt=1)
    assert judge(scene) == []
    assert len(scene.effects("mail")) == 1


def test_a_person_can_say_that_it_failed(scene: Scene) -> None:
    scene.start(("letter", "one"))
    die_at(scene, f"leave {MAIL} of letter-one")
    scene.worker("heir")
    stuck(scene)
    decide(scene, "fail", attempt=1)
    scene.until("it has failed", lambda: scene.row("letter-one").status == "failed")
    with scene.client() as app, pytest.raises(InDoubt):
        app.get("letter-one").result(timeout=5)


def test_of_two_decisions_one_stands(scene: Scene) -> None:
    scene.start(("letter", "one"))
    die_at(scene, f"leave {MAIL} of letter-one")
    heir = scene.worker("heir")
    stuck(scene)
    heir.kill()
    decide(scene, Happened("mailed one"), attempt=1)
    with pytest.raises(NotResumable):
        decide(scene, DidNotHappen(), attempt=1)
    scene.worker("heir")
    assert judge(scene) == []
    assert len(scene.effects("mail")) == 1


def test_a_crash_right_after_a_decision_forgets_nothing(scene: Scene) -> None:
    scene.start(("letter", "one"))
    die_at(scene, f"leave {MAIL} of letter-one")
    second = scene.worker("victim too", faults=[{"at": "before Write step main/mail#1 of letter-one"}])
    stuck(scene)
    decide(scene, Happened("mailed one"), attempt=1)
    second.wait("ended")
    scene.worker("heir")
    scene.until("it is over", lambda: scene.row("letter-one").ended)
    assert judge(scene) == []
    assert len(scene.effects("mail")) == 1


def test_an_open_intent_is_settled_before_an_overdue_timer(scene: Scene) -> None:
    with scene.client() as app:
        app.start(troubles.impatient("one"), id="letter-one")
    die_at(scene, f"leave {MAIL} of letter-one", lease=0.5)
    timer_is_over = scene.store.now() + 0.3
    scene.until("the timer is overdue", lambda: scene.store.now() > timer_is_over)
    scene.worker("heir")
    stuck(scene)
    assert not scene.effects("put")
    decide(scene, Happened("mailed one"), attempt=1)
    scene.until("it is over", lambda: scene.row("letter-one").ended)
    assert scene.row("letter-one").result == b'"mailed one"'
    assert not scene.effects("put")


# -- when "it did not happen" is believed ---------------------------------------------------


def pay_twice(scene: Scene, first: Process) -> tuple[float, float]:
    """Return when the second attempt paid, and the deadline of the first."""
    assert judge(scene) == []
    (paid,) = scene.effects("pay")
    assert (paid.attempt, paid.pid == first.pid) == (2, False)
    due = next(r.due for r in scene.journal("gated-one") if r.kind is Kind.INTENT)
    assert due is not None
    return paid.at, due


def test_of_a_process_that_is_gone_it_is_believed_soon(scene: Scene) -> None:
    scene.start(("gated", "one"))
    scene.open_gate("one")
    victim = scene.worker("victim", ready=False, faults=[{"at": "enter main/pay#1 of gated-one"}])
    victim.wait("ended")
    scene.worker("heir")
    paid, due = pay_twice(scene, victim)
    left = next(row.left for row in scene.store.workers() if row.pid == victim.pid)
    assert left is not None
    assert left + 0.1 <= paid < due
    with scene.client() as app:
        shown = next(s for s in app.get("gated-one").steps() if s.name == "pay")
    assert shown.history == ("in doubt: its worker ended before its outcome was recorded", "confirmed: did not happen")


def test_of_a_process_that_may_wake_it_is_believed_after_the_deadline(scene: Scene) -> None:
    scene.start(("gated", "one"))
    scene.open_gate("one")
    stop = {"at": "enter main/pay#1 of gated-one", "do": "stop"}
    frozen = scene.worker("frozen", ready=False, lease=0.3, faults=[stop])
    frozen.wait("stopped")
    scene.worker("heir", lease=1.0, sweep_s=0.05)
    paid, due = pay_twice(scene, frozen)
    assert paid >= due + 0.1
    frozen.signal(signal.SIGCONT)
    frozen.wait("worker.lost_lease")
    frozen.signal(signal.SIGTERM)
    frozen.wait("ended")
    assert wrongs(scene) == []  # the bank refused the one that woke: its fence is behind


def could_have_been_believed(scene: Scene, run: str) -> None:
    """Wait until an attempt's time is over, and what has to settle, and somebody has looked again."""
    due = next(r.due for r in scene.journal(run) if r.kind is Kind.INTENT)
    assert due is not None
    moment = due + 3.0
    scene.until("somebody could have believed it", lambda: scene.store.now() > moment)


@pytest.mark.parametrize("then", ["its App is closed", "it is frozen"])
def test_of_a_process_that_lives_on_it_is_believed_once_its_thread_has_ended(scene: Scene, then: str) -> None:
    """Its lease has ended and another worker has its runs, but the thread of the attempt may still pay."""
    scene.start(("late_payment", "one"))
    worker = scene.worker(reports=["step.started"], grace=0.1, lease=0.5)
    worker.wait("step.started", step="main/pay_late#1")
    (file,) = [Path(row.lock_path) for row in scene.store.workers() if row.lock_path]
    scene.until("its thread has begun", lambda: "executes a once step" in file.read_text())
    if then == "it is frozen":
        worker.signal(signal.SIGSTOP)
    else:
        scene.file("stay").touch()
        worker.signal(signal.SIGTERM)
        worker.wait("closed")
    scene.open_gate("one")
    scene.worker("heir", sweep_s=0.05).wait("worker.took_over")
    could_have_been_believed(scene, "late_payment-one")
    assert not scene.effects("pay_late")
    says = f"process {worker.pid} on host {socket.gethostname()} to end, or its thread: it still executes a once step"
    scene.until("the run says for what it waits", lambda: says in scene.row("late_payment-one").detail)
    if then == "it is frozen":
        worker.signal(signal.SIGCONT)
        worker.wait("worker.lost_lease")
        lost = scene.store.now()
        scene.until("somebody has looked again", lambda: scene.store.now() > lost + 3.0)
        assert not scene.effects("pay_late")
    scene.open_gate("late")
    assert judge(scene) == []
    assert [line.pid for line in scene.effects("pay_late")] == [worker.pid]


def frozen_at_the_post(scene: Scene) -> Process:
    """Return a worker that is frozen in the thread of a letter whose doubt is another worker's by now."""
    scene.start(("late_letter", "one"))
    worker = scene.worker(reports=["step.started"], lease=0.5)
    worker.wait("step.started", step=LATE)
    (file,) = [Path(row.lock_path) for row in scene.store.workers() if row.lock_path]
    scene.until("its thread has begun", lambda: "executes a once step" in file.read_text())
    worker.signal(signal.SIGSTOP)
    scene.worker("heir", sweep_s=0.05)
    stuck(scene, "late_letter-one")
    return worker


def decide_late(scene: Scene, decision: Any) -> None:
    with scene.client() as app:
        app.resolve("late_letter-one", "mail_late", decision, attempt=1, by="a person")


def test_of_a_worker_that_is_frozen_nobody_is_told_that_it_has_ended(scene: Scene) -> None:
    frozen = frozen_at_the_post(scene)
    (worker,) = frozen.workers
    process = f"process {frozen.pid} on host {socket.gethostname()}"
    said = scene.row("late_letter-one").detail
    assert f"its worker {worker} was not heard from any more, and {process} still lived then" in said
    assert f"{process} still lives: end it before you say that it did not happen" in "\n".join(advice(scene))
    assert any(f"kill -CONT {frozen.pid}" in line for finding in doctor(scene) for line in finding["do"])
    frozen.kill()
    scene.until("its end is known", lambda: "still lives" not in "\n".join(advice(scene)))
    assert doctor(scene) == []


def doctor(scene: Scene) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = json.loads(CliRunner().invoke(cli, ["doctor", "--url", scene.url, "--json"]).stdout)[
        "findings"
    ]
    return [finding for finding in said if finding["needs_person"] and "still lives" in finding["what"]]


def advice(scene: Scene) -> list[str]:
    shown = CliRunner().invoke(cli, ["show", "late_letter-one", "--url", scene.url, "--json"])
    said: list[str] = json.loads(shown.stdout)["advice"]
    return said


@pytest.mark.parametrize("then", ["it wakes", "it is killed"])
def test_a_person_is_not_believed_either_while_the_attempt_may_still_send(scene: Scene, then: str) -> None:
    """Who looked before cannot know what was sent after; so, like a confirm, a person is asked again."""
    frozen = frozen_at_the_post(scene)
    could_have_been_believed(scene, "late_letter-one")
    for _ in range(2):
        before = scene.row("late_letter-one").claim
        decide_late(scene, DidNotHappen())
        scene.until("the run is stuck again", partial(is_stuck_again, scene, before))
        says = f"wait for process {frozen.pid} on host {socket.gethostname()} to end, or its thread"
        assert says in scene.row("late_letter-one").detail
    assert not scene.effects("mail_late")
    if then == "it wakes":
        scene.open_gate("late")
        frozen.signal(signal.SIGCONT)
        scene.until("it has sent", lambda: scene.effects("mail_late"))
        decide_late(scene, Happened("mailed one"))
    else:
        frozen.kill()
        scene.until("that is known", lambda: state_of(scene, frozen) is WorkerState.GONE)
        decide_late(scene, DidNotHappen())
    assert judge(scene) == []
    (sent,) = scene.effects("mail_late")
    assert (sent.pid == frozen.pid) == (then == "it wakes")


def is_stuck_again(scene: Scene, claim: int) -> bool:
    row = scene.row("late_letter-one")
    return row.status == "stuck" and row.claim > claim


def state_of(scene: Scene, process: Process) -> WorkerState:
    return next(row.state for row in scene.store.workers() if row.id == process.workers[0])


@pytest.mark.parametrize("decision", [Happened("mailed one"), "fail"])
def test_any_other_decision_takes_effect_while_the_worker_is_frozen(scene: Scene, decision: Any) -> None:
    frozen_at_the_post(scene)
    decide_late(scene, decision)
    scene.until("the run has ended", lambda: scene.row("late_letter-one").ended)
    assert not scene.effects("mail_late")


def test_a_store_that_is_away_leaves_no_doubt_unasked(scene: Scene) -> None:
    scene.start(("gated", "one"))
    scene.open_gate("one")
    die_at(scene, "leave main/pay#1 of gated-one")
    scene.worker("heir", broken=["doubt_cannot_read"])
    assert judge(scene) == []


@pytest.mark.parametrize("then", ["it goes on", "it leaves"])
def test_of_a_thread_that_still_runs_it_is_never_believed(scene: Scene, then: str) -> None:
    """Its execution was dropped after a fault, or is handed over; its time is over; but the thread may still pay."""
    scene.start(("late_payment", "one"))
    fault = {"at": "before Write step main/pass_gate#1 of late_payment-one", "do": "break"}
    worker = scene.worker(faults=[fault], reports=["step.started"], grace=0.1, lease=60.0)
    worker.wait("step.started", step="main/pay_late#1")
    scene.open_gate("one")
    worker.wait("run.lost")
    due = scene.journal("late_payment-one")[0].due
    assert due is not None
    scene.until("its time is long over", lambda: scene.store.now() > due + 0.6)
    if then == "it leaves":
        scene.worker("heir", sweep_s=0.1)
        scene.file("stay").touch()  # the process lives on when its App is closed
        worker.signal(signal.SIGTERM)
        worker.wait("closed")
        closed = scene.store.now()
        scene.until("somebody could have believed it", lambda: scene.store.now() > closed + 0.6)
    assert not scene.effects("pay_late")
    scene.open_gate("late")
    if then == "it leaves":
        scene.until("it has paid", lambda: scene.effects("pay_late"))
        worker.kill()
    assert judge(scene) == []
    assert [line.pid for line in scene.effects("pay_late")] == [worker.pid]


AFTER_CONFIRM = {"enter": "Write attempt", "leave": "Write step"}


@pytest.mark.parametrize(
    "second", ["confirm {pay}", "before {write} {pay}", "inside {write} {pay}", "after {write} {pay}"]
)
@pytest.mark.parametrize("first", ["enter", "leave"])
def test_a_worker_that_dies_while_it_settles_a_doubt_is_followed_by_another(
    scene: Scene, first: str, second: str
) -> None:
    pay = "main/pay#1 of gated-one"
    scene.start(("gated", "one"))
    scene.open_gate("one")
    die_at(scene, f"{first} {pay}")
    die_at(scene, second.format(pay=pay, write=AFTER_CONFIRM[first]))
    scene.worker("heir")
    assert judge(scene) == []
    assert len(scene.effects("pay")) == 1
