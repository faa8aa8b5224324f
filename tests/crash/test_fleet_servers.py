"""The server is restarted, killed, frozen, or forgets whom it speaks with, in the middle of the work of a fleet."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.harness.fleet import Fleet
from tests.crash.harness.scene import Zygote
from tests.crash.harness.verdict import judge
from tests.crash.harness.worker import find
from tests.support.server import Server
from tests.support.wire import Cut, Wire

Trouble = Callable[[Server, Wire], None]
QUICK = {"answer_timeout": 1, "idle_timeout": 0.5, "connect_timeout": 2}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Return a server of these tests' own."""
    with Server() as made:
        made.make().start()
        yield made


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    """Return the wire that all but the test itself speak over."""
    server.wait()
    with Wire.to(server.url) as made:
        yield made


@pytest.fixture
def fleet(zygote: Zygote, server: Server, wire: Wire, tmp_path: Path) -> Iterator[Fleet]:
    """Return a scene on that server."""
    schema = f"schema=s{abs(hash(tmp_path))}"
    url = f"{wire.url(server.url, **QUICK)}&{schema}"
    made = Fleet(zygote, tmp_path / "scene", url, f"{server.url}&{schema}", lease=2.0, park_after=5.0)
    yield made
    made.close()


def restarted(server: Server, wire: Wire) -> None:
    server.restart()


def restarted_at_once(server: Server, wire: Wire) -> None:
    server.restart(signal.SIGQUIT)


def killed(server: Server, wire: Wire) -> None:
    server.restart(signal.SIGKILL)


def sessions_terminated(server: Server, wire: Wire) -> None:
    server.terminate_sessions()


def wire_broken(server: Server, wire: Wire) -> None:
    wire.break_all()


def connections_forgotten_by_a_firewall(server: Server, wire: Wire) -> None:
    wire.forget_all()


TROUBLES = (
    restarted, restarted_at_once, killed, sessions_terminated, wire_broken, connections_forgotten_by_a_firewall,
)  # fmt: skip


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_a_worker_goes_on_by_itself_and_repeats_no_step(
    fleet: Fleet, server: Server, wire: Wire, trouble: Trouble
) -> None:
    """One run is in a step when it happens, which ends while nobody can be told; others are at any place."""
    fleet.start(("gated", "one"), ("errand", "one"), ("chore", "one"), ("waiter", "one", 0.1))
    worker = fleet.worker()
    fleet.until("it waits at its gate", lambda: fleet.effects("pass_gate"))
    trouble(server, wire)
    fleet.open_gate("one")
    assert judge(fleet) == []
    assert fleet.repeats() == []
    assert worker.events("worker.lost_lease") == []


@pytest.mark.parametrize("trouble", TROUBLES[:2], ids=lambda trouble: trouble.__name__)
def test_nobody_is_taken_for_dead_since_all_were_cut_off(
    fleet: Fleet, server: Server, wire: Wire, trouble: Trouble
) -> None:
    fleet.start(*(("gated", f"g{n}") for n in range(3)))
    crew = [fleet.worker(settings={"worker_concurrency": 1}) for _ in range(3)]
    fleet.until("each has a run", lambda: len(fleet.effects("pass_gate")) == 3)
    trouble(server, wire)
    for n in range(3):
        fleet.open_gate(f"g{n}")
    assert judge(fleet) == []
    assert fleet.repeats() == []
    assert not any(worker.events("worker.took_over") for worker in crew)


def test_a_server_that_is_read_only_for_a_while_loses_nothing(fleet: Fleet, server: Server) -> None:
    fleet.start(("gated", "one"), ("errand", "one"))
    worker = fleet.worker(pace_s=0.05)
    fleet.until("it waits at its gate", lambda: fleet.effects("pass_gate"))
    server.read_only(True)
    try:
        fleet.open_gate("one")
        worker.wait("store.unavailable")
    finally:
        server.read_only(False)
    assert judge(fleet) == []
    assert fleet.repeats() == []


def test_a_worker_whose_server_hangs_starts_no_effect_past_its_lease_and_keeps_what_is_finished(
    fleet: Fleet, server: Server
) -> None:
    """Only one step at a time has a place; it is given back while the server hangs, and another run waits for it."""
    fleet.start(("gated", "one"), ("gated", "two"))
    worker = fleet.worker(lease=1.0, settings={"max_steps": 1}, reports=["step.ended"])
    fleet.until("one waits at its gate", lambda: fleet.effects("pass_gate"))
    (waits,) = fleet.effects("pass_gate")
    ended = len(worker.events("step.ended"))
    server.freeze()
    frozen = time.monotonic()
    try:
        worker.wait("store.unavailable")
        fleet.until("its lease is over", lambda: time.monotonic() > frozen + 1.0)
        fleet.open_gate(waits.arg)
        fleet.until("the step has ended", lambda: len(worker.events("step.ended")) > ended)
    finally:
        thawed = time.time()
        server.thaw()
    fleet.open_gate("one")
    fleet.open_gate("two")
    assert judge(fleet) == []
    assert fleet.repeats() == []
    assert [line for line in fleet.ledger if waits.at < line.at < thawed] == []
    assert worker.events("worker.lost_lease") == []


@pytest.mark.parametrize("cut", Cut, ids=lambda cut: cut.name.lower())
def test_a_wire_that_is_cut_again_and_again_loses_and_repeats_nothing(fleet: Fleet, wire: Wire, cut: Cut) -> None:
    """Starts, steps and results go over it, at a worker and at a client."""
    worker = fleet.worker()
    with fleet.client() as app:
        runs = []
        for n in range(6):
            wire.cut_at(cut, 1 + n % 3, new=bool(n % 2))
            for name in ("errand", "chore"):
                runs.append(app.start(find(name)(f"{n}"), id=f"{name}-{n}"))
                fleet.accepted[runs[-1].id] = (name, [f"{n}"])
            fleet.until("it was cut", wire.struck.is_set)
        wire.heal()
        assert all(run.result(timeout=20.0) for run in runs)
    assert judge(fleet) == []
    assert fleet.repeats() == []
    assert worker.events("worker.lost_lease") == []
