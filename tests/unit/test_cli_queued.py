"""What a queue lets wait is told by its cause, and blamed on no worker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.outlast_command import Outlast
from tests.unit.past import Past, findings


def waits(command: Outlast, past: Past, claimed: int, **limits: Any) -> str:
    """Have three runs wait on a queue for 100 s, a worker take some; return why the others wait, as doctor says."""
    past.queue("llm", **limits)
    past.clock.ago = 100
    for n in range(3):
        past.start(f"r{n}", queue="llm")
    past.clock.ago = 0
    past.register("w", "fulfil")
    for _ in range(claimed):
        past.claim(queue="llm")
    (finding,) = findings(command)
    left = 3 - claimed
    fact, _, why = finding["what"].rpartition(": ")
    assert fact.startswith(f"{left} run{'s' if left > 1 else ''} of fulfil due and not claimed, r{claimed} since 1 min")
    assert finding["runs"] == [f"r{n}" for n in reversed(range(claimed, 3))]
    assert not finding["needs_person"]
    return str(why)


@pytest.mark.parametrize(
    ("claimed", "limits", "why"),
    [
        (1, {"concurrency": 1}, "queue llm is at its limit of 1"),
        (2, {"per_key": 2}, "queue llm is at its limit of 2 for runs without a key"),
        (2, {"rate": 2, "per": 3600.0}, "queue llm is at its rate of 2 in 3600 s"),
        (1, {"per_worker": 1}, "queue llm is at its limit of 1 per worker"),
        (0, {"paused_by": "ada"}, "queue llm is paused by ada"),
        (0, {"concurrency": 5}, "the workers that know it are full"),
    ],
)
def test_doctor_says_what_keeps_runs_on_their_queue(
    command: Outlast, past: Past, claimed: int, limits: dict[str, Any], why: str
) -> None:
    assert waits(command, past, claimed, **limits) == why
    found = json.loads(command.here("doctor", "--json").stdout)
    assert found["lags"] == [], "what a queue lets wait is no lag, by which workers are scaled"
    queued = [(each["queue"], each["why"], each["runs"], each["oldest"]) for each in found["queued"]]
    assert queued == ([("llm", why, 3 - claimed, f"r{claimed}")] if "queue" in why else [])
    assert all(each["waits_s"] == pytest.approx(100, abs=20) for each in found["queued"])


def test_a_paused_queue_is_told_wherever_its_run_is_looked_at(command: Outlast, past: Past) -> None:
    past.queue("llm", paused_by="ada")
    past.start("r", queue="llm")
    past.register("w", "fulfil")
    assert "  held up   queue llm is paused by ada\n" in command.here("show", "r").stdout
    assert command.json("show", "r")["run"]["held_up"] == "queue llm is paused by ada"
    waited = command.here("result", "r", "--timeout", "0.1")
    assert "it is pending, and queue llm is paused by ada" in waited.stderr


def test_runs_on_a_queue_that_no_worker_knows_need_a_person(command: Outlast, past: Past) -> None:
    past.queue("llm", concurrency=1)
    past.start("r", queue="llm")
    (finding,) = findings(command)
    assert finding["needs_person"]
    assert "no worker is alive" in finding["what"]
