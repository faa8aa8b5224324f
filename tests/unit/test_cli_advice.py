"""What `outlast show` advises for a run that does not go on: each command can be typed and does something."""

from __future__ import annotations

import re
import shlex

import pytest

from outlast.cli.exits import ExitCode
from tests.unit.broken_shop import CODE, execute, finish, marks, wait_until
from tests.unit.outlast_command import Outlast


@pytest.fixture
def command(command: Outlast) -> Outlast:
    command.write("shop.py", CODE)
    return command


def advised(command: Outlast, run: str = "r") -> list[str]:
    """Return the commands that `show` advises, having looked that each of them does something."""
    advice: list[str] = command.json("show", run)["advice"]
    shown = command.here("show", run).stdout
    commands = [line.strip() for line in advice if line.startswith("  outlast ")]
    assert commands
    assert all(line in shown for line in advice)
    found = [shlex.split(typed.partition(" --url ")[0])[1:] for typed in commands]
    for words in found:
        assert command.here(*words).exit_code == 0, words
    return [" ".join(words) for words in found]


def test_a_failed_step_is_taken_up_again(command: Outlast) -> None:
    execute(command, "deliver", ExitCode.FAILED)
    assert advised(command) == ["resume r"]


def test_where_an_effect_came_after_the_failure_show_advises_a_fork(command: Outlast) -> None:
    execute(command, "tidy", ExitCode.FAILED)
    text = command.here("show", "r").stdout
    assert "it cannot be resumed: run r failed at step main/ship#1, and step main/refund#1 was recorded" in text
    says = "knows nothing of main/refund#1: where that undid a step, name it"
    assert says in text
    assert says in command.here("resume", "r").stderr
    assert advised(command) == ["fork r main/ship#1"]


def test_a_fork_that_does_a_once_step_again_is_advised_with_a_warning(command: Outlast) -> None:
    result = command("start", "shop.py:tidy", "[0, true]", "--here", "--id", "r")
    assert result.returncode == ExitCode.FAILED
    command.here("resolve", "r", "charge", "--fail")
    finish(command)
    assert "if it is right that this does `once` step main/charge#1 again:" in command.here("show", "r").stdout
    assert (
        "Start a new course instead: outlast fork r 'main/charge#1' --repeat-once" in command.here("resume", "r").stderr
    )
    assert advised(command) == ["fork r main/charge#1 --repeat-once"]


def test_where_a_cancelled_run_cleaned_up_show_names_the_step_and_advises_a_fork(command: Outlast) -> None:
    with command.process("worker", "shop.py"):
        command("start", "shop.py:tidy", "[3600]", "--id", "r")
        wait_until(lambda: command.json("show", "r")["run"]["status"] == "waiting")
        assert command.here("cancel", "r", "--wait").exit_code == 0
    why = "run r was cancelled, and cleanup step main/refund#1 was recorded after that"
    assert f"it cannot be resumed: {why}." in command.here("show", "r").stdout
    assert why in command.here("resume", "r").stderr
    assert advised(command) == ["fork r main/refund#1"]


def test_what_the_body_raised_itself_is_said_to_come_again(command: Outlast) -> None:
    execute(command, "buggy", ExitCode.FAILED)
    assert "Change the code, restart the workers, then" in command.here("show", "r").stdout
    assert advised(command) == ["resume r"]
    assert finish(command) == ""  # it failed again
    assert marks(command, "planned") == 1


def test_a_child_is_looked_at_before_its_parent_is_taken_up(command: Outlast) -> None:
    execute(command, "family", ExitCode.FAILED)
    (child,) = command.json("show", "r")["children"]
    advice = command.json("show", "r")["advice"]
    assert [" ".join(line.split()[:3]) for line in advice if line.startswith("  ")] == [
        f"outlast show {child}", "outlast resume r",
    ]  # fmt: skip
    assert command.here("resume", "r").exit_code == ExitCode.WRONG_USE
    assert advised(command, child) == [f"resume {child}"]
    assert advised(command) == ["resume r"]


def test_a_child_that_cannot_be_taken_up_again_is_not_advised_but_a_fork_of_its_parent(command: Outlast) -> None:
    with command.process("worker", "shop.py"):
        command("start", "shop.py:tidies", "--id", "r")
        wait_until(lambda: [run["status"] for run in command.json("runs", "--workflow", "tidy")] == ["waiting"])
        assert command.here("cancel", "r", "--wait").exit_code == 0
        wait_until(lambda: [run["status"] for run in command.json("runs", "--workflow", "tidy")] == ["cancelled"])
    (child,) = command.json("show", "r")["children"]
    why = f"run {child} was cancelled, and cleanup step main/refund#1 was recorded after that"
    assert f"its child {child} cannot be taken up again ({why})" in command.here("show", "r").stdout
    assert re.search(r"[✗x] tidy#1", command.here("show", "r").stdout)  # and not as if it were under way
    refused = command.here("resume", "r").stderr
    assert why in refused
    assert "outlast fork r 'main/tidy#1' --repeat-once" in refused
    assert advised(command) == ["fork r main/tidy#1 --repeat-once"]


def test_a_run_that_waits_for_a_stuck_child_points_to_it(command: Outlast) -> None:
    with command.process("worker", "shop.py"):
        command("start", "shop.py:chain", "--id", "r")
        wait_until(lambda: [run["id"] for run in command.json("runs", "--status", "stuck")] != [])
        (child,) = command.json("show", "r")["children"]
        first, second = command.json("show", "r")["advice"]
        assert first == "its child needs a person, by what this says:"
        assert second.startswith(f"  outlast show {child}")
