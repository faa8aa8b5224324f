"""`outlast worker`."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
from types import FrameType
from typing import Annotated, Any

import typer

from outlast.cli.fleet import Fleet, fleet_of, versions_text
from outlast.cli.loading import load_all
from outlast.cli.logs import Talker
from outlast.cli.opening import Where, refuse_memory
from outlast.cli.options import AppName, Outbox, Url
from outlast.cli.wording import counted
from outlast.core.errors import StoreUnavailable, WrongUse
from outlast.runtime import registry
from outlast.runtime.app import App
from outlast.stores.open import shown

LEAVE_WITHIN_S = 5.0
"""How long the process may take to end once its runs are handed back."""

NEW_OBJECTS = 10_000
"""How many objects are made before Python looks for garbage. Runs that wait are many objects that live on: with
Python's few hundred a tenth of a busy worker's time goes into looking at them again and again."""


def worker(
    context: typer.Context,
    code: Annotated[
        list[str],
        typer.Argument(metavar="CODE", help="Where the workflows are: agent.py or shop.agent.", show_default=False),
    ],
    grace: Annotated[
        float, typer.Option("--grace", metavar="S", min=0, help="Seconds that steps in flight get to end.")
    ] = 10.0,
    lease: Annotated[
        float, typer.Option("--lease", metavar="S", help="Seconds without a beat until others take its runs over.")
    ] = 10.0,
    worker_concurrency: Annotated[
        int, typer.Option("--worker-concurrency", metavar="N", min=1, help="Most runs to execute at a time.")
    ] = 10_000,
    max_threads: Annotated[
        int, typer.Option("--max-threads", metavar="N", min=1, help="Most threads for sync steps.")
    ] = 64,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="V", help="Your code's version, for its runs. Default: OUTLAST_VERSION."),
    ] = None,
    outbox: Outbox = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Tell of every step and run, and what your loggers say.")
    ] = False,
    url: Url = None,
    app_name: AppName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Log JSON lines.")] = False,
) -> None:
    """Execute runs of the workflows in CODE until told to stop.

    SIGTERM or Ctrl-C drains: it claims no more, hands runs back at once
    between steps, and lets steps in flight end within the grace period;
    another worker goes on with them. A second one ends the process at
    once, and other workers take its runs over. Start as many workers as
    you like on one store.

    \b
    outlast worker agent.py
    outlast worker shop.agent shop.mail --url sqlite:////var/lib/shop/agent.db
    outlast worker shop.agent --app shop.settings:make_app
    """
    talker = Talker(as_json=as_json, level=logging.DEBUG if verbose else logging.INFO)
    load_all(code)
    _collect_less_often()
    talker.adopt_root()
    where = Where(url, app_name)
    if where.app_named is not None:
        _refuse_settings(context, where.app_named)
    settings = {
        "lease": lease, "worker_concurrency": worker_concurrency, "max_threads": max_threads, "grace": grace,
        "version": version, "outbox": outbox,
    }  # fmt: skip
    app = where.make(worker=True, on_event=talker, **settings)
    refuse_memory(app.url)
    asyncio.run(_serve(app, talker))


def _collect_less_often() -> None:
    first, *others = gc.get_threshold()
    if 0 < first < NEW_OBJECTS:  # 0: the code has turned it off
        gc.set_threshold(NEW_OBJECTS, *others)
    gc.freeze()  # modules and what they hold stay


def _refuse_settings(context: typer.Context, app: str) -> None:
    """Refuse settings that stand in the program's own App, where they belong then."""
    for name in ("lease", "worker_concurrency", "max_threads", "grace", "version", "outbox"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise WrongUse(f"{option} is a setting of the App that {app} gives; set it there: App({name}=...)")


async def _serve(app: App, talker: Talker) -> None:
    """Execute runs until the first signal, then hand them back."""
    stop = _Stop(asyncio.get_running_loop(), talker)
    async with app:
        threads = app._worker.pool if app._worker is not None else None
        await _say_ready(app, talker)
        await stop.asked.wait()
    left = threads.unended if threads is not None else 0
    if left:
        them = "it" if left == 1 else "them"
        text = f"{counted(left, 'step')} did not end within {app.grace:g} s"
        text += f"; the next worker settles what became of {them}"
        talker.say(text, level=logging.WARNING)
    _leave_within(0.1 if left else LEAVE_WITHIN_S)


async def _say_ready(app: App, talker: Talker) -> None:
    """Say what is served, from which store, and beside whom."""
    names, pid = sorted(registry.names()), os.getpid()
    me = app._worker.id if app._worker is not None else ""
    facts: dict[str, Any] = {}
    try:
        store, others = await asyncio.to_thread(lambda: (app.store.info().location, fleet_of(app.store).without(me)))
    except StoreUnavailable:  # away since it was joined: no reason to leave, and who else is there is not known
        store, beside = shown(app.url), "the store is away"
    else:
        beside = _beside(others, app.version)
        facts = {"others": len(others.alive), "versions": dict(others.versions())}
    text = f"ready: serving {', '.join(names)} from {store} (process {pid}; {beside})"
    talker.say(text, event="ready", store=store, pid=pid, serves=names, version=app.version, **facts)


def _beside(others: Fleet, version: str) -> str:
    """Return how many other workers are alive, with the versions of their code where not all have this one's."""
    number, versions = len(others.alive), others.versions()
    if not number:
        return "no other worker is alive"
    text = f"{counted(number, 'other worker')} alive"
    if versions.keys() <= {version}:
        return text
    return f"version {version or 'not given'}, {text}: {versions_text(versions)}"


class _Stop:
    """What SIGTERM and SIGINT do: the first asks for an orderly end, the second ends the process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, talker: Talker) -> None:
        self.asked = asyncio.Event()
        self._loop = loop
        self._talker = talker
        self._signals = 0
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)  # not through the loop: it comes also when a step blocks that

    def _handle(self, number: int, _: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 1:
            os._exit(128 + number)
        self._loop.call_soon_threadsafe(self._ask, signal.Signals(number).name)

    def _ask(self, name: str) -> None:
        self._talker.say(f"{name}: handing runs back; once more to stop at once", event="stopping", signal=name)
        self.asked.set()


def _leave_within(seconds: float) -> None:
    """End the process after that time, even if a step still works in a thread: nothing can end one from outside."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()
