"""Seasons: some faults made sure, others kept away, so that what needs two of them together is found sooner."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.faults import Weather

Season = Callable[[Weather], None]


def any_season(weather: Weather) -> None:
    """Whatever the seed has drawn."""


def frost(weather: Weather) -> None:
    """Processes freeze while others are there to take over."""
    weather.processes, weather.freeze, weather.crash = 3, 0.5, 0.0
    weather.habits.jolt = 0.05


def deaths_in_mid_request(weather: Weather) -> None:
    """Processes die while what they have sent is on its way, and are found out at once."""
    weather.processes, weather.locks = 3, 1.0
    weather.outage = weather.cut = weather.freeze = 0.0
    weather.habits.jolt, weather.habits.look_s, weather.habits.commit_s = 0.1, 0.05, 0.003
    weather.rough.slow, weather.rough.unknown = 1.0, 0.0


def deaths_under_wrong_clocks(weather: Weather) -> None:
    """Besides, every clock is set again and again."""
    deaths_in_mid_request(weather)
    weather.jump, weather.drain = 2.0, 0.1


def lost_answers(weather: Weather) -> None:
    """Every third commit is not answered."""
    weather.habits.lost_answers = 0.3


def slow_commits(weather: Weather) -> None:
    """Attempts fail and are due again while commits take their time."""
    weather.length_s = 25.0
    weather.outage = weather.cut = weather.freeze = weather.crash = weather.habits.jolt = 0.0
    weather.habits.commit_s = weather.habits.answer_s = 0.2
    weather.rough.refused, weather.rough.mean_s = 0.8, 0.01


def little_room(weather: Weather) -> None:
    """Three workers with room for one run and one step each, and losses."""
    weather.processes, weather.limits.worker_concurrency, weather.limits.max_steps = 3, 1, 1
    weather.habits.lost_answers, weather.crash, weather.habits.one_by_one = 0.2, 0.2, True


def fickle_customers(weather: Weather) -> None:
    """Customers ask processes that execute nothing, give up early, and change their minds."""
    weather.clients, weather.impatient, weather.cancels, weather.drain = 2, 0.3, 1.0, 0.3
    weather.habits.one_by_one = True


def deploys(weather: Weather) -> None:
    """Workers are drained and replaced all the time."""
    weather.processes, weather.drain, weather.cancels, weather.length_s = 3, 1.0, 0.5, 20.0
    weather.habits.commit_s, weather.habits.read_s, weather.habits.one_by_one = 0.1, 0.3, True


def blackouts(weather: Weather) -> None:
    """All die at once, now and then with their machine."""
    weather.blackout, weather.reboot, weather.locks, weather.length_s = 0.5, 0.5, 0.7, 20.0


SEASONS: dict[str, Season] = {
    season.__name__: season
    for season in (
        any_season,
        frost,
        deaths_in_mid_request,
        deaths_under_wrong_clocks,
        lost_answers,
        slow_commits,
        little_room,
        fickle_customers,
        deploys,
        blackouts,
    )
}
