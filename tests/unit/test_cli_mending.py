"""`outlast resolve`, `resume` and `fork`: what a person does to a run that does not go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outlast.cli.exits import ExitCode
from tests.unit.outlast_command import Outlast

CODE = """
import outlast
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Receipt:
    id: str


@outlast.step(effect="pure")
async def plan() -> str:
    Path("planned").open("a").write("x")
    return "plan"


@outlast.step(effect="once")
async def charge(cents: int) -> Receipt:
    Path("charged").open("a").write("x")
    if not Path("works").exists():
        raise ConnectionError("read timeout")
    return Receipt("ch_1")


@outlast.step
async def ship() -> str:
    if not Path("works").exists():
        raise OSError("no ship")
    return "shipped"


@outlast.workflow
async def pay() -> str:
    await plan()
    receipt = await charge(100)
    return receipt.id


@outlast.workflow
async def deliver() -> str:
    await plan()
    return await ship()


@outlast.workflow
async def careful() -> str:
    try:
        receipt = await charge(100)
        return receipt.id
    except outlast.InDoubt as error:
        return f"in doubt: {error}"
"""


@pytest.fixture
def command(tmp_path: Path) -> Outlast:
    made = Outlast(tmp_path)
    made.write("shop.py", CODE)
    return made


def execute(command: Outlast, workflow: str, code: ExitCode) -> None:
    result = command("start", f"shop.py:{workflow}", "--here", "--id", "r")
    assert result.returncode == code, result.stderr


def finish(command: Outlast, run: str = "r") -> str:
    with command.process("worker", "shop.py"):
        return str(command.here("result", run, "--timeout", "60").stdout)


def marks(command: Outlast, name: str) -> int:
    return len((command.folder / name).read_text())


def test_happened_gives_the_step_its_result(command: Outlast) -> None:
    execute(command, "pay", ExitCode.FAILED)
    result = command.here("resolve", "r", "charge", "--happened", '{"id": "ch_7"}', "--by", "ann")
    assert result.stdout == "decided: attempt 1 of step main/charge#1 of run r happened; the run goes on\n"
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
    taken = command.here("fork", "r", "ship", "--id", "again")
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
    assert "outlast show r" in result.stderr
