"""`outlast worker`, as a process: it comes up, serves, drains, stops at once, and has its hash seed fixed."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from outlast.cli.exits import ExitCode
from tests.unit.outlast_command import Outlast, Process


def status_of(command: Outlast, run: str) -> str:
    status: str = command.json("show", run)["run"]["status"]
    return status


def start(command: Outlast, target: str, arguments: str = "[]") -> None:
    result = command("start", f"agent.py:{target}", arguments, "--id", "r")
    assert result.returncode == 0, result.stderr


def test_a_worker_says_when_it_is_ready_and_executes_runs(command: Outlast) -> None:
    start(command, "fulfil", '["order"]')
    with command.process("worker", "agent.py") as worker:
        line = worker.wait_for("ready: ")
        assert "fulfil" in line
        assert str(command.store) in line
        assert line.endswith("no other worker is alive)")
        worker.wait_for("run r (fulfil) succeeded")
        assert command.here("result", "r").stdout == '"order: 5"\n'
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == 0


def test_a_worker_says_how_many_others_are_alive_and_their_versions_where_they_differ(command: Outlast) -> None:
    def ready(*options: str) -> str:
        return workers.enter_context(command.process("worker", "agent.py", *options)).wait_for("ready: ")

    with ExitStack() as workers:
        ready("--version", "v1")
        assert ready("--version", "v1").endswith("; 1 other worker alive)")
        assert ready("--version", "v2").endswith("; version v2, 2 other workers alive: v1 (2 workers))")
        told = json.loads(ready("--json"))
        assert (told["others"], told["versions"], told["version"]) == (3, {"v1": 2, "v2": 1}, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_the_step_in_flight_end_and_hands_the_run_back(
    command: Outlast, number: signal.Signals
) -> None:
    start(command, "slow", '["go"]')
    with command.process("worker", "agent.py", "--grace", "60") as worker:
        worker.wait_for("step began")
        worker.signal(number)
        worker.wait_for(f"{number.name}: handing runs back")
        (command.folder / "go").touch()
        assert worker.exit_code() == 0, worker.lines
    assert status_of(command, "r") in ("pending", "succeeded")
    with command.process("worker", "agent.py") as worker:
        assert command.here("result", "r", "--timeout", "60").stdout == '"go"\n'
    assert (command.folder / "began").read_text() == "x"


def test_a_step_that_outlasts_the_grace_period_does_not_hold_the_worker_up(command: Outlast) -> None:
    start(command, "slow", '["go"]')
    with command.process("worker", "agent.py", "--grace", "0.1") as worker:
        worker.wait_for("step began")
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == 0
    assert status_of(command, "r") == "pending"


def test_a_thread_that_cannot_be_ended_does_not_hold_the_worker_up(command: Outlast) -> None:
    start(command, "stubborn_flow")
    with command.process("worker", "agent.py", "--grace", "0.1") as worker:
        worker.wait_for("step began")
        worker.signal(signal.SIGTERM)
        worker.wait_for("1 step did not end within 0.1 s")
        assert worker.exit_code() == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, ExitCode.TERMINATED), (signal.SIGINT, ExitCode.INTERRUPTED)]
)
def test_the_second_signal_ends_it_at_once(command: Outlast, number: signal.Signals, code: ExitCode) -> None:
    start(command, "slow", '["never"]')
    with command.process("worker", "agent.py", "--grace", "600") as worker:
        worker.wait_for("step began")
        worker.signal(number)
        worker.wait_for("handing runs back")
        worker.signal(number)
        assert worker.exit_code() == code


def test_two_signals_end_it_even_while_a_step_blocks_its_loop(command: Outlast) -> None:
    start(command, "blocking_flow")
    with command.process("worker", "agent.py") as worker:
        worker.wait_for("step began")
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGINT)  # another number: two of one kind may arrive as one
        assert worker.exit_code() in (ExitCode.TERMINATED, ExitCode.INTERRUPTED)


def test_another_worker_goes_on_when_one_is_killed(command: Outlast) -> None:
    start(command, "slow", '["go"]')
    with command.process("worker", "agent.py") as first:
        first.wait_for("step began")
        with command.process("worker", "agent.py") as second:
            second.wait_for("ready")
            first.signal(signal.SIGKILL)
            assert " WARNING took over 1 run of worker" in second.wait_for("took over")
            (command.folder / "go").touch()
            second.wait_for("run r (slow) succeeded")


def test_a_worker_that_ends_without_runs_is_no_reason_to_warn(command: Outlast) -> None:
    with command.process("worker", "agent.py") as first, command.process("worker", "agent.py") as second:
        first.wait_for("ready")
        second.wait_for("ready")
        first.signal(signal.SIGKILL)
        line = second.wait_for("it held no runs")
    assert "WARNING" not in line
    assert f"-{first.pid}-" in line


def test_the_log_as_json_is_a_line_for_each_event(command: Outlast) -> None:
    start(command, "fulfil", '["order"]')
    with command.process("worker", "agent.py", "--json", "--verbose") as worker:
        worker.wait_for('"run.ended"')
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == 0
    events = {line["event"]: line for line in map(json.loads, worker.lines) if "event" in line}
    assert events["ready"]["pid"] == worker.pid
    assert events["run.ended"]["run"] == "r"
    assert events["run.ended"]["status"] == "succeeded"
    assert events["step.ended"]["step"] == "main/plan#1"
    assert events["stopping"]["signal"] == "SIGTERM"
    assert all({"time", "level", "message"} <= line.keys() for line in events.values())


def test_each_event_is_told_once_whatever_the_code_does_with_logging(command: Outlast) -> None:
    name = command.write(
        "loud.py",
        """
        import logging
        import outlast
        logging.basicConfig(level=logging.DEBUG)

        @outlast.step
        async def speak() -> None:
            outlast.current.logger.warning("a word from the step")

        @outlast.workflow
        async def talk() -> None:
            await speak()
        """,
    )
    command("start", "loud.py:talk", "--id", "r")
    with command.process("worker", name) as worker:
        worker.wait_for("run r (talk) succeeded")
        worker.signal(signal.SIGTERM)
        worker.exit_code()
    assert sum("ready" in line for line in worker.lines) == 1
    assert sum("succeeded" in line for line in worker.lines) == 1
    assert sum("a word from the step" in line for line in worker.lines) == 1


SEED = """
import os
import sys
import outlast

