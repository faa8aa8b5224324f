"""What `outlast doctor` says of the workers of a store, together."""

from __future__ import annotations

import json
import re

import pytest

from outlast.stores.verbs import TakenOver, TakeOver
from tests.unit.outlast_command import Outlast
from tests.unit.past import Past, change, findings


def test_the_fleet_is_told(command: Outlast, past: Past) -> None:
    for name in ("a", "b", "c"):
        past.start(name)
    past.register("w1", "fulfil", host="one", version="v1", python="3.11.9")
    past.register("w2", "fulfil", host="two", version="v1", python="3.13.1")
    past.register("w3", "mail", host="two", version="m9")
    past.claim("w1")
    past.claim("w1")
    past.claim("w2")
    change(command, "UPDATE workers SET beat = beat - 2, lease_until = lease_until - 2, started = started - 7200")
    found = json.loads(command.here("doctor", "--json").stdout)
    assert found["fleet"] == {"alive": 3, "hosts": 2, "runs": 3, "versions": {"v1": 2, "m9": 1}}
    workers = {worker["id"]: worker for worker in found["workers"]}
    assert [workers[name]["runs"] for name in ("w1", "w2", "w3")] == [2, 1, 0]
    first = workers["w1"]
    assert (first["host"], first["version"], first["python"]) == ("one", "v1", "3.11.9")
    assert first["lease_s"] == 30.0
    assert 2 <= first["since_beat_s"] < 28
    assert first["lease_left_s"] + first["since_beat_s"] == pytest.approx(30.0, abs=0.1)
    assert (found["lag_s"], found["lags"], found["findings"]) == (0.0, [], [])
    printed = command.here("doctor").stdout
    assert "workers  3 alive; 3 runs held, on 2 hosts\n" in printed
    (line,) = (line for line in printed.splitlines() if line.startswith("w1"))
    assert re.search(r" alive +\d+ +one +2 h +\d+\.\d s ago +\d+\.\d s left of 30\.0 s +2 +v1 +3\.11\.9 +fulfil$", line)


def test_a_worker_that_was_taken_over_is_shown_for_an_hour(command: Outlast, past: Past) -> None:
    past.register("dead", "fulfil")
    past.register("alive", "fulfil")
    change(command, "UPDATE workers SET lease_until = lease_until - 1000 WHERE id = 'dead'")
    assert past.store.transact([TakeOver(worker="alive", dead="dead", gone=False)]) == [TakenOver(())]
    printed = command.here("doctor").stdout
    assert "workers  1 alive, 1 expired; 0 runs held, on 1 host\n" in printed
    assert "\ndead " in printed
    change(command, 'UPDATE workers SET "left" = "left" - 3601')
    printed = command.here("doctor").stdout
    assert "workers  1 alive; 0 runs held, on 1 host\n" in printed
    assert "\ndead " not in printed


def test_the_lag_is_how_long_the_oldest_run_that_is_due_waits(command: Outlast, past: Past) -> None:
    past.register("w", "fulfil", "mail")
    past.clock.ago = 100
    past.start("first")
    past.start("second")
    past.clock.ago = 4
    past.start("letter", "mail")
    past.clock.ago = 0
    found = json.loads(command.here("doctor", "--json").stdout)
    assert found["lag_s"] == found["lags"][0]["waits_s"] == pytest.approx(100, abs=20)
    assert [(lag["workflow"], lag["runs"], lag["oldest"]) for lag in found["lags"]] == [
        ("fulfil", 2, "first"),
        ("mail", 1, "letter"),
    ]
    printed = command.here("doctor").stdout
    assert re.search(
        r"^lag      1 min \d+ s: so long first \(fulfil\) waits, the first of 3 runs due$", printed, re.MULTILINE
    )
    assert re.search(r"^         fulfil 1 min \d+ s \(2 runs\), mail \d+\.\d s \(1 run\)$", printed, re.MULTILINE)


def test_several_versions_of_the_same_code_are_noted(command: Outlast, past: Past) -> None:
    past.register("w1", "fulfil", "mail", "step:charge", version="v1")
    past.register("w2", "fulfil", "mail", "step:charge", version="v2")
    past.register("w3", "fulfil", "mail", "step:charge", version="v2")
    past.register("w4", "report", version="r1")
    (note,) = findings(command)
    assert note["what"] == (
        "2 versions of the code serve fulfil, mail: v2 (2 workers), v1 (1 worker); a deploy that rolls?"
    )
    assert not note["needs_person"]
