"""The client of a store through which a checkpointer writes and reads, from any event loop and any thread.

What is written goes to the client's own loop, in the order in which it was given, and from there to the one writer of
the process, which commits what has gathered. Reads are asked of the store where the caller is.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from outlast import sync
from outlast.core.errors import WrongUse
from outlast.core.lost import refuse_app
from outlast.runtime.app import App
from outlast.runtime.loop_beside import LoopBeside
from outlast.stores.protocol import Store
from outlast.stores.verbs import Answer

T = TypeVar("T")
Work = Callable[["Asked"], Coroutine[Any, Any, T]]


class Asked(Protocol):
    """What a checkpointer needs of an App: its loop, its store, and its way to have a verb committed."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def store(self) -> Store: ...

    async def ask(self, verb: Any) -> Answer: ...


class StoreClient:
    """An App that somebody else opens and closes, or a client of a URL, opened when it is first used."""

    def __init__(self, app: App | sync.App | str | os.PathLike[str] | None) -> None:
        self._given = app._app if isinstance(app, sync.App) else app if isinstance(app, App) else None
        self._url = None if isinstance(app, App | sync.App) else app
        self._lock = threading.Lock()
        self._own: tuple[App, LoopBeside] | None = None
        self._pid = 0

    @property
    def shown(self) -> str:
        """What is shown of it in messages."""
        return self._given.url if self._given is not None else str(self._url or "the default store")

    def _refuse(self) -> None:
        """Raise WrongUse where the caller is a workflow body."""
        refuse_app()

    def _open(self) -> Asked:
        if self._given is not None:
            return self._given
        with self._lock:
            if self._own is None or self._pid != os.getpid():  # a forked child opens its own
                beside = LoopBeside()
                app = App(self._url, worker=False)
                try:
                    beside.wait(app.__aenter__())
                except BaseException:
                    beside.close()
                    raise
                self._own, self._pid = (app, beside), os.getpid()
            return self._own[0]

    def close(self) -> None:
        """Close what was opened here."""
        with self._lock:
            own, self._own = self._own, None
        if own is not None and self._pid == os.getpid():
            app, beside = own
            try:
                beside.wait(app.close())
            finally:
                beside.close()

    # -- writing ---------------------------------------------------------------------

    def wait(self, work: Work[T]) -> T:
        """Do something on the client's loop; blocking."""
        app = self._from_a_thread()
        return asyncio.run_coroutine_threadsafe(work(app), app.loop).result()

    def _from_a_thread(self) -> Asked:
        """Return the client for a caller that blocks, also for reads: a graph reads here, and writes in other threads,
        for which it would then wait on the very loop that they need.
        """
        self._refuse()
        app = self._open()
        if _running() is app.loop:
            raise WrongUse(
                "a checkpointer was used without `await` on the event loop of its App, which would wait for itself: "
                "use ainvoke, astream, aget_state or the other async methods there"
            )
        return app

    async def run(self, work: Work[T]) -> T:
        """Do something on the client's loop."""
        self._refuse()
        app = await self._opened()
        if _running() is app.loop:
            return await work(app)
        future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(work(app), app.loop)
        return await asyncio.wrap_future(future)

    async def _opened(self) -> Asked:
        if self._given is not None or (self._own is not None and self._pid == os.getpid()):
            return self._open()
        return await asyncio.to_thread(self._open)

    # -- reading ---------------------------------------------------------------------

    def read(self, ask: Callable[[Store], T]) -> T:
        """Ask the store; blocking."""
        return ask(self._from_a_thread().store)

    async def read_aside(self, ask: Callable[[Store], T]) -> T:
        """Ask the store in a thread."""
        self._refuse()
        store = (await self._opened()).store
        return await asyncio.to_thread(ask, store)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