@outlast.workflow
async def look() -> None:
    pass

print("seed", os.environ.get("PYTHONHASHSEED"), sys.flags.hash_randomization, flush=True)
"""


def seed_line(worker: Process) -> str:
    return worker.wait_for("seed ")


def test_the_hash_seed_is_fixed_however_the_command_is_called(command: Outlast) -> None:
    name = command.write("look.py", SEED)
    with command.process("worker", name) as worker:
        assert seed_line(worker) == "seed 0 0"
        worker.wait_for("ready")
    argv = [str(Path(sys.executable).parent / "outlast"), "worker", name]
    worker = Process(argv, command.folder, command.env)
    assert seed_line(worker) == "seed 0 0"
    worker.end()
    assert command("start", f"{name}:look", "--here").stdout.startswith("seed 0 0\n")


@pytest.mark.parametrize(("given", "seen"), [("7", "seed 7 1"), ("0", "seed 0 0"), ("random", "seed 0 0")])
def test_a_hash_seed_of_the_users_is_kept(command: Outlast, given: str, seen: str) -> None:
    name = command.write("look.py", SEED)
    with command.process("worker", name, PYTHONHASHSEED=given) as worker:
        assert seed_line(worker) == seen


COLLECTING = """
import gc
from outlast import step, workflow

@step
async def thresholds() -> None:
    print("collects after", gc.get_threshold()[0], flush=True)

@workflow
async def look() -> None:
    await thresholds()
"""


@pytest.mark.parametrize(
    ("of_the_code", "seen"),
    [("", 10_000), ("gc.disable(); gc.set_threshold(0)", 0), ("gc.set_threshold(50_000)", 50_000)],
)
def test_a_worker_collects_garbage_less_often_than_python_unless_the_code_says_how(
    command: Outlast, of_the_code: str, seen: int
) -> None:
    command.write("look.py", f"{COLLECTING}\n{of_the_code}\n")
    command("start", "look:look")
    with command.process("worker", "look") as worker:
        worker.wait_for(f"collects after {seen}")


def test_a_python_told_to_ignore_its_environment_does_not_start_for_ever(command: Outlast) -> None:
    name = command.write("look.py", SEED)
    worker = Process([sys.executable, "-E", "-m", "outlast", "worker", name], command.folder, command.env)
    assert seed_line(worker) == "seed 0 1"
    worker.wait_for("ready")
    worker.end()


def test_a_store_that_is_something_else_ends_the_worker(command: Outlast) -> None:
    with sqlite3.connect(command.store) as db:
        db.execute("CREATE TABLE letters (text)")
    db.close()
    result = command("worker", "agent.py")
    assert result.returncode == ExitCode.UNAVAILABLE
    assert "Traceback" not in result.stderr
    assert str(command.store) in result.stderr


def test_a_store_in_memory_is_refused(command: Outlast) -> None:
    result = command("worker", "agent.py", "--url", "memory://")
    assert result.returncode == ExitCode.WRONG_USE
