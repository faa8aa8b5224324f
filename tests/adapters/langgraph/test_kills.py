"""Processes are killed in the midst of a graph, and another goes on: its output is whole, with nothing in it twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast.langgraph import Saver
from tests.adapters.langgraph.fan import NODES
from tests.adapters.langgraph.graphs import Ledger, thread
from tests.adapters.langgraph.programs import program

WHOLE = sorted([*NODES, "end", "input"])
EVERY_WAY = pytest.mark.parametrize("way", ["async", "threads"])


def killed_at(place: str, url: str, durability: str, way: str, ledger: Path, wait_for: int = 0) -> None:
    """Run the program and kill it there; before, wait until so many checkpoints or writes are committed."""
    with program("fan", url, durability, way, str(ledger), place) as running:
        while not running.hear().startswith(("in ", "at ")):
            pass
        with Saver(url) as saver:
            while wait_for and _committed(saver) < wait_for:
                pass
        running.kill()


def _committed(saver: Saver) -> int:
    """Return of how many of the ten nodes the outcome is committed, as a write or in the state."""
    found = saver.get_tuple(thread())
    if found is None:
        return 0
    wrote = {task for task, channel, _ in found.pending_writes or () if channel == "log"}
    return len(wrote) + len(set(found.checkpoint["channel_values"].get("log", ())) & set(NODES))


def gone_on(url: str, durability: str, way: str, ledger: Path) -> list[str]:
    with program("fan", url, durability, way, str(ledger)) as running:
        said = running.hear().split()
        assert running.end() == 0
    return said


@EVERY_WAY
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("place", ["n3", "end"])
def test_the_output_is_whole_wherever_the_process_is_killed(
    url: str, tmp_path: Path, durability: str, way: str, place: str
) -> None:
    ledger = tmp_path / "ledger"
    killed_at(place, url, durability, way, ledger)
    assert gone_on(url, durability, way, ledger) == WHOLE


@EVERY_WAY
def test_ten_nodes_that_finish_at_one_moment_are_not_run_again(url: str, tmp_path: Path, way: str) -> None:
    """They are done when the end begins, as durability="sync" promises."""
    ledger = tmp_path / "ledger"
    killed_at("end", url, "sync", way, ledger)
    assert gone_on(url, "sync", way, ledger) == WHOLE
    assert Ledger(ledger).counts() == {**dict.fromkeys(NODES, 1), "end": 2}


@EVERY_WAY
def test_what_is_committed_of_ten_nodes_is_not_run_again_though_nobody_waited_for_it(
    url: str, tmp_path: Path, way: str
) -> None:
    ledger = tmp_path / "ledger"
    killed_at("end", url, "async", way, ledger, wait_for=len(NODES))
    assert gone_on(url, "async", way, ledger) == WHOLE
    assert Ledger(ledger).counts() == {**dict.fromkeys(NODES, 1), "end": 2}


def test_a_process_that_is_killed_again_and_again_comes_to_the_end(url: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    for place in ("n0", "n9", "end", "end"):
        killed_at(place, url, "sync", "threads", ledger)
    assert gone_on(url, "sync", "threads", ledger) == WHOLE
