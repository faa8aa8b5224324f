"""A fleet that reaches its database through pgbouncer in transaction mode."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.harness.fleet import Fleet
from tests.crash.harness.scene import Zygote
from tests.crash.harness.verdict import judge
from tests.support.pooler import WHY_NOT, pooled
from tests.support.postgres import drop, with_schema

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture
def fleet(zygote: Zygote, tmp_path: Path) -> Iterator[Fleet]:
    """Return a scene whose workers and clients all speak through the pooler."""
    schema = f"test_{secrets.token_hex(6)}"
    made = Fleet(zygote, tmp_path / "scene", pooled(with_schema(schema)), lease=1.0, sweep_s=0.1)
    yield made
    made.close()
    drop(schema)


def test_runs_come_to_their_ends(fleet: Fleet) -> None:
    fleet.start(*((name, f"{n}") for name in ("errand", "chore", "letter") for n in range(4)))
    crew = [fleet.worker() for _ in range(2)]
    assert judge(fleet) == []
    assert fleet.repeats() == []
    assert fleet.store.info().details["pooler"]
    assert not any(worker.events("store.unavailable") or worker.events("store.failed") for worker in crew)


def test_a_dead_worker_is_noticed_by_its_lease_and_no_live_one_is_taken_for_dead(fleet: Fleet) -> None:
    """Sessions are nobody's there: their ends say nothing of a process."""
    fleet.start(("gated", "one"), ("gated", "two"))
    dead = fleet.worker(settings={"worker_concurrency": 1})
    fleet.until("it has a run", lambda: len(fleet.effects("pass_gate")) == 1)
    fleet.worker(settings={"worker_concurrency": 1})
    fleet.until("both have one", lambda: len(fleet.effects("pass_gate")) == 2)
    heir = fleet.worker()
    dead.kill()
    fleet.until("it is taken over", lambda: len(fleet.effects("pass_gate")) == 3)
    assert {event.dead for event in fleet.events("worker.took_over")} == set(dead.workers)
    fleet.open_gate("one")
    fleet.open_gate("two")
    assert judge(fleet) == []
    assert not heir.events("worker.lost_lease")
