"""From `--url` and `--app` to an open store, and the commands that a message tells a person to type."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from outlast.cli.loading import find_app
from outlast.core.errors import StoreError, WrongUse
from outlast.core.records import RunRow
from outlast.core.schedule_rows import ScheduleRow
from outlast.runtime.app import App
from outlast.runtime.clock import SystemClock
from outlast.runtime.notices import Listener
from outlast.runtime.seen import SeenWorker, code_of, if_renamed, seen_workers
from outlast.stores.open import open_store, shown

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Where:
    """What `--url` and `--app` said: the store that a command works on, and the program's own App, if it is to be used.

    `OUTLAST_APP` stands for `--app`, as `OUTLAST_URL` stands for `--url`. A URL on the command line goes before the
    App's own.
    """

    url: str | None = None
    app: str | None = None

    @property
    def app_named(self) -> str | None:
        """Return which App the program is to give."""
        return self.app or os.environ.get("OUTLAST_APP") or None

    def make(self, *, worker: bool = False, on_event: Listener | None = None, **settings: Any) -> App:
        """Return the App, not opened, by default as a client. `settings` hold where the program gives no App."""
        named = self.app_named
        if named is None:
            app = App(self.url, worker=worker, on_event=() if on_event is None else on_event, **settings)
            app.lookout = None  # commands say in their own words that nobody executes a run
            return app
        app = find_app(named)
        app._wants_worker = worker
        app.lookout = None
        if self.url is not None:
            app.url = self.url
        if on_event is not None:
            app.notices.add(on_event)
        return app

    def command(self, *words: Any) -> str:
        """Return an `outlast` command as a person would type it, for the same store."""
        store = ["--url", shown(self.url)] if self.url is not None else []
        settings = ["--app", self.app] if self.app is not None else []
        return shlex.join(["outlast", *(str(word) for word in words), *store, *settings])

    def start_one(self, run: RunRow, workers: list[SeenWorker]) -> list[str]:
        """Return lines that say what to do for a run that nobody executes."""
        hint = if_renamed(workers, run.workflow)
        move = ["or have another workflow take it:", f"  {self.command('move', run.workflow, 'NEW', '--id', run.id)}"]
        renamed = [*move, f"or: {hint}"] if hint else []
        return ["start one, where its code is:", f"  {self.worker_for(run)}", *renamed]

    def worker_for(self, of: RunRow | ScheduleRow) -> str:
        """Return the command that starts a worker for the code of a run or schedule, to be typed beside that code."""
        return self.command("worker", code_of(of))


def with_store(where: Where, action: Callable[[App], Awaitable[T]]) -> T:
    """Open a store that exists, as a client only, and return what `action` does with it.

    Raises a StoreError where there is none: looking at a store must not make one.
    """
    return with_existing(where.make(), action)


def with_existing(app: App, action: Callable[[App], Awaitable[T]]) -> T:
    """Do the same with an App that is not open yet."""
    _check_exists(app.url)
    return with_app(app, action)


def with_app(app: App, action: Callable[[App], Awaitable[T]]) -> T:
    """Enter an App and return what `action` does with it. Blocking."""

    async def main() -> T:
        async with app:
            return await action(app)

    return asyncio.run(main())


def refuse_memory(url: str) -> None:
    """Raise WrongUse for a store that no other process could see."""
    if url.startswith("memory:"):
        raise WrongUse(f"{url} lives inside one process, so this command would see an empty one; use a file")


def _check_exists(url: str) -> None:
    refuse_memory(url)
    try:
        open_store(url, SystemClock(), read_only=True).close()
    except StoreError as error:
        raise type(error)(f"{error}; --url or OUTLAST_URL names another store") from None


async def workers_of(app: App) -> list[SeenWorker]:
    """Return all workers that an open App's store knows."""
    return await asyncio.to_thread(seen_workers, app.store)
