"""Workers are killed at random moments: each slot of a schedule has one run, and no child outlives its parent."""

from __future__ import annotations

import datetime as dt
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from outlast.runtime.declared import DECLARED
from outlast.sync import App
from tests.support.postgres import empty_store_url

ROOT = Path(__file__).parents[2]
KILLS = 10
PARENTS = 30
DEADLINE_S = 60.0


def hire(url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.crash.harness.schedule_worker", url]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def until(what: str, condition: Callable[[], Any]) -> None:
    """Wait for what other processes bring about."""
    give_up = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < give_up, f"never: {what}"
        time.sleep(0.05)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_each_slot_has_one_run_and_no_child_is_left_behind(tmp_path: Path, store: str) -> None:
    from tests.crash.harness.schedule_worker import EVERY_S, parent  # noqa: PLC0415 - it declares a schedule

    DECLARED.clear()  # which is for the workers alone
    chance = random.Random(7)
    url = f"sqlite:///{tmp_path / 'runs.db'}" if store == "sqlite" else empty_store_url()
    workers = [hire(url), hire(url)]
    try:
        with App(url, worker=False) as app:
            until("a slot has its run", lambda: app.runs(workflow="slot"))
            for n in range(PARENTS):
                app.start(parent(), id=f"parent-{n}")
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.1, 0.5))
                victim = workers.pop(chance.randrange(len(workers)))
                victim.kill()
                victim.wait()
                workers.append(hire(url))
            until("all parents failed", lambda: len(app.runs(workflow="parent", status="failed")) == PARENTS)
            until("all children ended", lambda: not _open(app, "sleeper"))
            app.get_schedule("slot").pause()
            until("all slots' runs ended", lambda: not _open(app, "slot"))
            slots = app.runs(workflow="slot", status="succeeded", limit=10_000)[::-1]
            info = app.get_schedule("slot").info()
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    moments = sorted(dt.datetime.fromisoformat(run.id.partition("@")[2]) for run in slots)
    gaps = {round((later - before).total_seconds(), 2) for before, later in pairwise(moments)}
    assert gaps == {EVERY_S}  # none twice, none left out
    assert (info.started, info.missed, info.skipped) == (len(slots), 0, 0)


def _open(app: App, workflow: str) -> list[Any]:
    return app.runs(workflow=workflow, status=["pending", "running", "waiting", "stuck", "failed"], limit=1)
