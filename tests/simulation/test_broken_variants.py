"""The oracle must notice: each broken variant of the library is caught within so many seeds, by the rule it breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation import broken, seasons
from tests.simulation.schedule import play

SEEDS = 150


@pytest.mark.parametrize(
    ("variant", "rule", "season"),
    [
        (broken.no_fence, "I3", seasons.frost),
        (broken.no_barrier, "I4", seasons.any_season),
        (broken.no_intent, "I5", seasons.any_season),
        (broken.a_no_is_believed_at_once, "I5", seasons.deaths_in_mid_request),
        (broken.takeover_drops_a_run, "I2", seasons.any_season),
        (broken.no_local_look_at_the_lease, "I11", seasons.frost),
        (broken.lost_batches_are_not_sent_again, "I2", seasons.any_season),
        (broken.live_objects_are_handed_back, "I7", seasons.any_season),
        (broken.timers_before_doubts, "I7", seasons.deaths_in_mid_request),
        (broken.other_keys_for_other_attempts, "I8", seasons.any_season),
        (broken.only_the_starter_begins_its_run, "I2", seasons.any_season),
        (broken.claims_have_no_key, "I2", seasons.lost_answers),
        (broken.cancelled_attempts_are_forgotten, "I2", seasons.any_season),
        (broken.retries_while_parking, "I3", seasons.slow_commits),
        (broken.parking_does_not_look_again, "I2", seasons.any_season),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_library_is_caught(variant: broken.Variant, rule: str, season: seasons.Season, tmp_path: Path) -> None:
    with variant():
        found = next((result for seed in range(SEEDS) if (result := play(seed, tmp_path, season)).broken), None)
    assert found is not None, f"{SEEDS} schedules, and nothing was found"
    assert any(problem.startswith(rule) for problem in found.broken), str(found)
