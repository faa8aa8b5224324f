"""One id is one run."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from msgspec.structs import replace

from outlast.core.records import Fork, RunRow
from outlast.core.transitions import Status
from outlast.stores.verbs import Answer, Conflict, Started, StartRun
from tests.conformance.conftest import StoreFactory
from tests.conformance.world import World, run_row

FULL = RunRow(
    pk=0,
    id="Bestellung 55/ä",
    incarnation="inc-full",
    workflow="flow",
    definition="app.orders:flow",
    is_step=True,
    input=b"\0[1, 2]\xff",
    options='{"durability": "sync"}',
    forks=(Fork(3, "inc-a"), Fork(9, "inc-b")),
    python="3.13.1",
    version="v1",
)


def test_a_run_is_kept_as_it_was_started(world: World) -> None:
    answer = world.do(StartRun(run=FULL))
    assert isinstance(answer, Started)
    assert answer.created
    now = world.clock.wall()
    assert answer.run == replace(FULL, pk=answer.run.pk, status=Status.PENDING, due=now, created=now)
    assert world.store.run(FULL.id) == answer.run
    assert world.get(answer.run.pk) == answer.run


def test_the_store_sets_the_rest_whatever_the_row_says(world: World) -> None:
    odd = run_row(
        "odd", status=Status.FAILED, owner="w9", claim=7, crashes=3, created=1.0, started=2.0, ended=3.0, result=b"x"
    )
    answer = world.do(StartRun(run=odd))
    assert isinstance(answer, Started)
    run = answer.run
    assert (run.status, run.owner, run.claim, run.crashes) == (Status.PENDING, None, 0, 0)
    assert (run.created, run.started, run.ended, run.result) == (world.clock.wall(), None, None, None)


def test_a_start_may_be_put_off(world: World) -> None:
    run = world.start(due=world.clock.wall() + 60)
    assert (run.status, run.due) == (Status.PENDING, world.clock.wall() + 60)


def test_the_same_call_gives_the_run_that_is_there(world: World) -> None:
    run = world.start(input=b"[1]")
    assert world.do(StartRun(run=run_row("run", input=b"[1]"))) == Started(run, created=False)
    assert len(world.state()[0]) == 1  # type: ignore[index]


def test_the_same_call_gives_the_run_also_when_it_has_ended(world: World) -> None:
    run = world.put_in(Status.SUCCEEDED)
    answer = world.do(StartRun(run=run_row("run")))
    assert answer == Started(run, created=False)


def test_an_existing_run_is_not_claimed_by_who_starts_it_again(world: World) -> None:
    run = world.start()
    world.worker()
    assert world.do(StartRun(run=run_row("run"), claim_by="w1")) == Started(run, created=False)


@pytest.mark.parametrize(
    "other", [{"input": b"[2]"}, {"workflow": "other"}, {"is_step": True}], ids=["input", "workflow", "is_step"]
)
def test_another_call_under_the_same_id_is_a_conflict_that_changes_nothing(world: World, other: dict[str, Any]) -> None:
    run = world.start(input=b"[1]")
    before = world.state()
    assert world.do(StartRun(run=run_row("run", **{"input": b"[1]"} | other))) == Conflict(run)
    assert world.state() == before


def test_ids_differ_by_case_and_by_normal_form(world: World) -> None:
    ids = ("a", "A", "a ", "\u00e4", "a\u0308")
    assert len({world.start(name).pk for name in ids}) == len(ids)


def test_a_new_run_may_be_claimed_at_once(world: World) -> None:
    world.worker()
    answer = world.do(StartRun(run=run_row("run"), claim_by="w1"))
    assert isinstance(answer, Started)
    run = answer.run
    assert (run.status, run.owner, run.claim, run.due, run.started) == (
        Status.RUNNING,
        "w1",
        1,
        None,
        world.clock.wall(),
    )
    assert world.store.owned("w1") == [(run.pk, 1)]


def test_a_start_and_what_follows_it_fit_in_one_batch(world: World) -> None:
    first, second, third = world.store.transact(
        [StartRun(run=run_row("a")), StartRun(run=run_row("a")), StartRun(run=run_row("a", input=b"x"))]
    )
    assert isinstance(first, Started)
    assert first.created
    assert second == Started(first.run, created=False)
    assert third == Conflict(first.run)


def test_five_starts_at_once_are_one_run(store_factory: StoreFactory, world: World) -> None:
    barrier, answers = threading.Barrier(5), list[Answer]()

    def start() -> None:
        store = store_factory(world.clock)
        barrier.wait()
        answers.extend(store.transact([StartRun(run=run_row("same", input=b"[1]"))]))

    threads = [threading.Thread(target=start) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    started = [answer for answer in answers if isinstance(answer, Started)]
    assert len(started) == 5
    assert len({answer.run.pk for answer in started}) == 1
    assert [answer.created for answer in started].count(True) == 1
