"""`outlast start`, `result` and `cancel`: from a command line to a run, and to its end."""

from __future__ import annotations

import json
import signal

import pytest

from outlast.cli.exits import ExitCode
from tests.unit.outlast_command import Outlast


def test_start_prints_the_id_of_a_run_that_waits_for_a_worker(command: Outlast) -> None:
    result = command("start", "agent.py:fulfil", '["order"]')
    assert result.returncode == 0, result.stderr
    run = result.stdout.strip()
    assert command.json("show", run)["run"]["status"] == "pending"
    assert result.stderr == f"run {run} waits for a worker: no worker is alive; start one: outlast worker agent.py\n"


def test_start_says_nothing_of_workers_where_one_takes_the_run_or_json_is_wanted(command: Outlast) -> None:
    assert command("start", "agent.py:fulfil", '["order"]', "--json").stderr == ""
    other = command.write("other.py", "import outlast\n\n\n@outlast.workflow\nasync def other() -> None:\n    pass\n")
    with command.process("worker", "agent.py") as worker:
        worker.wait_for("ready")
        assert command("start", "agent.py:fulfil", '["order"]').stderr == ""
        hint = command("start", f"{other}:other", "--url", "outlast.db").stderr
    assert "no living worker knows other; start one: outlast worker other.py --url outlast.db" in hint


def test_start_with_an_id_can_be_said_again(command: Outlast) -> None:
    words = ("start", "agent.py:fulfil", '["order"]', "--id", "order 55")
    assert command(*words).stdout == command(*words).stdout == "order 55\n"
    other = command("start", "agent.py:fulfil", '["another"]', "--id", "order 55")
    assert other.returncode == ExitCode.WRONG_USE
    assert "exists already" in other.stderr
    assert "Traceback" not in other.stderr


def test_a_conflict_says_what_to_type(command: Outlast) -> None:
    command("start", "agent.py:fulfil", '["order"]', "--id", "order 55")
    other = command("start", "agent.py:fulfil", '["another"]', "--id", "order 55")
    assert "or look at that run: outlast show 'order 55'" in other.stderr


@pytest.mark.parametrize("text", ["[NaN]", "[-Infinity]"])
def test_what_json_has_not_is_said_so(command: Outlast, text: str) -> None:
    refused = command("start", "agent.py:fulfil", text)
    assert refused.returncode == ExitCode.WRONG_USE
    assert "JSON has no NaN and no Infinity" in refused.stderr


def test_start_here_executes_and_prints_the_result(command: Outlast) -> None:
    result = command("start", "agent.py:fulfil", '{"order": "order", "times": "3"}', "--here", "--id", "r")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == "order: 15"
    assert result.stderr == "run r\n"


def test_arguments_become_what_the_annotations_say(command: Outlast) -> None:
    result = command("start", "agent.py:buy", '[{"card": "4242", "cents": "7"}]', "--here", "--json", "--id", "r")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {"id": "r", "workflow": "buy", "status": "succeeded", "result": 7}


def test_an_argument_left_at_its_default_is_stored_with_the_run(command: Outlast) -> None:
    name = command.write(
        "defaults.py",
        """
        from dataclasses import dataclass

        import outlast


        @dataclass
        class Payment:
            cents: int
            currency: str = "EUR"


        @outlast.workflow
        async def pay(payment: Payment) -> Payment:
            return payment

        """,
    )
    done = command("start", f"{name}:pay", '[{"cents": 5}]', "--id", "one", "--here")
    assert json.loads(done.stdout) == {"cents": 5, "currency": "EUR"}
    again = command("start", f"{name}:pay", '[{"cents": 5, "currency": "EUR"}]', "--id", "one")
    assert (again.returncode, again.stdout) == (0, "one\n"), again.stderr


