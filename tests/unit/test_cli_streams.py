"""Streams that cannot be written to: an exit code and one line where there is a place for it, never a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from outlast.cli.exits import ExitCode
from tests.unit.outlast_command import WAIT_S, Outlast

COMMANDS = ["runs", "show r", "doctor", "result r", 'start agent.py:fulfil ["a"] --id r', "version"]
HELP = ["--help", "runs --help", "--version"]


@pytest.fixture
def command(command: Outlast) -> Outlast:
    assert command("start", "agent.py:fulfil", '["a"]', "--id", "r", "--here").returncode == 0
    return command


def shell(command: Outlast, words: str, streams: str) -> subprocess.CompletedProcess[str]:
    """Run a command with its streams as a shell would have them."""
    line = f'"$0" -m outlast {words.replace(chr(34), chr(92) + chr(34))} {streams}'
    return subprocess.run(
        ["bash", "-c", line, sys.executable],
        cwd=command.folder, env=command.env, capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS + HELP)
def test_a_full_disk_is_one_line_and_an_exit_code(command: Outlast, words: str) -> None:
    result = shell(command, words, ">/dev/full")
    assert result.stderr == "error: the output cannot be written: No space left on device\n"
    assert result.returncode == ExitCode.BROKEN_PIPE


@pytest.mark.parametrize("words", COMMANDS)
def test_a_closed_stdout_is_one_line_and_an_exit_code(command: Outlast, words: str) -> None:
    result = shell(command, words, ">&-")
    assert result.stderr == "error: the output cannot be written: it is closed\n"
    assert result.returncode == ExitCode.BROKEN_PIPE


@pytest.mark.parametrize("words", ["runs", *HELP])
def test_help_that_nobody_reads_ends_quietly(command: Outlast, words: str) -> None:
    result = shell(command, words, "| true; exit ${PIPESTATUS[0]}")
    assert result.stderr == ""
    assert result.returncode in (ExitCode.BROKEN_PIPE, ExitCode.OK)  # it may have been written before


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
def test_without_stderr_a_command_does_its_work_and_keeps_its_exit_code(command: Outlast, streams: str) -> None:
    assert "fulfil" in shell(command, "runs", streams).stdout
    assert shell(command, "show nobody", streams).returncode == ExitCode.NOT_FOUND
    assert shell(command, "runs --nothing", streams).returncode == ExitCode.WRONG_USE


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", "<&- >&- 2>&-"])
def test_a_worker_without_streams_works(command: Outlast, streams: str) -> None:
    command("start", "agent.py:fulfil", '["b"]', "--id", "later")
    line = f'exec "$0" -m outlast worker agent.py {streams}'
    with subprocess.Popen(["bash", "-c", line, sys.executable], cwd=command.folder, env=command.env) as worker:
        try:
            assert command("result", "later", "--timeout", str(WAIT_S / 2)).stdout == '"b: 1"\n'
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(WAIT_S) == 0
        finally:
            worker.kill()
