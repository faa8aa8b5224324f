"""One store with its processes, as a test sees it: start them, wait for what they report, end them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from outlast.core.records import Record, RunRow
from outlast.runtime.clock import SystemClock
from outlast.stores.protocol import RunFilter
from outlast.stores.sqlite import SqliteStore
from outlast.sync import App
from tests.crash.harness import ledger
from tests.crash.harness.points import gate
from tests.crash.harness.worker import Config, find

ROOT = Path(__file__).parents[3]
DEADLINE_S = 20.0
_numbers = count(1)


class Missing(AssertionError):
    """What a test waited for did not happen."""


class Event(dict[str, Any]):
    """What a process reported: `who`, `event`, `at` (monotonic seconds), and more."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class Zygote:
    """The parent of all processes, and everything that they report."""

    def __init__(self) -> None:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.harness.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.events: list[Event] = []
        self.news = threading.Condition()
        self._reader = threading.Thread(target=self._read, name="zygote-events", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self.news:
                self.events.append(Event(msgspec.json.decode(line)))
                self.news.notify_all()

    def fork(self, config: Config) -> None:
        """Ask for a process."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(config) + b"\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End the zygote; the kernel ends what it forked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()


class Process:
    """One process of a scene."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene = scene
        self.name = name
        self.pid: int = self.wait("forked").pid

    def wait(self, event: str, *, deadline_s: float = DEADLINE_S, after: float = 0.0, **match: Any) -> Event:
        """Return the first event of this name (since `after`) that the process reports."""
        return self.scene.wait(event, who=self.name, deadline_s=deadline_s, after=after, **match)

    def events(self, event: str) -> list[Event]:
        """Return what it reported under this name so far."""
        return self.scene.events(event, who=self.name)

    def signal(self, number: signal.Signals) -> float:
        """Send a signal; return when."""
        at = time.monotonic()
        os.kill(self.pid, number)
        return at

    def kill(self) -> float:
        """End it the hard way, and wait until it is gone; return when the signal was sent."""
        at = self.signal(signal.SIGKILL)
        self.wait("ended")
        return at

    @property
    def ended(self) -> bool:
        """Whether it is gone."""
        return bool(self.events("ended"))

    @property
    def workers(self) -> list[str]:
        """The worker ids that it has had."""
        return [event.worker for event in self.events("worker.started")]


class Scene:
    """A folder with a store and a ledger, and the processes at work there."""

    blur_s = 0.0  # by how much the times of the ledger and of the journals may differ

    def __init__(self, zygote: Zygote, folder: Path, **defaults: Any) -> None:
        self.zygote = zygote
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "agent.db"
        self.url = f"sqlite:///{self.path}"
        self.ledger_path = folder / "ledger.jsonl"
        self.processes: list[Process] = []
        self.accepted: dict[str, tuple[str, list[Any]]] = {}
        self._defaults = defaults
        self._from = len(zygote.events)
        self._number = next(_numbers)

    # -- processes ---------------------------------------------------------------

    def fork(self, name: str, **config: Any) -> Process:
        """Fork a process; `config` are fields of `Config`."""
        name = f"{self._number}-{name}-{len(self.processes) + 1}"
        fields = {"name": name, "folder": str(self.folder), "url": self.url, "ledger": str(self.ledger_path)}
        self.zygote.fork(msgspec.convert(fields | self._defaults | config, Config, from_attributes=True))
        process = Process(self, name)
        self.processes.append(process)
        return process

    def worker(self, name: str = "worker", *, ready: bool = True, **config: Any) -> Process:
        """Fork a worker, and wait until it is one."""
        process = self.fork(name, **config)
        if ready:
            process.wait("ready")
        return process

    @property
    def alive(self) -> list[Process]:
        """The processes that have not ended."""
        return [p for p in self.processes if not p.ended]

    def close(self) -> None:
        """End what still runs."""
        for process in self.alive:
            with suppress(ProcessLookupError):
                process.signal(signal.SIGKILL)
        for process in self.processes:
            process.wait("ended")
        for forked in (*self.events("child.sleeps"), *self.events("child.works")):
            with suppress(ProcessLookupError):
                os.kill(forked.pid, signal.SIGKILL)
        if "store" in self.__dict__:
            self.store.close()

    # -- runs --------------------------------------------------------------------

    @contextmanager
    def client(self) -> Iterator[App]:
        """Open the store as a client, in the test's own process."""
        with App(self.url, worker=False) as app:
            yield app

    def start(self, *runs: tuple[str, Any]) -> None:
        """Start runs, `(workflow's name, argument...)` each, under the ids `name-argument`."""
        with self.client() as app:
            for workflow, *args in runs:
                run = app.start(find(workflow)(*args), id=f"{workflow}-{args[0]}")
                self.accepted[run.id] = (workflow, args)

    @cached_property
    def store(self) -> SqliteStore:
        """The store itself, opened by the test's own process."""
        return SqliteStore(str(self.path), SystemClock())

    def rows(self) -> list[RunRow]:
        """All runs as they stand, children too."""
        return self.store.runs(RunFilter(), limit=100_000)

    def row(self, run: str) -> RunRow:
        """A run as it stands."""
        row = self.store.run(run)
        assert row is not None, f"there is no run {run}"
        return row

    def journal(self, run: str) -> list[Record]:
        """The records of a run so far."""
        return self.store.records(self.row(run).pk)

    @property
    def ledger(self) -> list[ledger.Line]:
        """All effects so far."""
        return ledger.read(self.ledger_path)

    def effects(self, name: str, run: str | None = None) -> list[ledger.Line]:
        """The effects of the steps of this name so far."""
        return [line for line in self.ledger if line.name == name and run in (None, line.run)]

    def open_gate(self, name: str) -> None:
        """Let what waits for this gate go on."""
        gate(str(self.folder), name).touch()

    def close_gate(self, name: str) -> None:
        """Let whoever comes to this gate from now on wait."""
        gate(str(self.folder), name).unlink()

    def file(self, name: str) -> Path:
        """Return a file of the scene's folder."""
        return self.folder / name

    # -- waiting -----------------------------------------------------------------

    def events(self, event: str, who: str | None = None) -> list[Event]:
        """Return the events of this name so far."""
        mine = f"{self._number}-"
        with self.zygote.news:
            found = self.zygote.events[self._from :]
        return [e for e in found if e.event == event and (e.who == who if who else e.who.startswith(mine))]

    def wait(
        self, event: str, who: str | None = None, *, deadline_s: float = DEADLINE_S, after: float = 0.0, **match: Any
    ) -> Event:
        """Return the first event of this name. Raises Missing after the deadline, or when the process ended."""
        ends = time.monotonic() + deadline_s
        with self.zygote.news:
            while True:
                for e in self.events(event, who):
                    if e.at >= after and all(e.get(key) == value for key, value in match.items()):
                        return e
                left = ends - time.monotonic()
                over = event != "ended" and who is not None and self.events("ended", who)
                if left <= 0 or over:
                    why = f"{who} ended before" if over else f"waited {deadline_s:g} s in vain for"
                    raise Missing(f"{why}: {event} {match or ''}\n{self.logs()}")
                self.zygote.news.wait(left)

    def until(self, what: str, holds: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
        """Poll until `holds()` is true, and return what it says. Raises Missing after the deadline."""
        ends = time.monotonic() + deadline_s
        while not (found := holds()):
            if time.monotonic() >= ends:
                raise Missing(f"waited {deadline_s:g} s in vain until {what}\n{self.logs()}")
            time.sleep(0.005)
        return found

    def logs(self) -> str:
        """Return what the processes have written to their standard error, the end of it."""
        texts = {log.stem: log.read_text(errors="replace") for log in sorted(self.folder.glob("*.log"))}
        return "\n".join(f"--- {name}\n{text[-3000:]}" for name, text in texts.items() if text)
