"""One process of a scene: a worker, or a client that starts runs."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from outlast import App, Notice
from outlast.core.records import Effect
from outlast.core.settings import Settings
from outlast.runtime import registry, watcher
from outlast.runtime.clock import SystemClock
from tests.crash.harness import agent, broken, courses, mail, points, tellers, troubles
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
    weaken: list[str] = []  # steps that are `pure` in the code of this process
    unknown: list[str] = []  # workflows that the code of this process does not have
    pace_s: float = 0.0
    rebooted: bool = False  # the machine has started anew since the others began
    skew_s: float = 0.0  # how far its wall clock is ahead
    settings: dict[str, Any] = {}  # more arguments of App
    faults: list[Fault] = []
    recording: bool = False
    chaos: float = 0.0  # the part of all commits that fail by chance
    reports: list[str] = []  # notices that it passes on beside the usual ones
    broken: list[str] = []
    starts: list[tuple[str, str, list[Any]]] = []  # (run id, workflow, arguments), for a client


def find(workflow: str) -> Any:
    """Return the workflow of this name."""
    return next(
        getattr(code, workflow) for code in (agent, troubles, tellers, mail, courses) if hasattr(code, workflow)
    )


def run(config: Config) -> None:
    """Do it, in this process."""

    def tell(event: str, **data: Any) -> None:
        text = {k: v if isinstance(v, (int, float, bool)) else str(v)[:800] for k, v in data.items()}
        os.write(1, msgspec.json.encode({"who": config.name, "event": event, "at": time.monotonic(), **text}) + b"\n")

    agent.here = agent.Setting(ledger=config.ledger, folder=config.folder, pace_s=config.pace_s)
    if config.sweep_s:
        watcher.SWEEP_S = config.sweep_s
    for name in config.weaken:
        known = getattr(agent, name)
        known.settings = Settings(effect=Effect.PURE, settle=known.settings.settle)
    for name in config.unknown:
        del registry._known[name]
    if config.rebooted:
        boot = SystemClock.boot
        SystemClock.boot_id = lambda _: "another start"  # type: ignore[method-assign]
        SystemClock.boot = lambda _: boot() % 1000  # type: ignore[assignment]
    if config.skew_s:
        SystemClock.wall = lambda _: time.time() + config.skew_s  # type: ignore[assignment]
    for name in config.broken:
        getattr(broken, name)()
    if config.faults or config.recording or config.chaos:
        points.install(config.faults, tell, recording=config.recording, folder=config.folder, chaos=config.chaos)
    asyncio.run(ROLES[config.role](config, tell))


async def _work(config: Config, tell: Any) -> None:
    """Execute runs until SIGTERM, then drain."""
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)

    async with _app(config, _listener(config, tell)):
        tell("ready")
        await over.wait()
        tell("draining")
    tell("closed")
    while (Path(config.folder) / "stay").exists():  # noqa: ASYNC110 - a file of another process
        await asyncio.sleep(0.01)  # a process that goes on with something else
    tell("left")


async def _work_twice(config: Config, tell: Any) -> None:
    """Be two workers."""
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    async with _app(config, _listener(config, tell)), _app(config, _listener(config, tell)):
        tell("ready")
        await over.wait()


async def _fork(config: Config, tell: Any) -> None:
    """Be a worker that forks.

    SIGUSR1: a child that uses the App; SIGUSR2: one that sleeps; SIGHUP: one that opens its own App.
    """
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    asked: asyncio.Queue[str] = asyncio.Queue()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        loop.add_signal_handler(number, asked.put_nowait, number.name)
    child = 0
    try:
        async with _app(config, _listener(config, tell)) as app:
            tell("ready")
            ask = await asked.get()
            child = os.fork()
            if not child:
                signal.alarm(30)
                await {"SIGUSR1": _use, "SIGUSR2": _sleep, "SIGHUP": _work_in_child}[ask](config, tell, app)
            if ask == "SIGUSR1":
                _, status = await asyncio.to_thread(os.waitpid, child, 0)
                tell("child.left", code=os.waitstatus_to_exitcode(status))
            await over.wait()
    except BaseException as error:
        if child:
            raise
        tell("child.said", what=repr(error))  # what is left of it outside of the App's `with` block
        os._exit(0)


async def _use(config: Config, tell: Any, app: App) -> None:
    await app.start(agent.parcel("of a child"))


async def _sleep(config: Config, tell: Any, app: App) -> None:
    tell("child.sleeps", pid=os.getpid())
    time.sleep(60)  # noqa: ASYNC251 - a child that knows nothing of the loop it was born in
    os._exit(0)


async def _work_in_child(config: Config, tell: Any, app: App) -> None:
    def work() -> None:
        async def main() -> None:
            async with _app(config, _listener(config, tell)):
                tell("child.works", pid=os.getpid())
                await asyncio.Event().wait()

        asyncio.run(main())

    thread = threading.Thread(target=work)  # the loop of the parent still counts as running in this one
    thread.start()
    thread.join()


def _listener(config: Config, tell: Any) -> Any:
    def listen(notice: Notice) -> None:
        if notice.name in REPORTED or notice.name in config.reports:
            tell(notice.name, **notice.data)

    return listen


async def _start(config: Config, tell: Any) -> None:
    """Start runs, and report each as soon as that is acknowledged."""
    async with _app(config, lambda _: None, worker=False) as app:
        for run_id, workflow, args in config.starts:
            await app.start(find(workflow)(*args), id=run_id)
            tell("accepted", run=run_id)
    tell("left")


def _app(config: Config, listen: Any, **more: Any) -> App:
    common = {"lease": config.lease, "park_after": config.park_after, "grace": config.grace}
    return App(config.url, on_event=listen, **common, **config.settings, **more)


async def _send(config: Config, tell: Any) -> None:
    """Send messages to a run, from the first to the last."""
    async with _app(config, lambda _: None, worker=False) as app:
        for to, sender, args in config.starts:
            await mail.send_all(app, sender, to, *args)
    tell("left")


async def _answer(config: Config, tell: Any) -> None:
    """Answer what a run asks, once all who do so are there, and report who was heard."""
    async with _app(config, lambda _: None, worker=False) as app:
        tell("ready")
        while not points.gate(config.folder, "answer").exists():  # noqa: ASYNC110 - it is a file of another process
            await asyncio.sleep(0.001)
        for run, _, args in config.starts:
            tell("answered", heard=" ".join(await mail.answer_all(app, config.name, run, *args)))
    tell("left")


ROLES = {"send": _send, "answer": _answer, "work": _work, "work_twice": _work_twice, "fork": _fork, "start": _start}
