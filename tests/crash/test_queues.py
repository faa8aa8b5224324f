"""Workers of a queue are killed at random moments: no limit is exceeded, no place is lost, every run has its turn."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from outlast.core.transitions import ENDED
from outlast.sync import App
from tests.crash.harness.queue_worker import AT_ONCE, CALLS, CALLS_S, OF_KEY, OF_WORKER, STARTS, STARTS_S, job
from tests.support.postgres import empty_store_url

ROOT = Path(__file__).parents[2]
RUNS = 120
KILLS = 12
DEADLINE_S = 90.0
# Between leave being given and the step's own note lies a turn of a loop, on a machine that does much else.
BLUR_S = 0.04


class Fleet:
    """Worker processes, killed and replaced."""

    def __init__(self, url: str, notes: Path) -> None:
        self._command = [sys.executable, "-m", "tests.crash.harness.queue_worker", url, str(notes)]
        self.alive: list[subprocess.Popen[bytes]] = []
        self.died: dict[int, float] = {}

    def hire(self) -> None:
        self.alive.append(subprocess.Popen(self._command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}))

    def kill(self, which: int) -> None:
        process = self.alive.pop(which)
        self.died[process.pid] = time.monotonic()
        process.kill()
        process.wait()

    def close(self) -> None:
        while self.alive:
            self.kill(0)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_queue_keeps_its_limits_while_its_workers_are_killed(store: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db" if store == "sqlite" else empty_store_url()
    notes, dice = tmp_path / "notes", random.Random()
    fleet = Fleet(url, notes)
    until = time.monotonic() + DEADLINE_S
    try:
        with App(url, worker=False) as app:
            for number in range(RUNS):
                app.start(job(dice.choice(["big", "big", "big", "a", "b"]), number), id=f"job-{number}")
            for _ in range(3):
                fleet.hire()
            kills = 0
            while left := [run for run in app.runs(limit=RUNS) if run.status not in ENDED]:
                assert time.monotonic() < until, f"{len(left)} runs never came to their end: {left[:3]}"
                time.sleep(0.4)
                if kills < KILLS and notes.exists():
                    kills += 1
                    fleet.kill(dice.randrange(len(fleet.alive)))
                    fleet.hire()
            rows = app.runs(limit=RUNS)
            queue = next(queue for queue in app.queues() if queue.name == "storm")
    finally:
        fleet.close()
    assert Counter(run.status for run in rows) == {"succeeded": RUNS}
    assert (queue.waiting, queue.running) == (0, 0)
    assert busiest([run.started or 0.0 for run in rows], STARTS_S) <= STARTS
    check_notes(notes, fleet.died)


def check_notes(notes: Path, died: dict[int, float]) -> None:
    """Look at what the workers noted: the steps that were under way at one moment, and how often one began."""
    moves: list[tuple[float, int, str, int]] = []
    begun: dict[tuple[str, str, int], float] = {}
    asked = []
    for line in notes.read_text().splitlines():
        what, key, number, pid_text, at_text = line.split()
        pid, at = int(pid_text), float(at_text)
        if what == "ask":
            asked.append(at)
        elif what == "begin":
            begun[key, number, pid] = at
        else:
            moves += [(begun.pop((key, number, pid)), +1, key, pid), (at, -1, key, pid)]
    for (key, _, pid), at in begun.items():  # their worker died under them
        moves += [(at, +1, key, pid), (max(at, died[pid]), -1, key, pid)]
    all_at_once, of_key, of_worker = 0, Counter[str](), Counter[int]()
    for _, change, key, pid in sorted(moves):
        all_at_once += change
        of_key[key] += change
        of_worker[pid] += change
        assert all_at_once <= AT_ONCE
        assert of_key[key] <= OF_KEY
        assert of_worker[pid] <= OF_WORKER
    assert busiest(asked, CALLS_S - BLUR_S) <= CALLS


def busiest(moments: list[float], seconds: float) -> int:
    """Return how many lie in the fullest stretch of so many seconds."""
    return max(sum(end - seconds < at <= end for at in moments) for end in moments)
