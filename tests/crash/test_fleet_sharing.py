"""Workers share what there is to do: each claims what it can execute, and leaves the rest to the others."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.core.transitions import Status
from tests.crash.harness.fleet import Fleet
from tests.crash.harness.scene import Process, Zygote
from tests.crash.harness.verdict import judge
from tests.support.postgres import drop, with_schema


@pytest.fixture
def fleet(zygote: Zygote, tmp_path: Path) -> Iterator[Fleet]:
    """Return a scene on the session's server."""
    schema = f"test_{secrets.token_hex(6)}"
    made = Fleet(zygote, tmp_path / "scene", with_schema(schema), park_after=60.0)
    yield made
    made.close()
    drop(schema)


def held(fleet: Fleet) -> Counter[str]:
    """Return how many runs each worker owns."""
    return Counter(row.owner for row in fleet.rows() if row.owner is not None)


def crew(fleet: Fleet, number: int, **settings: Any) -> list[Process]:
    """Start so many workers."""
    return [fleet.worker(settings=settings) for _ in range(number)]


CASES = {
    "runs at a time": ("gated", "pass_gate", {"worker_concurrency": 4}),
    "threads": ("gated_in_thread", "wait_in_thread", {"max_threads": 4}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_burst_leaves_no_worker_idle_while_another_holds_what_it_does_not_execute(fleet: Fleet, case: str) -> None:
    workflow, step, settings = CASES[case]
    workers = crew(fleet, 3, **settings)
    fleet.start(*((workflow, f"n{n}") for n in range(12)))
    fleet.until("all are executed", lambda: len(fleet.effects(step)) == 12)
    assert Counter(line.pid for line in fleet.effects(step)) == {worker.pid: 4 for worker in workers}
    for n in range(12):
        fleet.open_gate(f"n{n}")
    assert judge(fleet) == []


@pytest.mark.parametrize("case", CASES)
def test_what_exceeds_all_workers_waits_in_the_store_for_the_first_that_is_free(fleet: Fleet, case: str) -> None:
    workflow, step, settings = CASES[case]
    crew(fleet, 2, **settings)
    fleet.start(*((workflow, f"n{n}") for n in range(12)))
    fleet.until("all workers are full", lambda: len(fleet.effects(step)) == 8)
    assert sorted(held(fleet).values()) == [4, 4]
    late = fleet.worker(settings=settings)
    fleet.until("the rest is executed", lambda: len(fleet.effects(step)) == 12)
    assert held(fleet)[late.workers[0]] == 4
    for n in range(12):
        fleet.open_gate(f"n{n}")
    assert judge(fleet) == []


def test_a_slow_worker_keeps_nothing_from_a_quick_one(fleet: Fleet) -> None:
    """The slow one is in the middle of its first two runs until all others are over."""
    slow = fleet.worker(settings={"worker_concurrency": 2})
    fleet.start(("gated", "slow1"), ("gated", "slow2"))
    fleet.until("it is busy", lambda: len(fleet.effects("pass_gate")) == 2)
    quick = fleet.worker(settings={"worker_concurrency": 2})
    for n in range(20):
        fleet.open_gate(f"n{n}")
    fleet.start(*(("gated", f"n{n}") for n in range(20)))
    fleet.until("the others are over", lambda: sum(row.status is Status.SUCCEEDED for row in fleet.rows()) == 20)
    assert held(fleet) == {slow.workers[0]: 2}
    assert {line.pid for line in fleet.ledger if "-n" in line.run} == {quick.pid}
    fleet.open_gate("slow1")
    fleet.open_gate("slow2")
    assert judge(fleet) == []


def test_a_run_whose_step_needs_no_thread_waits_for_none(fleet: Fleet) -> None:
    worker = fleet.worker(settings={"max_threads": 1})
    fleet.start(*(("gated_in_thread", f"n{n}") for n in range(3)))
    fleet.until("its thread is taken", lambda: fleet.effects("wait_in_thread"))
    fleet.start(("waiter", "one", 0.0), ("waiter", "two", 0.0))
    fleet.until("both are over", lambda: sum(row.status is Status.SUCCEEDED for row in fleet.rows()) == 2)
    assert held(fleet) == {worker.workers[0]: 1}
    for n in range(3):
        fleet.open_gate(f"n{n}")
    assert judge(fleet) == []