def test_arguments_of_many_kinds(command: Outlast) -> None:
    name = command.write(
        "kinds.py",
        """
        import datetime
        import decimal
        import enum
        from pathlib import Path
        from typing import Any, Callable, Optional, TypeVar

        import pydantic
        import outlast

        class Colour(enum.Enum):
            RED = "red"

        class Order(pydantic.BaseModel):
            id: int
            lines: list[str] = []

        @outlast.workflow
        async def see(
            a: datetime.date, b: decimal.Decimal, c: Colour, d: Order, e: Optional[int], f: Path, g: Any,
            h: "list[Order]", *rest: float, **more: Colour,
        ) -> list[str]:
            return [repr(v) for v in (a, b, c, d, e, f, g, h, rest, more)]

        T = TypeVar("T")

        @outlast.workflow
        async def odd(a: T, b: Callable[[], int], c: "NoSuchType") -> list[str]:
            return [repr(v) for v in (a, b, c)]
        """,
    )
    arguments = (
        '["2025-01-02", "1.10", "red", {"id": "5"}, null, "/tmp", {"x": [1]}, [{"id": 6, "lines": ["a"]}], 1, "2"]'
    )
    result = command("start", f"{name}:see", arguments, "--here")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == [
        "datetime.date(2025, 1, 2)", "Decimal('1.10')", "<Colour.RED: 'red'>", "Order(id=5, lines=[])", "None",
        "PosixPath('/tmp')", "{'x': [1]}", "[Order(id=6, lines=['a'])]", "(1.0, 2.0)", "{}",
    ]  # fmt: skip
    result = command("start", f"{name}:odd", '[1, 2, "x"]', "--here")
    assert json.loads(result.stdout) == ["1", "2", "'x'"]


@pytest.mark.parametrize(
    ("target", "arguments", "says"),
    [
        ("agent.py:fulfil", '["order"', "is not JSON"),
        ("agent.py:fulfil", "order", "is not JSON"),
        ("agent.py:fulfil", '"order"', "one argument is '[\"order\"]'"),
        ("agent.py:fulfil", "[]", "missing a required argument: 'order'"),
        ("agent.py:fulfil", '{"ordr": "x"}', "fulfil(order: str, times: int = 1)"),
        ("agent.py:fulfil", '["order", "many"]', "argument 'times'"),
        ("agent.py:buy", '[{"card": "4242"}]', "argument 'made'"),
        ("agent.py", "[]", "fulfil"),
        ("agent.py:nothing", "[]", "it has blocking"),
        ("agent.py:plain", "[]", "plain function"),
        ("nothing.py:x", "[]", "there is no file nothing.py"),
    ],
)
def test_what_cannot_be_started_is_told_and_changes_nothing(
    command: Outlast, target: str, arguments: str, says: str
) -> None:
    result = command("start", target, arguments)
    assert result.returncode == ExitCode.WRONG_USE
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert "Warning" not in result.stderr
    assert result.stdout == ""
    assert not command.store.exists()


@pytest.mark.parametrize("id", ["", " x", "x" * 256])
def test_an_id_that_cannot_be_one_is_refused(command: Outlast, id: str) -> None:
    result = command("start", "agent.py:fulfil", '["order"]', "--id", id)
    assert result.returncode == ExitCode.WRONG_USE
    assert "run id" in result.stderr
    assert "Warning" not in result.stderr


def test_a_step_can_be_a_run_of_its_own(command: Outlast) -> None:
    result = command("start", "agent.py:plan", '["four"]', "--here", "--id", "r")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {"card": "4242", "cents": 4}
    (run,) = command.json("runs", "--workflow", "step:plan")
    assert (run["workflow"], run["is_step"]) == ("step:plan", True)
    assert "step:plan" in command.here("runs").stdout


def test_a_run_that_fails_here_is_told_and_its_exit_code_is_1(command: Outlast) -> None:
    result = command("start", "agent.py:fails", "--here", "--id", "r")
    assert result.returncode == ExitCode.FAILED
    assert "error: run r (fails) failed: LookupError: no such order" in result.stderr
    assert result.stdout == ""
    as_json = command("start", "agent.py:fails", "--here", "--id", "r", "--json")
    assert as_json.returncode == ExitCode.FAILED
    error = json.loads(as_json.stderr.splitlines()[-1])
    where = error.pop("where")
    assert where.startswith("agent.py:")
    assert where.endswith(" in fails")
    assert error == {"error": "no such order", "type": "LookupError", "run": "r", "status": "failed"}


def test_start_and_wait_for_a_worker(command: Outlast) -> None:
    with command.process("worker", "agent.py") as worker:
        worker.wait_for("ready")
        result = command("start", "agent.py:fulfil", '["order"]', "--wait", "--id", "r")
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout) == "order: 5"


def test_waiting_says_that_no_worker_is_alive(command: Outlast) -> None:
    result = command("start", "agent.py:fulfil", '["order"]', "--wait", "--timeout", "2.5", "--id", "r")
    assert result.returncode == ExitCode.TIMED_OUT
    hint, error = result.stderr.splitlines()[1:]
    assert hint == "run r waits for a worker: no worker is alive; start one: outlast worker agent"
    why = "it is pending, and no worker is alive; start one: outlast worker agent"
    assert error == f"error: run r (fulfil) has not ended within 2.5 s; {why}"


