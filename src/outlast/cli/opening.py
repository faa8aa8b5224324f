"""From `--url` to an open store, and the commands that a message tells a person to type."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from outlast.core.errors import StoreError, WrongUse
from outlast.core.records import RunRow
from outlast.runtime.app import App
from outlast.runtime.clock import SystemClock
from outlast.runtime.seen import SeenWorker, code_of, seen_workers
from outlast.stores.open import open_store

T = TypeVar("T")


def with_store(url: str | None, action: Callable[[App], Awaitable[T]]) -> T:
    """Open a store that exists, as a client only, and return what `action` does with it.

    Raises a StoreError where there is none: looking at a store must not make one.
    """
    _check_exists(url)
    return with_app(App(url, worker=False), action)


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


def _check_exists(url: str | None) -> None:
    found = App(url).url
    refuse_memory(found)
    try:
        open_store(found, SystemClock(), read_only=True).close()
    except StoreError as error:
        raise type(error)(f"{error}; --url or OUTLAST_URL names another store") from None


def worker_for(url: str | None, run: RunRow) -> str:
    """Return the command that starts a worker for the code of a run, as a person would type it beside that code."""
    return command_line(url, "worker", code_of(run))


async def workers_of(app: App) -> list[SeenWorker]:
    """Return all workers that an open App's store knows."""
    return await asyncio.to_thread(seen_workers, app.store, app.clock.boot_id())


def command_line(url: str | None, *words: Any) -> str:
    """Return an `outlast` command as a person would type it, for the same store."""
    store = ["--url", url] if url is not None else []
    return shlex.join(["outlast", *(str(word) for word in words), *store])
