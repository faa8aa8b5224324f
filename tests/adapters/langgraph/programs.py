"""Processes that tests start, hear, and kill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.adapters.doors import ROOT


def say(text: str) -> None:
    """Say something to the test that has started this process."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Program:
    """A module of these tests, run as a process."""

    def __init__(self, name: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.adapters.langgraph.{name}", *arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONWARNINGS": "error::ResourceWarning"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> str:
        """Return the next line that it prints; nothing when it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def tell(self) -> None:
        """Let it go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill it with SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait(30)

    def end(self) -> int:
        """Wait until it has ended, and return its exit code."""
        return self._process.wait(60)

    def close(self) -> None:
        """Leave nothing behind."""
        if self._process.poll() is None:
            self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def program(name: str, *arguments: str) -> Iterator[Program]:
    """Run a program for a `with` block."""
    running = Program(name, *arguments)
    try:
        yield running
    finally:
        running.close()
