"""One process of a scene: a worker, or a client that starts runs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import Any

import msgspec

from outlast import App, Notice
from outlast.runtime import watcher
from tests.crash.harness import agent, broken, points
from tests.crash.harness.points import Fault

REPORTED = frozenset({
    "worker.started", "worker.stopped", "worker.lost_lease", "worker.took_over", "run.claimed", "run.lost", "run.stuck",
    "run.released", "store.unavailable", "store.back", "store.failed",
})  # fmt: skip


class Config(msgspec.Struct, kw_only=True):
    """What a process is to do."""

    name: str
    folder: str
    url: str
    ledger: str
    role: str = "work"
    lease: float = 1.0
    park_after: float = 0.02
    grace: float = 10.0
    sweep_s: float = 0.0  # how often it looks for dead peers, where the default is too slow for a test
    settings: dict[str, Any] = {}  # more arguments of App
    faults: list[Fault] = []
    recording: bool = False
    reports: list[str] = []  # notices that it passes on beside the usual ones
    broken: list[str] = []
    starts: list[tuple[str, str, list[Any]]] = []  # (run id, workflow, arguments), for a client


def run(config: Config) -> None:
    """Do it, in this process."""

    def tell(event: str, **data: Any) -> None:
        text = {k: v if isinstance(v, (int, float, bool)) else str(v)[:800] for k, v in data.items()}
        os.write(1, msgspec.json.encode({"who": config.name, "event": event, "at": time.monotonic(), **text}) + b"\n")

    agent.here = agent.Setting(ledger=config.ledger, folder=config.folder)
    if config.sweep_s:
        watcher.SWEEP_S = config.sweep_s
    for name in config.broken:
        getattr(broken, name)()
    if config.faults or config.recording:
        points.install(config.faults, tell, recording=config.recording, folder=config.folder)
    asyncio.run({"work": _work, "start": _start}[config.role](config, tell))


async def _work(config: Config, tell: Any) -> None:
    """Execute runs until SIGTERM, then drain."""
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)

    def listen(notice: Notice) -> None:
        if notice.name in REPORTED or notice.name in config.reports:
            tell(notice.name, **notice.data)

    async with _app(config, listen):
        tell("ready")
        await over.wait()
        tell("draining")
    tell("left")


async def _start(config: Config, tell: Any) -> None:
    """Start runs, and report each as soon as that is acknowledged."""
    async with _app(config, lambda _: None, worker=False) as app:
        for run_id, workflow, args in config.starts:
            await app.start(getattr(agent, workflow)(*args), id=run_id)
            tell("accepted", run=run_id)
    tell("left")


def _app(config: Config, listen: Any, **more: Any) -> App:
    common = {"lease": config.lease, "park_after": config.park_after, "grace": config.grace}
    return App(config.url, on_event=listen, **common, **config.settings, **more)


if __name__ == "__main__":
    run(msgspec.json.decode(sys.argv[1], type=Config))