def test_a_timeout_says_who_executes_the_run(command: Outlast) -> None:
    command("start", "agent.py:slow", '["never"]', "--id", "r")
    with command.process("worker", "agent.py") as worker:
        worker.wait_for("step began")
        result = command.here("result", "r", "--timeout", "0")
        assert "run r (slow) has not ended within 0 s; it is running on worker" in result.stderr
        assert f"-{worker.pid}-" in result.stderr
        worker.signal(signal.SIGKILL)
        worker.exit_code()
    result = command.here("result", "r", "--timeout", "0")
    assert "it is running, its worker is dead, and no worker is alive; start one: outlast worker agent" in result.stderr


def test_timeout_without_waiting_is_wrong(command: Outlast) -> None:
    assert command("start", "agent.py:fulfil", '["x"]', "--timeout", "1").returncode == ExitCode.WRONG_USE
    assert not command.store.exists()
    command("start", "agent.py:fulfil", '["x"]', "--id", "r")
    assert command.here("cancel", "r", "--timeout", "1").exit_code == ExitCode.WRONG_USE
    assert command.json("show", "r")["run"]["status"] == "pending"


def test_memory_is_for_here_only(command: Outlast) -> None:
    assert command("start", "agent.py:fulfil", '["x"]', "--url", "memory://").returncode == ExitCode.WRONG_USE
    result = command("start", "agent.py:fulfil", '["x"]', "--url", "memory://", "--here")
    assert json.loads(result.stdout) == "x: 1"


def test_result_of_what_is_not_imported_is_plain_json(command: Outlast) -> None:
    command("start", "agent.py:plan", '["four"]', "--here", "--id", "r")
    assert json.loads(command.here("result", "r").stdout) == {"card": "4242", "cents": 4}


def test_result_of_a_failed_run_goes_to_stderr(command: Outlast) -> None:
    command("start", "agent.py:fails", "--here", "--id", "r")
    result = command.here("result", "r")
    assert (result.exit_code, result.stdout) == (ExitCode.FAILED, "")
    assert "LookupError: no such order" in result.stderr


def test_result_with_timeout_0_only_looks(command: Outlast) -> None:
    command("start", "agent.py:fulfil", '["order"]', "--id", "r")
    assert command.here("result", "r", "--timeout", "0").exit_code == ExitCode.TIMED_OUT
    as_json = command.here("result", "r", "--timeout", "0", "--json")
    assert json.loads(as_json.stderr)["type"] == "TimeoutError"
    command("start", "agent.py:fulfil", '["order"]', "--id", "r", "--here")
    assert command.here("result", "r", "--timeout", "0").exit_code == 0


def test_a_run_that_was_never_begun_is_cancelled_at_once(command: Outlast) -> None:
    command("start", "agent.py:fulfil", '["order"]', "--id", "r")
    assert command.here("cancel", "r").stdout == "run r is cancelled\n"
    assert command.here("cancel", "r").stdout == "run r is cancelled\n"
    assert command.here("result", "r").exit_code == ExitCode.FAILED


def test_a_run_that_has_ended_cannot_be_cancelled(command: Outlast) -> None:
    command("start", "agent.py:fulfil", '["order"]', "--id", "r", "--here")
    result = command.here("cancel", "r")
    assert result.exit_code == ExitCode.WRONG_USE
    assert "cannot be cancelled" in result.stderr


def test_cancel_waits_for_a_run_that_is_under_way(command: Outlast) -> None:
    command("start", "agent.py:slow", '["never"]', "--id", "r")
    with command.process("worker", "agent.py") as worker:
        worker.wait_for("step began")
        assert command.json("cancel", "r", "--wait") == {"id": "r", "status": "cancelled", "in_doubt": []}
        worker.wait_for("run r (slow) cancelled")


def test_ctrl_c_while_waiting_leaves_the_run_alone(command: Outlast) -> None:
    command("start", "agent.py:fulfil", '["order"]', "--id", "r")
    with command.process("result", "r") as waiting:
        waiting.wait_for("no worker is alive")
        waiting.signal(signal.SIGINT)
        assert waiting.exit_code() == ExitCode.INTERRUPTED
        assert not any("Traceback" in line for line in waiting.lines)
    assert command.json("show", "r")["run"]["status"] == "pending"
