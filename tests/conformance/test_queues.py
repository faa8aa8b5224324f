"""Runs on a queue are claimed in turn, and never more than its limits allow."""

from __future__ import annotations

import pytest

from outlast.core.queues import Limits, Rate
from outlast.core.records import RunRow
from outlast.core.transitions import Status
from outlast.stores.queue_verbs import DeclareQueue, PauseQueue
from outlast.stores.verbs import Claim, Claimed, Done, Prune, Refused, StartRun, TakeOver
from tests.conformance.world import World, finish, park, release, run_row


def declare(world: World, name: str = "q", **limits: object) -> None:
    assert world.do(DeclareQueue(name=name, limits=Limits(**limits))) == Done()  # type: ignore[arg-type]


def claim(world: World, worker: str = "w1", limit: int = 100, queues: tuple[str, ...] = ("q",)) -> list[str]:
    """Return the ids of the runs that a claim gave, in no order."""
    if worker not in world.workers:
        world.worker(worker)
    answer = world.do(Claim(worker=worker, workflows=("flow",), limit=limit, queues=queues))
    assert isinstance(answer, Claimed), answer
    return [run.id for run in answer.runs]


def put(world: World, *ids: str, queue: str = "q", **fields: object) -> list[RunRow]:
    return [world.start(name, queue=queue, **fields) for name in ids]


def row(world: World, id: str) -> RunRow:
    run = world.store.run(id)
    assert run is not None
    return run


def end(world: World, *ids: str) -> None:
    for name in ids:
        assert isinstance(world.do(finish(row(world, name))), Done)


def due(world: World, worker: str = "w1") -> float | None:
    return world.store.next_due(("flow",), ("q",), worker)


# -- who may claim ------------------------------------------------------------------


def test_a_run_on_a_queue_is_claimed_only_by_who_serves_the_queue(world: World) -> None:
    declare(world)
    put(world, "a")
    assert claim(world, queues=()) == []
    assert claim(world, queues=("other",)) == []
    assert world.store.next_due(("flow",)) is None
    assert due(world) == world.clock.wall()
    assert claim(world) == ["a"]
    got = row(world, "a")
    assert (got.status, got.queue, got.started) == (Status.RUNNING, "q", world.clock.wall())


def test_a_queue_that_nobody_declared_gives_nothing(world: World) -> None:
    put(world, "a")
    assert claim(world) == []
    assert due(world) is None
    declare(world)
    assert claim(world) == ["a"]


def test_a_start_cannot_claim_a_run_on_a_queue(world: World) -> None:
    world.worker()
    answer = world.do(StartRun(run=run_row("a", queue="q"), claim_by="w1"))
    assert isinstance(answer, Refused)
    assert world.store.run("a") is None


def test_a_claim_sent_again_gives_the_same_runs(world: World) -> None:
    declare(world, concurrency=2)
    put(world, "a", "b", "c")
    world.worker()
    verb = Claim(worker="w1", workflows=("flow",), limit=9, queues=("q",), key="once")
    assert world.do(verb) == world.do(verb)
    assert world.store.owners() == {"w1": 2}


# -- limits ----------------------------------------------------------------------------


def test_no_more_run_at_once_than_the_concurrency_says(world: World) -> None:
    declare(world, concurrency=2)
    put(world, "a", "b", "c")
    assert claim(world) == ["a", "b"]
    assert claim(world, "w2") == []
    assert due(world) is None
    end(world, "a")
    assert due(world) == world.clock.wall()
    assert claim(world, "w2") == ["c"]


def test_each_worker_has_its_own_limit(world: World) -> None:
    declare(world, per_worker=1, concurrency=3)
    put(world, "a", "b", "c", "d")
    assert claim(world) == ["a"]
    assert claim(world) == []
    assert (due(world), due(world, "w2")) == (None, world.clock.wall())
    assert claim(world, "w2") == ["b"]


def test_each_key_has_its_own_limit(world: World) -> None:
    declare(world, per_key=1)
    put(world, "a1", "a2", queue_key="a")
    put(world, "b1", queue_key="b")
    assert claim(world) == ["a1", "b1"]
    assert due(world) is None
    end(world, "b1")
    assert due(world) is None
    end(world, "a1")
    assert claim(world) == ["a2"]


