"""The command `outlast` for tests: as a process of its own, waited for by its lines, and within this process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from outlast.cli import app

WAIT_S = 60.0

AGENT = '''
import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

from outlast import Retry, step, workflow


@dataclass
class Plan:
    card: str
    cents: int


@step(effect="pure")
async def plan(goal: str) -> Plan:
    return Plan("4242", len(goal))


@step
async def patient(name: str) -> str:
    """Say that it began, and end when a file says so."""
    with open("began", "a") as file:
        file.write("x")
    print("step began", flush=True)
    while not Path(name).exists():
        await asyncio.sleep(0.01)
    return name


@step
def stubborn() -> None:
    print("step began", flush=True)
    while True:
        time.sleep(0.05)


@step
async def blocking() -> None:
    print("step began", flush=True)
    while True:
        time.sleep(0.05)


@workflow
async def fulfil(order: str, times: int = 1) -> str:
    made = await plan(order)
    return f"{order}: {made.cents * times}"


@workflow
async def buy(made: Plan) -> int:
    return made.cents


@workflow
async def slow(name: str) -> str:
    return await patient(name)


@workflow
async def stubborn_flow() -> None:
    await stubborn.call()


@workflow
async def blocking_flow() -> None:
    await blocking()


@workflow
async def fails() -> None:
    raise LookupError("no such order")


def plain() -> None:
    pass
'''


class Outlast:
    """Runs `outlast` in a folder, with a store and an agent of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "outlast.db"
        self.agent = folder / "agent.py"
        self.agent.write_text(AGENT)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("OUTLAST_", "PYTHON"))}

    def write(self, name: str, text: str) -> str:
        """Write a file of code and return its name."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return name

    def __call__(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, as a process."""
        return subprocess.run(
            [sys.executable, "-m", "outlast", *words],
            cwd=self.folder, env=self.env | env, capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip

    def json(self, *words: str) -> Any:
        """Run a command that succeeds, within this process, and return what its JSON says."""
        result = self.here(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def here(self, *words: str) -> Any:
        """Run a command within this process: for verbs that import no code."""
        verb, *rest = words
        return CliRunner().invoke(app, [verb, *rest, "--url", str(self.store)])

    @contextmanager
    def process(self, *words: str, **env: str) -> Iterator[Process]:
        """Start a command and end it with the block."""
        process = Process([sys.executable, "-m", "outlast", *words], self.folder, self.env | env)
        try:
            yield process
        finally:
            process.end()


class Process:
    """A process whose lines (stdout and stderr together) can be waited for."""

    def __init__(self, argv: list[str], folder: Path, env: dict[str, str]) -> None:
        self.lines: list[str] = []
        self._popen = subprocess.Popen(
            argv, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._come = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            with self._come:
                self.lines.append(line.rstrip("\n"))
                self._come.notify_all()
        with self._come:
            self._ended = True
            self._come.notify_all()

    def wait_for(self, text: str) -> str:
        """Return the first line that holds `text`, once it has come."""

        def found() -> str | None:
            return next((line for line in self.lines if text in line), None)

        with self._come:
            self._come.wait_for(lambda: found() is not None or self._ended, WAIT_S)
            line = found()
            assert line is not None, f"{text!r} never came:\n" + "\n".join(self.lines)
            return line

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._popen.send_signal(number)

    def exit_code(self) -> int:
        """Wait for the end and return the exit code."""
        code = self._popen.wait(WAIT_S)
        self._reader.join(WAIT_S)
        return code

    def end(self) -> None:
        """Kill it, if it still runs."""
        if self._popen.poll() is None:
            self._popen.kill()
        self._popen.wait()
        self._reader.join(WAIT_S)
        assert self._popen.stdout is not None
        self._popen.stdout.close()
