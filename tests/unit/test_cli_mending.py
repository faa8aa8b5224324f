"""`outlast resolve`, `resume` and `fork`: what a person does to a run that does not go on."""

from __future__ import annotations

import json

import pytest

from outlast.cli.exits import ExitCode
from tests.unit.broken_shop import CODE, execute, finish, marks, wait_until
from tests.unit.outlast_command import Outlast


@pytest.fixture
def command(command: Outlast) -> Outlast:
    command.write("shop.py", CODE)
    return command


def test_happened_gives_the_step_its_result(command: Outlast) -> None:
    execute(command, "pay", ExitCode.FAILED)
    result = command.here("resolve", "r", "charge", "--happened", '{"id": "ch_7"}', "--by", "ann")
    then = "a worker checks that and goes on with the run"
    assert result.stdout == f"decided: attempt 1 of step main/charge#1 of run r happened; {then}\n"
    assert finish(command) == '"ch_7"\n'
    assert marks(command, "charged") == 1


def test_did_not_happen_tries_it_again(command: Outlast) -> None:
    execute(command, "pay", ExitCode.FAILED)
    (command.folder / "works").touch()
    assert command.json("resolve", "r", "main/charge#1", "--did-not-happen", "--attempt", "1") == {
        "id": "r",
        "step": "main/charge#1",
        "attempt": 1,
        "decision": "did_not_happen",
    }
    assert finish(command) == '"ch_1"\n'
    assert marks(command, "charged") == 2


def test_fail_raises_in_the_workflow(command: Outlast) -> None:
    execute(command, "careful", ExitCode.FAILED)
    assert command.here("resolve", "r", "charge", "--fail").exit_code == 0
    assert "in doubt: " in finish(command)


@pytest.mark.parametrize(
    "decision", [(), ("--fail", "--did-not-happen"), ("--happened", "1", "--fail"), ("--happened", "not json")]
)
def test_a_decision_is_one_of_three(command: Outlast, decision: tuple[str, ...]) -> None:
    execute(command, "pay", ExitCode.FAILED)
    result = command.here("resolve", "r", "charge", *decision)
    assert result.exit_code == ExitCode.WRONG_USE
    assert command.json("show", "r")["run"]["status"] == "stuck"


def test_a_decision_holds_for_the_attempt_shown_and_no_other(command: Outlast) -> None:
    execute(command, "pay", ExitCode.FAILED)
    wrong = command.here("resolve", "r", "charge", "--did-not-happen", "--attempt", "2")
    assert wrong.exit_code == ExitCode.WRONG_USE
    assert "attempt 1 is" in wrong.stderr
    nothing = command.here("resolve", "r", "plan", "--fail")
    assert nothing.exit_code == ExitCode.WRONG_USE
    assert "'main/charge#1' (attempt 1)" in nothing.stderr


def test_a_run_that_is_not_in_doubt_has_nothing_to_decide(command: Outlast) -> None:
    execute(command, "deliver", ExitCode.FAILED)
    result = command.here("resolve", "r", "ship", "--fail", "--json")
    assert result.exit_code == ExitCode.WRONG_USE
    assert json.loads(result.stderr)["type"] == "NotResumable"


def test_resume_tries_the_failed_step_again_and_nothing_else(command: Outlast) -> None:
    execute(command, "deliver", ExitCode.FAILED)
    (command.folder / "works").touch()
    assert command.here("resume", "r").stdout == "run r is pending again; a worker takes it up\n"
    assert finish(command) == '"shipped"\n'
    assert marks(command, "planned") == 1


def fail_several(command: Outlast) -> None:
    """Leave two failed runs of `deliver`, one in doubt, and one that succeeded."""
    with command.process("worker", "shop.py"):
        for run in ("r-1", "r-2"):
            command("start", "shop.py:deliver", "--id", run, "--wait")
        command("start", "shop.py:pay", "--id", "doubt", "--wait")
    (command.folder / "works").touch()
    with command.process("worker", "shop.py"):
        assert command("start", "shop.py:deliver", "--id", "fine", "--wait").returncode == 0


AGAIN = "run {} is pending again; a worker takes it up"


def test_several_runs_are_taken_up_and_each_is_told(command: Outlast) -> None:
    fail_several(command)
    result = command.here("resume", "r-1", "nothing", "fine", "doubt", "r-2", "r-1")
    assert result.stdout.splitlines() == [AGAIN.format("r-1"), AGAIN.format("r-2")]
    refused = result.stderr.splitlines()
    assert [line[:7] for line in refused] == ["error: "] * 3
    assert all(name in line for name, line in zip(("nothing", "fine", "doubt"), refused, strict=True))
    assert result.exit_code == ExitCode.WRONG_USE
    result = command.here("resume", "r-1", "nothing", "--json")
    again, missing = json.loads(result.stdout)
    assert (again["id"], again["type"]) == ("r-1", "NotResumable")
    assert (missing["id"], missing["type"]) == ("nothing", "RunNotFound")
    assert command.here("resume", "nothing", "none").exit_code == ExitCode.NOT_FOUND


