"""Messages and answers arrive once and in order, whoever dies while they are sent, kept, taken or asked for."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec
import pytest

from outlast.core.transitions import ENDED
from tests.crash.conftest import MakeScene
from tests.crash.harness.fleet import Fleet
from tests.crash.harness.recorder import moments
from tests.crash.harness.scene import Scene, Zygote
from tests.support.server import Server

MESSAGES = 5


def result(scene: Scene, run: str) -> object:
    """Wait for the end of a run and return its result."""
    row = scene.until(f"{run} has ended", lambda: (row := scene.row(run)).status in ENDED and row)
    assert row.status == "succeeded", row.detail
    return msgspec.json.decode(row.result)


def delivered_with(make_scene: MakeScene, fault: dict[str, str] | None, *, park_after: float) -> tuple[Scene, object]:
    """Let one run send to another while their worker dies, and another finish."""
    scene = make_scene(park_after=park_after)
    scene.start(("keeper", "x", MESSAGES), ("postman", "x", "keeper-x", MESSAGES))
    worker = scene.worker(ready=False, recording=fault is None, faults=[fault] if fault else [])
    if fault:  # a point that the timing of this run passes by kills nobody
        scene.until("it died, or was done", lambda: worker.ended or scene.row("keeper-x").status in ENDED)
        scene.worker("heir")
    return scene, result(scene, "keeper-x")


@pytest.mark.parametrize("park_after", [5.0, 0.0], ids=["in memory", "parked"])
def test_a_worker_that_dies_anywhere_loses_no_message_and_doubles_none(
    make_scene: MakeScene, park_after: float
) -> None:
    expected = [["x", n] for n in range(MESSAGES)]
    scene, got = delivered_with(make_scene, None, park_after=park_after)
    assert got == expected
    names = [e.name for e in scene.events("point")]
    scene.close()
    points = [
        p for p in moments(names) if "read" not in p and " Leave" not in p and " Beat" not in p and "migration" not in p
    ]
    assert any("message" in point for point in points)
    wrong = []
    for point in points:
        scene, got = delivered_with(make_scene, {"at": point}, park_after=park_after)
        wrong += [] if got == expected else [f"killed {point}: {got}"]
        wrong += [f"killed {point}: {fault}" for fault in scene.store.check()]
        scene.close()
    assert wrong == []


@pytest.mark.parametrize("seed", range(3))
def test_senders_and_workers_that_die_at_random_lose_nothing_and_double_nothing(scene: Scene, seed: int) -> None:
    chance, count, senders = random.Random(seed), 60, ("a", "b")
    scene.start(("keeper", "x", count * len(senders)))
    starts = {name: [("keeper-x", name, [count])] for name in senders}
    worker = scene.worker()
    sending = {name: scene.fork(name, role="send", starts=starts[name]) for name in senders}
    for _ in range(12):
        victim = chance.choice([*senders, "worker"])
        scene.until("something has moved", lambda: len(scene.journal("keeper-x")) >= chance.random() * count)
        if victim == "worker":
            worker.signal(signal.SIGKILL)
            worker = scene.worker()
        else:
            with suppress(ProcessLookupError):  # it has sent all
                sending[victim].signal(signal.SIGKILL)
            sending[victim] = scene.fork(victim, role="send", starts=starts[victim])
    got = result(scene, "keeper-x")
    assert isinstance(got, list)
    for name in senders:
        assert [n for sender, n in got if sender == name] == list(range(count))
    assert scene.store.check() == []


@pytest.fixture(params=["sqlite", "postgres"])
def on_either_store(request: pytest.FixtureRequest, zygote: Zygote, tmp_path: Path) -> Iterator[Scene]:
    """A scene on SQLite, and one on a PostgreSQL server of its own, which has connections for many processes."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            scene = Scene(zygote, tmp_path / "scene")
        else:
            server = stack.enter_context(Server())
            server.make().start()
            scene = Fleet(zygote, tmp_path / "scene", server.url)
        stack.callback(scene.close)
        yield scene


@pytest.mark.parametrize("answering", [2, 8, 32])
def test_of_many_processes_that_answer_at_once_one_is_heard_and_all_know_whom(
    on_either_store: Scene, answering: int
) -> None:
    scene, rounds = on_either_store, 5
    scene.start(("asker", "x", rounds))
    worker = scene.worker()
    people = [scene.fork(f"p{n}", role="answer", starts=[("asker-x", "", [rounds])]) for n in range(answering)]
    for person in people:
        person.wait("ready")
    scene.open_gate("answer")
    scene.until("something was done", lambda: scene.effects("put"))
    worker.kill()
    scene.worker("heir")
    heard = [person.wait("answered").heard.split() for person in people]
    assert heard == [heard[0]] * answering
    assert result(scene, "asker-x") == heard[0]
    assert (
        sorted(line.arg for line in scene.effects("put")) == [f"x.{n}" for n in range(rounds)]
        or len({line.key for line in scene.effects("put")}) == rounds
    )
    assert scene.store.check() == []