def test_a_key_at_two_priorities_has_one_limit(world: World) -> None:
    declare(world, per_key=2)
    put(world, "low1", "low2", queue_key="a")
    put(world, "high1", "high2", queue_key="a", priority=5)
    assert claim(world) == ["high1", "high2"]


def test_a_run_that_rests_has_no_place_and_needs_one_again(world: World) -> None:
    declare(world, concurrency=1)
    put(world, "a", "b")
    assert claim(world) == ["a"]
    world.do(park(row(world, "a"), due=world.clock.wall() + 10, frees=True))
    assert claim(world) == ["b"]
    world.clock.advance(20)
    assert claim(world) == []
    assert due(world) is None
    end(world, "b")
    assert claim(world) == ["a"]


def test_a_run_that_has_begun_goes_before_new_ones(world: World) -> None:
    declare(world, concurrency=1)
    put(world, "a", "b")
    claim(world)
    put(world, "urgent", priority=9)
    world.do(release(row(world, "a")))
    assert claim(world) == ["a"]


def test_a_dead_workers_places_are_free_once_it_is_taken_over(world: World) -> None:
    declare(world, concurrency=2)
    put(world, "a", "b", "c")
    assert claim(world) == ["a", "b"]
    world.worker("w2")
    assert claim(world, "w2") == []
    world.do(TakeOver(worker="w2", dead="w1", gone=True))
    assert claim(world, "w2") == ["a", "b"]


@pytest.mark.parametrize("way", ["finish", "cancel"])
def test_each_way_to_end_frees_the_place(world: World, way: str) -> None:
    declare(world, concurrency=1)
    put(world, "a", "b")
    claim(world)
    world.do(finish(row(world, "a"), Status.CANCELLED if way == "cancel" else Status.FAILED))
    assert claim(world) == ["b"]


# -- whose turn -----------------------------------------------------------------------


def test_a_higher_priority_goes_first(world: World) -> None:
    declare(world, concurrency=1)
    put(world, "usual")
    put(world, "low", priority=-1)
    put(world, "high", priority=7)
    order = []
    for _ in range(3):
        (first,) = claim(world)
        order.append(first)
        end(world, first)
    assert order == ["high", "usual", "low"]


def test_a_key_with_many_runs_holds_up_no_other(world: World) -> None:
    declare(world, concurrency=1)
    put(world, *(f"many{n}" for n in range(50)), queue_key="many")
    world.clock.advance(1)
    put(world, "few", queue_key="few")
    first = claim(world)
    end(world, *first)
    world.clock.advance(1)
    second = claim(world)
    assert "few" in (*first, *second)


def test_keys_take_turns_within_one_claim_too(world: World) -> None:
    declare(world, concurrency=4)
    put(world, *(f"a{n}" for n in range(9)), queue_key="a")
    put(world, "b0", "b1", queue_key="b")
    assert sorted(claim(world)) == ["a0", "a1", "b0", "b1"]


def test_without_fairness_the_oldest_go_first(world: World) -> None:
    declare(world, concurrency=2, fair=False)
    put(world, "a0", "a1", queue_key="a")
    world.clock.advance(1)
    put(world, "b0", queue_key="b")
    assert claim(world) == ["a0", "a1"]


def test_runs_on_no_queue_and_of_other_queues_get_their_share(world: World) -> None:
    declare(world)
    declare(world, "r")
    put(world, *(f"q{n}" for n in range(20)))
    put(world, *(f"r{n}" for n in range(20)), queue="r")
    for n in range(20):
        world.start(f"n{n}")
    got = claim(world, limit=8, queues=("q", "r"))
    assert {kind: sum(name[0] == kind for name in got) for kind in "qrn"} == {"q": 2, "r": 2, "n": 4}
    assert len(claim(world, limit=100, queues=("q", "r"))) == 52


def test_a_run_that_was_put_off_is_not_claimed_before_its_time(world: World) -> None:
    declare(world)
    put(world, "later", due=world.clock.wall() + 20, priority=9)
    put(world, "now")
    assert claim(world) == ["now"]
    assert due(world) == world.clock.wall() + 20
    world.clock.advance(20)
    assert claim(world) == ["later"]