def test_all_of_a_kind_are_taken_up(command: Outlast) -> None:
    fail_several(command)
    assert command.here("resume", "--all", "--reason", "crash_loop").exit_code == 0
    assert command.here("resume", "--all", "--status", "cancelled").stderr == "no such run is there to be taken up\n"
    result = command.here("resume", "--all", "--workflow", "deliver")
    assert (result.exit_code, result.stdout.splitlines()) == (0, [AGAIN.format("r-2"), AGAIN.format("r-1")])
    result = command.here("resume", "--all")
    assert result.exit_code == ExitCode.WRONG_USE
    assert "outlast resolve" in result.stderr
    with command.process("worker", "shop.py"):
        for run in ("r-1", "r-2"):
            assert command.here("result", run, "--timeout", "60").stdout == '"shipped"\n'


def test_a_family_that_failed_is_taken_up_with_the_child_first(command: Outlast) -> None:
    execute(command, "family", ExitCode.FAILED)
    assert command.here("resume", "--all").exit_code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "say which runs"),
        (("r", "--all"), "say which runs"),
        (("r", "--reason", "crash_loop"), "choose among --all"),
        (("--all", "--status", "running"), "--status running: only failed, cancelled, stuck runs"),
        (("--all", "--reason", "nothing"), "nothing"),
    ],
)
def test_which_runs_are_meant_has_to_be_clear(command: Outlast, words: tuple[str, ...], says: str) -> None:
    execute(command, "deliver", ExitCode.FAILED)
    result = command.here("resume", *words)
    assert result.exit_code == ExitCode.WRONG_USE
    assert says in result.stderr


def test_resume_names_resolve_for_a_run_in_doubt(command: Outlast) -> None:
    execute(command, "pay", ExitCode.FAILED)
    result = command.here("resume", "r")
    assert result.exit_code == ExitCode.WRONG_USE
    assert "outlast resolve" in result.stderr


def test_a_run_that_goes_on_cannot_be_resumed(command: Outlast) -> None:
    command("start", "shop.py:pay", "--id", "r")
    assert command.here("resume", "r").exit_code == ExitCode.WRONG_USE


def test_fork_starts_anew_from_a_step(command: Outlast) -> None:
    execute(command, "deliver", ExitCode.FAILED)
    (command.folder / "works").touch()
    assert command.here("fork", "r", "ship", "--id", "again").stdout == "again\n"
    assert finish(command, "again") == '"shipped"\n'
    assert marks(command, "planned") == 1
    assert command.json("show", "r")["run"]["status"] == "failed"
    assert command.here("fork", "r", "ship", "--id", "again").stdout == "again\n"
    taken = command.here("fork", "r", "plan", "--id", "again")
    assert taken.exit_code == ExitCode.WRONG_USE
    assert "exists already" in taken.stderr


def test_fork_before_a_once_step_has_to_be_told_so(command: Outlast) -> None:
    (command.folder / "works").touch()
    execute(command, "pay", ExitCode.OK)
    refused = command.here("fork", "r", "main/plan#1")
    assert refused.exit_code == ExitCode.WRONG_USE
    assert "--repeat-once" in refused.stderr
    made = command.json("fork", "r", "main/plan#1", "--repeat-once", "--id", "again")
    assert made == {"id": "again", "workflow": "pay", "forked_from": "r", "step": "main/plan#1"}
    assert finish(command, "again") == '"ch_1"\n'
    assert (marks(command, "planned"), marks(command, "charged")) == (2, 2)


def test_fork_at_a_step_that_is_not_there_is_refused(command: Outlast) -> None:
    execute(command, "deliver", ExitCode.FAILED)
    result = command.here("fork", "r", "nowhere")
    assert result.exit_code == ExitCode.WRONG_USE
    assert "it can be forked at what it has recorded: main/plan#1, main/ship#1" in result.stderr


def test_a_fork_can_begin_at_all_that_show_names(command: Outlast) -> None:
    execute(command, "family", ExitCode.FAILED)
    shown = command.here("show", "r").stdout
    for name in ("timer#1", "deliver#1"):
        assert f" {name}  " in shown
        assert command.here("fork", "r", f"main/{name}", "--repeat-once", "--id", name).stdout == f"{name}\n"
    assert command.here("fork", "r", "timer", "--repeat-once").exit_code == 0
    wrong = command.here("fork", "r", "ship")
    assert wrong.exit_code == ExitCode.WRONG_USE
    assert "it can be forked at what it has recorded: main/timer#1, main/deliver#1" in wrong.stderr


def test_a_fork_at_a_child_that_has_not_ended_says_that_it_starts_another(command: Outlast) -> None:
    with command.process("worker", "shop.py"):
        command("start", "shop.py:tidies", "--id", "r")
        wait_until(lambda: command.json("show", "r")["run"]["status"] == "waiting")
    refused = command.here("fork", "r", "tidy")
    assert refused.exit_code == ExitCode.WRONG_USE
    assert "would start child main/tidy#1 again, with all its steps, `once` steps too;" in refused.stderr
    assert command.here("fork", "r", "tidy#1").exit_code == ExitCode.WRONG_USE
    assert command.here("fork", "r", "tidy", "--repeat-once").exit_code == 0


def test_a_fork_of_a_run_without_a_record_is_told(command: Outlast) -> None:
    command("start", "shop.py:pay", "--id", "r")
    assert "it has no record that a fork could keep" in command.here("fork", "r", "plan").stderr
