"""`outlast schedules`: what there is, and what is done with one."""

from __future__ import annotations

import datetime as dt

import pytest

from outlast import sync, workflow
from outlast.cli.exits import ExitCode
from tests.unit.outlast_command import Outlast
from tests.unit.past import change


@workflow
def scheduled_report(kind: str) -> str:
    return kind


@pytest.fixture
def command(command: Outlast) -> Outlast:
    with sync.App(str(command.folder / "outlast.db"), worker=False) as app:
        app.schedule("nightly", scheduled_report("x"), cron="0 3 * * *", timezone="Europe/Berlin")
    return command


def test_they_are_listed_with_what_became_of_their_slots(command: Outlast) -> None:
    (found,) = command.json("schedules")
    assert (found["name"], found["cron"], found["timezone"]) == ("nightly", "0 3 * * *", "Europe/Berlin")
    assert (found["started"], found["missed"], found["skipped"], found["paused"]) == (0, 0, 0, False)
    shown = command.here("schedules").stdout
    assert "nightly" in shown
    assert "0 3 * * * Europe/Berlin" in shown


def test_the_slots_that_wait_for_the_run_before_are_in_the_list(command: Outlast) -> None:
    change(command, "UPDATE schedules SET backlog = '[1.0,2.0,3.0]'")
    assert command.json("schedules")[0]["waiting"] == 3
    heads, row = command.here("schedules").stdout.splitlines()
    assert row[heads.index("WAITING") :].split()[0] == "3"


def test_one_is_shown_with_its_next_slots(command: Outlast) -> None:
    shown = command.here("schedules", "show", "nightly", "-n", "2").stdout
    assert "catch_up: one" in shown
    assert len(shown.partition("next slots:")[2].split()) == 2
    assert len(command.json("schedules", "show", "nightly")["upcoming"]) == 5


def test_one_is_paused_and_goes_on(command: Outlast) -> None:
    assert command.here("schedules", "pause", "nightly").stdout == "schedule nightly is paused\n"
    assert command.json("schedules")[0]["next"] is None
    assert "goes on" in command.here("schedules", "resume", "nightly").stdout
    assert dt.datetime.fromisoformat(command.json("schedules")[0]["next"]).tzinfo is not None


def test_a_run_is_started_by_hand(command: Outlast) -> None:
    assert command.json("schedules", "trigger", "nightly", "--id", "mine") == {"schedule": "nightly", "run": "mine"}
    assert [run["id"] for run in command.json("runs")] == ["mine"]


def test_a_stretch_of_the_past_is_filled(command: Outlast) -> None:
    stretch = ("--start", "2026-03-28T00:00:00+01:00", "--end", "2026-03-30T00:00Z")
    result = command.here("schedules", "backfill", "nightly", *stretch)
    assert result.stdout == "nightly@2026-03-28T02:00:00Z\nnightly@2026-03-29T01:00:00Z\n"


def test_one_is_deleted(command: Outlast) -> None:
    assert command.here("schedules", "delete", "nightly").exit_code == 0
    assert command.json("schedules") == []


@pytest.mark.parametrize("action", ["show", "pause", "resume", "trigger"])
def test_an_unknown_schedule_is_not_found(command: Outlast, action: str) -> None:
    said = command.here("schedules", action, "nix")
    assert (said.exit_code, "no schedule has the name 'nix'" in said.stderr) == (ExitCode.NOT_FOUND, True)


@pytest.mark.parametrize("option", ["--pause", "--resume"])
def test_an_unknown_queue_is_not_found(command: Outlast, option: str) -> None:
    said = command.here("queues", option, "nix")
    assert (said.exit_code, "no queue has the name 'nix'" in said.stderr) == (ExitCode.NOT_FOUND, True)


@pytest.mark.parametrize(
    "words",
    [
        ("list", "nightly"),
        ("pause",),
        ("pause", "nightly", "--start", "2026-03-28T00:00Z"),
        ("pause", "nightly", "--id", "x"),
        ("backfill", "nightly"),
        ("backfill", "nightly", "--start", "yesterday", "--end", "2026-03-28T00:00Z"),
        ("backfill", "nightly", "--start", "2026-03-28", "--end", "2026-03-29"),
        ("pause", "unknown"),
    ],
)
def test_what_makes_no_sense_is_refused(command: Outlast, words: tuple[str, ...]) -> None:
    assert command.here("schedules", *words).exit_code not in (ExitCode.OK, ExitCode.BROKEN_PIPE)
