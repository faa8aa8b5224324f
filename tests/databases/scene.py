"""Worker processes on one store and one shop, which die and freeze."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from outlast.sync import App
from tests.databases.shop import Shop
from tests.databases.worker import CALLS, TOLD

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30.0


class Scene:
    """Worker processes on one store and one shop."""

    def __init__(self, url: str, shop: Shop, way: str, folder: Path) -> None:
        self.url, self.shop, self.way, self.folder = url, shop, way, folder
        self.started: list[subprocess.Popen[bytes]] = []

    def worker(self, *, starts: bool = True, **fault: Any) -> subprocess.Popen[bytes]:
        """Start a worker; by default it starts the run of the order, if that is not there."""
        faults = msgspec.json.encode([fault] if fault else []).decode()
        arguments = [self.url, self.shop.address, self.way, str(self.folder), "order" if starts else "", faults]
        process = subprocess.Popen([sys.executable, "-m", "tests.databases.worker", *arguments], cwd=ROOT)
        self.started.append(process)
        return process

    def lines(self, file: str) -> list[list[str]]:
        path = self.folder / file
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def calls(self) -> int:
        return len(self.lines(CALLS))

    def result(self) -> Any:
        with App(self.url, worker=False) as app:
            return app.get("order-1").result()

    def journal(self) -> list[str]:
        with App(self.url, worker=False) as app:
            return [each.id for each in app.get("order-1").steps()]

    def is_frozen(self) -> bool:
        """Tell whether a worker has come to the point where it stops."""
        return any(event == "stopped" for _, event in self.lines(TOLD))

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


def until(what: str, condition: Callable[[], object]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends, f"this never came: {what}"
        time.sleep(0.005)


def dies(process: subprocess.Popen[bytes]) -> None:
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
