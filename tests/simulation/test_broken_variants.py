"""The oracle must notice: each broken variant of the library is caught within so many seeds, by the rule it breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation import broken
from tests.simulation.faults import Weather
from tests.simulation.schedule import Season, play

SEEDS = 150


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


def lost_answers(weather: Weather) -> None:
    """Every third commit is not answered."""
    weather.habits.lost_answers = 0.3


def slow_commits(weather: Weather) -> None:
    """Attempts fail and are due again while commits take their time."""
    weather.outage = weather.cut = weather.freeze = weather.crash = weather.habits.jolt = 0.0
    weather.length_s = 25.0
    weather.habits.commit_s = weather.habits.answer_s = 0.2
    weather.rough.refused, weather.rough.mean_s = 0.8, 0.01


@pytest.mark.parametrize(
    ("variant", "rule", "season"),
    [
        (broken.no_fence, "I3", frost),
        (broken.no_barrier, "I4", any_season),
        (broken.no_intent, "I5", any_season),
        (broken.a_no_is_believed_at_once, "I5", deaths_in_mid_request),
        (broken.takeover_drops_a_run, "I2", any_season),
        (broken.no_local_look_at_the_lease, "I11", frost),
        (broken.lost_batches_are_not_sent_again, "I2", any_season),
        (broken.live_objects_are_handed_back, "I7", any_season),
        (broken.timers_before_doubts, "I7", deaths_in_mid_request),
        (broken.other_keys_for_other_attempts, "I8", any_season),
        (broken.only_the_starter_begins_its_run, "I2", any_season),
        (broken.claims_have_no_key, "I2", lost_answers),
        (broken.cancelled_attempts_are_forgotten, "I2", any_season),
        (broken.retries_while_parking, "I3", slow_commits),
        (broken.parking_does_not_look_again, "I2", any_season),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_library_is_caught(variant: broken.Variant, rule: str, season: Season, tmp_path: Path) -> None:
    with variant():
        found = next((result for seed in range(SEEDS) if (result := play(seed, tmp_path, season)).broken), None)
    assert found is not None, f"{SEEDS} schedules, and nothing was found"
    assert any(problem.startswith(rule) for problem in found.broken), str(found)
