"""Attempts of steps with a rate get turns, and no stretch of time gets more than the rate allows."""

from __future__ import annotations

import random

from outlast.core.queues import Draw
from outlast.core.records import RunRow
from outlast.stores.queue_verbs import Drawn, DrawRate
from outlast.stores.verbs import Fenced, Refused
from tests.conformance.world import World, release

WINDOW = 10.0


def ask(world: World, run: RunRow, key: str, *draws: Draw, slack: float = 1.0) -> float:
    """Return the turn of an attempt, in seconds from now."""
    verb = DrawRate(worker=run.owner or "", run=run.pk, claim=run.claim, key=key, draws=draws or (one(),), slack=slack)
    answer: object = Refused("")
    while isinstance(answer, Refused):
        answer = world.do(verb)
    assert isinstance(answer, Drawn), answer
    return answer.at - world.clock.wall()


def one(name: str = "gpt", *, limit: float = 2, amount: float = 1) -> Draw:
    return Draw(name, limit, WINDOW, amount)


def test_turns_are_given_in_the_order_in_which_they_are_asked_for(world: World) -> None:
    run = world.running()
    assert [ask(world, run, f"k{n}") for n in range(5)] == [0, 0, 10, 10, 20]
    world.clock.advance(4)
    assert ask(world, run, "k5") == 16


def test_an_attempt_that_asks_again_keeps_its_turn(world: World) -> None:
    run = world.running()
    assert [ask(world, run, f"k{n}") for n in (0, 1, 2)] == [0, 0, 10]
    world.clock.advance(3)
    assert ask(world, run, "k2") == 7
    world.clock.advance(7.5)
    assert ask(world, run, "k2") == -0.5
    assert ask(world, run, "k2") == -0.5


def test_a_turn_that_was_missed_is_given_anew(world: World) -> None:
    run = world.running()
    for n in (0, 1, 2):
        ask(world, run, f"k{n}")
    world.clock.advance(20)
    assert ask(world, run, "k2") == 0
    assert ask(world, run, "k3") == 0
    assert ask(world, run, "k4") == 10


def test_a_turn_that_was_taken_before_a_crash_is_not_taken_twice(world: World) -> None:
    run = world.running()
    assert ask(world, run, "k") == 0
    world.do(release(run))
    (again,) = world.claim()
    assert ask(world, again, "k") == 0
    assert ask(world, again, "other") == 10


def test_a_turn_that_is_waited_for_survives_the_worker(world: World) -> None:
    run = world.running()
    assert [ask(world, run, f"k{n}") for n in (0, 1, 2)] == [0, 0, 10]
    world.do(release(run))
    (again,) = world.claim()
    world.clock.advance(2)
    assert ask(world, again, "k2") == 8


def test_amounts_add_up(world: World) -> None:
    run = world.running()
    tokens = [
        ask(world, run, f"k{n}", one("tokens", limit=100, amount=amount)) for n, amount in enumerate((60, 30, 20))
    ]
    assert tokens == [0, 0, 10]
    assert ask(world, run, "small", one("tokens", limit=100, amount=5)) == 10
    assert ask(world, run, "whole", one("tokens", limit=100, amount=100)) == 20


def test_all_rates_of_a_step_have_to_have_room(world: World) -> None:
    run = world.running()
    both = (one("requests", limit=3), one("tokens", limit=100, amount=60))
    assert [ask(world, run, f"k{n}", *both) for n in range(3)] == [0, 10, 20]
    assert ask(world, run, "only requests", one("requests", limit=3)) == 20


def test_rates_of_other_names_have_nothing_to_do_with_each_other(world: World) -> None:
    run = world.running()
    assert [ask(world, run, name, one(name, limit=1)) for name in ("a", "b", "c")] == [0, 0, 0]


def test_who_has_lost_the_run_gets_no_turn(world: World) -> None:
    run = world.running()
    world.do(release(run))
    verb = DrawRate(worker="w1", run=run.pk, claim=run.claim + 1, key="k", draws=(one(),), slack=1.0)
    assert isinstance(world.do(verb), Fenced)


def test_a_clock_set_back_holds_up_nobody_for_longer_than_a_window(world: World) -> None:
    run = world.running()
    ask(world, run, "k0")
    ask(world, run, "k1")
    world.clock.wall_s -= 3600
    assert 0 <= ask(world, run, "k2") <= WINDOW


def test_a_clock_set_back_has_nobody_wait_behind_those_who_waited_already(world: World) -> None:
    run = world.running()
    assert [ask(world, run, f"k{n}") for n in range(5)] == [0, 0, 10, 10, 20]
    world.clock.wall_s -= 3600
    assert 0 <= ask(world, run, "new") <= WINDOW
    assert 0 <= ask(world, run, "k2") <= WINDOW, "whoever asks again, having waited, has no other turn than who is new"
    world.clock.wall_s += 3600
    turns = sorted(ask(world, run, name) for name in ("k3", "k4", "k5", "k6"))
    assert turns[0] >= 0
    assert turns[2] >= turns[0] + WINDOW


def test_no_stretch_of_time_has_more_than_the_rate(world: World) -> None:
    """Random amounts at random times; every moment at which one begins is the end of a window that is checked."""
    draws, run = random.Random(7), world.running()
    begun: list[tuple[float, float]] = []
    waiting: list[tuple[str, float, float]] = []
    for n in range(120):
        amount = draws.choice([1, 1, 2, 5])
        waiting.append((f"k{n}", amount, ask(world, run, f"k{n}", one(limit=8, amount=amount)) + world.clock.wall()))
        world.clock.advance(draws.choice([0, 0, 0.3, 1.7]))
        world.worker()
        now = world.clock.wall()
        for key, amount, _ in [w for w in waiting if w[2] <= now]:
            left = ask(world, run, key, one(limit=8, amount=amount))
            waiting = [w for w in waiting if w[0] != key]
            if left <= 0:
                begun.append((now + left, amount))
            else:
                waiting.append((key, amount, now + left))
    assert len(begun) > 12
    for end, _ in begun:
        assert sum(amount for at, amount in begun if end - WINDOW < at <= end) <= 8
