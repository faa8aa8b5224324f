"""The primary is killed and its synchronous standby takes its place: nothing that was acknowledged is lost."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from outlast.core.transitions import Status
from tests.crash.harness.failover_storm import WAYS, FailoverStorm
from tests.crash.harness.fleet import Fleet
from tests.crash.harness.scene import Zygote
from tests.crash.harness.verdict import judge, settle, wrongs
from tests.crash.harness.worker import find
from tests.support.pair import Pair
from tests.support.wire import Wire

MIX = ("errand", "chore", "letter")
QUICK = {"answer_timeout": 1, "idle_timeout": 1, "connect_timeout": 2, "open_timeout": 60}


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return a primary and a standby that each of its commits waits for."""
    with Pair() as made:
        yield made.start()


@pytest.mark.parametrize("way", ["several hosts in the URL", "a proxy that is redirected"])
def test_a_fleet_goes_on_at_the_standby_and_nothing_acknowledged_is_lost(
    zygote: Zygote, pair: Pair, tmp_path: Path, way: str
) -> None:
    with ExitStack() as stack, Wire.to(pair.primary.url) as wire:
        url = pair.url if way.startswith("several") else wire.url(pair.primary.url, connect_timeout=2)
        fleet = stack.enter_context(closing(Fleet(zygote, tmp_path / "scene", url, pair.url, lease=3.0, pace_s=0.01)))
        crew = [fleet.worker() for _ in range(2)]
        with fleet.client() as app:
            runs = []
            for n in range(24):
                name = MIX[n % len(MIX)]
                runs.append(app.start(find(name)(f"{n}"), id=f"{name}-{n}"))
                fleet.accepted[runs[-1].id] = (name, [f"{n}"])
                if n == 12:
                    results = {run.id: run.result(timeout=20.0) for run in runs[:3]}
                    pair.fail_over()
                    wire.target = f"{pair.primary.folder}/.s.PGSQL.5432"
        assert judge(fleet) == []
        assert {run: fleet.row(run).status for run in results} == dict.fromkeys(results, Status.SUCCEEDED)
        assert not any(worker.ended for worker in crew)


@pytest.fixture
def storm(zygote: Zygote, pair: Pair, tmp_path: Path) -> Iterator[FailoverStorm]:
    """Return a storm over a pair of servers."""
    with Wire.to(pair.primary.url) as wire:
        fleet = Fleet(zygote, tmp_path / "scene", wire.url(pair.primary.url, **QUICK), f"{pair.url}&open_timeout=60")
        yield FailoverStorm(
            fleet, random.randrange(10**6), pair=pair, server=pair.primary, wire=wire, workers=5, ways=WAYS,
            every_s=2.0, moves_every_s=30.0,
        )  # fmt: skip
        fleet.close()


def blow(storm: FailoverStorm, record_property: object, runs: int, seconds: float) -> None:
    storm.blow(runs, seconds)
    storm.calm()
    wrong = storm.wrong + settle(storm.scene, deadline_s=120.0) + storm.twice() + storm.missing()
    wrong += wrongs(storm.scene, may_repeat=storm.under_way()) + storm.ended_by_themselves()
    table = storm.table(seconds)
    record_property("table", table)  # type: ignore[operator]
    assert wrong == [], table
    assert storm.done["fail over"] > 0


def test_a_failover_in_the_middle_of_a_storm_loses_and_doubles_nothing(
    storm: FailoverStorm, record_property: object
) -> None:
    storm.moves_every_s = 4.0
    blow(storm, record_property, runs=80, seconds=14.0)


@pytest.mark.soak
def test_failovers_in_the_middle_of_a_long_storm_lose_and_double_nothing(
    storm: FailoverStorm, record_property: object
) -> None:
    storm.pace_s = 0.3
    minutes = float(os.environ.get("OUTLAST_SOAK_MINUTES", "10"))
    blow(storm, record_property, runs=1_000, seconds=60.0 * minutes)
