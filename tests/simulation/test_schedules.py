"""Random schedules of many workers under faults. Each seed is a history of its own; see the package's docstring."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.simulation.schedule import play
from tests.simulation.seasons import SEASONS, Season, any_season

CHUNKS = 50
SEEDS_PER_CHUNK = 20
SOAK_FROM = 1_000_000

ONE_SEED, ITS_SEASON = os.environ.get("OUTLAST_SEED", ""), os.environ.get("OUTLAST_SEASON", "any_season")
"""A single seed to play, instead of all: what a failure says to set."""


def _play(seed: int, folder: Path, season: Season = any_season) -> None:
    result = play(seed, folder, season)
    if result.broken:
        pytest.fail(str(result), pytrace=False)


@pytest.mark.skipif(not ONE_SEED, reason="OUTLAST_SEED is not set")
def test_the_seed_that_was_asked_for_breaks_no_rule(tmp_path: Path) -> None:
    _play(int(ONE_SEED), tmp_path, SEASONS[ITS_SEASON])


@pytest.mark.skipif(bool(ONE_SEED), reason="OUTLAST_SEED is set")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_schedule_breaks_a_rule(chunk: int, tmp_path: Path) -> None:
    for seed in range(chunk * SEEDS_PER_CHUNK, (chunk + 1) * SEEDS_PER_CHUNK):
        _play(seed, tmp_path)


@pytest.mark.soak
def test_no_schedule_breaks_a_rule_however_long_one_looks(tmp_path: Path) -> None:
    until = time.monotonic() + 60 * float(os.environ.get("OUTLAST_SOAK_MINUTES", "10"))
    seed = SOAK_FROM + time.time_ns() % 1_000_000_000
    while time.monotonic() < until:
        for season in SEASONS.values():
            _play(seed, tmp_path, season)
        seed += 1


def test_a_seed_is_the_same_history_in_every_process() -> None:
    """In processes of their own: what other tests have declared in this one, workers tell of."""
    code = "from tests.simulation.schedule import play; print(*[play(seed).history for seed in range(8)])"
    histories = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[2],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("0", "4711")
    }
    assert len(histories) == 1