def test_a_clock_set_back_holds_up_nothing_on_a_queue(world: World) -> None:
    declare(world)
    put(world, "a")
    world.clock.wall_s -= 3600
    assert due(world) == world.clock.wall()
    assert claim(world) == ["a"]


# -- rate -------------------------------------------------------------------------------


def test_no_more_begin_in_any_stretch_of_time_than_the_rate_says(world: World) -> None:
    declare(world, rate=2, per=10.0)
    put(world, "a", "b", "c", "d")
    start = world.clock.wall()
    assert claim(world, limit=1) == ["a"]
    world.clock.advance(6)
    assert claim(world) == ["b"]
    assert due(world) == start + 11  # a tenth of the time later than the rate says: the margin of what is let in
    world.clock.advance(4.9)
    assert claim(world) == []
    world.clock.advance(0.2)
    assert claim(world) == ["c"]
    assert due(world) == start + 17


@pytest.mark.parametrize(("per", "window"), [(0.1, 0.15), (2.0, 2.2), (3600.0, 3601.0)])
def test_the_rates_of_queues_and_of_steps_have_the_same_margin(world: World, per: float, window: float) -> None:
    declare(world, rate=1, per=per)
    put(world, "a", "b")
    assert claim(world) == ["a"]
    assert due(world) == pytest.approx(world.clock.wall() + window)
    assert Rate("r", 1, per, 1.0).draw((), {}, "a step").window == pytest.approx(window)


def test_a_queue_says_how_many_have_begun_within_the_time_of_its_rate(world: World) -> None:
    declare(world, rate=2, per=10.0)
    put(world, "a", "b", "c")
    begun = [world.store.queues()[0].begun]
    for _ in range(3):
        claim(world, limit=1)
        world.clock.advance(5)
        begun.append(world.store.queues()[0].begun)
    world.clock.advance(20)
    assert begun == [0, 1, 2, 1]
    assert world.store.queues()[0].begun == 0


def test_only_the_first_claim_of_a_run_counts_for_the_rate(world: World) -> None:
    declare(world, rate=1, per=10.0)
    put(world, "a", "b")
    assert claim(world) == ["a"]
    world.do(release(row(world, "a")))
    assert claim(world) == ["a"]
    assert claim(world) == []


def test_a_rate_remembers_runs_that_were_pruned(world: World) -> None:
    declare(world, rate=1, per=10.0)
    put(world, "a", "b")
    claim(world)
    end(world, "a")
    world.clock.advance(1)
    world.do(Prune(before=world.clock.wall()))
    assert claim(world) == []


# -- pause, and what is shown -----------------------------------------------------------


def test_a_paused_queue_gives_nothing_until_it_goes_on(world: World) -> None:
    declare(world)
    put(world, "a")
    assert world.do(PauseQueue(name="q", paused=True, by="ada")) == Done()
    assert claim(world) == []
    assert due(world) is None
    (state,) = world.store.queues()
    assert (state.row.paused, state.row.paused_by, state.waiting) == (world.clock.wall(), "ada", 1)
    declare(world, concurrency=3)
    assert claim(world) == []
    assert world.do(PauseQueue(name="q", paused=False)) == Done()
    assert claim(world) == ["a"]


def test_a_queue_that_is_not_there_cannot_be_paused(world: World) -> None:
    assert isinstance(world.do(PauseQueue(name="none", paused=True)), Refused)


def test_what_is_on_a_queue_is_told_by_key(world: World) -> None:
    declare(world, per_key=1)
    put(world, "a1", "a2", queue_key="a")
    first = world.clock.wall()
    world.clock.advance(5)
    put(world, "b1", queue_key="b")
    put(world, "b2", queue_key="b", due=world.clock.wall() + 60)
    claim(world)
    put(world, "c1", queue="undeclared")
    told = {state.row.name: state for state in world.store.queues()}
    assert set(told) == {"q", "undeclared"}
    state = told["q"]
    assert (state.waiting, state.running, state.oldest) == (2, 2, first)
    assert state.keys == {"a": (1, 1), "b": (1, 1)}
    assert state.row.limits == Limits(per_key=1)
    assert world.store.queues(keys=1)[0].keys == {"a": (1, 1)}
