"""Journals made under one Python replay under every other, and whatever PYTHONHASHSEED is.

The journals are in tests/data; how they are made is told in tests/support/recorded.py.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.recorded import Journals, load, programs, replay, sights_of

ROOT = Path(__file__).parent.parent.parent
MADE = load()


def test_there_are_journals_from_before_and_after_wait_for_changed() -> None:
    assert {made.python.rpartition(".")[0] for made in MADE} == {"3.11", "3.13"}


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.python)
def test_journals_of_another_python_replay(made: Journals) -> None:
    known = programs()
    assert set(known) == set(made.journals)
    for name, journal in made.journals.items():
        world = replay(journal, known[name])
        assert world.engine.failure is None, name
        assert [key for key in world.asked if world.engine.calls[key].call.is_step] == [], name
        assert sights_of(world) == journal.sights, name
        assert str(world.ending()) == journal.ending, name


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_journals_replay_under_any_hash_seed(hash_seed: str) -> None:
    replayed = subprocess.run(
        [sys.executable, "-m", "tests.support.recorded", "replay"],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert replayed.returncode == 0, replayed.stderr


def test_a_journal_that_was_tampered_with_does_not_replay() -> None:
    journal = copy.deepcopy(MADE[0].journals["races"])
    steps = [i for i, record in enumerate(journal.records) if record["kind"] == "step"]
    first, second = journal.records[steps[0]], journal.records[steps[1]]
    first["value"], second["value"] = second["value"], first["value"]
    world = replay(journal, programs()["races"])
    assert world.engine.failure is not None or sights_of(world) != journal.sights
