"""Everything goes wrong at once: no run is lost, no `once` effect doubled, no effect repeated under another key."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.harness.fleet import Fleet
from tests.crash.harness.fleet_storm import WAYS, FleetStorm
from tests.crash.harness.scene import Zygote
from tests.crash.harness.verdict import settle, wrongs
from tests.support.server import Server
from tests.support.wire import Wire

QUICK = {"answer_timeout": 1, "idle_timeout": 1, "connect_timeout": 2, "open_timeout": 60}


@pytest.fixture
def storm(zygote: Zygote, tmp_path: Path) -> Iterator[FleetStorm]:
    """Return a storm over a server of its own."""
    with Server() as server, Wire.to(server.make().start().url) as wire:
        fleet = Fleet(zygote, tmp_path / "scene", wire.url(server.url, **QUICK), f"{server.url}&open_timeout=60")
        seed = random.randrange(10**6)
        yield FleetStorm(fleet, seed, server=server, wire=wire, workers=6, ways=WAYS, every_s=2.0)
        fleet.close()


def blow(storm: FleetStorm, record_property: object, runs: int, seconds: float) -> None:
    storm.blow(runs, seconds)
    storm.calm()
    wrong = storm.wrong + settle(storm.scene, deadline_s=120.0) + storm.twice()
    wrong += wrongs(storm.scene, may_repeat=storm.under_way())
    table = storm.table(seconds)
    record_property("table", table)  # type: ignore[operator]
    assert wrong == [], table


def test_a_storm_over_a_fleet_loses_and_doubles_nothing(storm: FleetStorm, record_property: object) -> None:
    storm.every_s = 1.0
    blow(storm, record_property, runs=80, seconds=12.0)


@pytest.mark.soak
def test_a_long_storm_over_a_fleet_loses_and_doubles_nothing(storm: FleetStorm, record_property: object) -> None:
    storm.pace_s = 0.3
    minutes = float(os.environ.get("OUTLAST_SOAK_MINUTES", "10"))
    blow(storm, record_property, runs=1_000, seconds=60.0 * minutes)
