"""The App: an open store, a client of it and, by default, a worker of this process. The only composition root."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn, TypeVar

from outlast.codec import Codec, JsonCodec
from outlast.codec.users_codec import held_to_its_promises
from outlast.core.definitions import Call
from outlast.core.errors import WrongUse
from outlast.core.lost import refuse_app
from outlast.core.prices import Price, Prices
from outlast.core.records import RunRow
from outlast.runtime.client import Client
from outlast.runtime.clock import SystemClock
from outlast.runtime.deadlines import expire_for_client
from outlast.runtime.ends import Ends
from outlast.runtime.following import Readers
from outlast.runtime.forgetting import Forgetting
from outlast.runtime.importing import refuse_while_imported
from outlast.runtime.limits import check_kinds, check_limits
from outlast.runtime.lookout import Lookout
from outlast.runtime.notices import Listener, Notices
from outlast.runtime.relay import Relay
from outlast.runtime.script import run_to_its_end
from outlast.runtime.thread_starts import notice_threads
from outlast.runtime.uncancelled import or_undone, to_its_end
from outlast.runtime.worker import Worker
from outlast.runtime.writer import Writer
from outlast.stores.databases.source import Source
from outlast.stores.databases.sources import source_of
from outlast.stores.open import open_store
from outlast.stores.protocol import Store

R = TypeVar("R")


class App(Client):
    """A store, opened: a client of it and, with `worker=True`, a worker of this process. Use it with `async with`.

    - `url`: `sqlite:///path.db`, a plain path, `postgresql://user@host/database`, or `memory://`; by default the
      environment's `OUTLAST_URL`, else `./outlast.db`.
    - `worker`: whether this process executes runs.
    - `codec`: how values become bytes; by default JSON.
    - `on_event`: called with every `Notice`; one function or several.
    - `lease`: seconds after which a worker that no longer beats is taken over. (A process that died is noticed at
      once, as a rule; the lease is for those that froze.)
    - `park_after`: seconds of mere waiting after which a run leaves memory.
    - `worker_concurrency`: how many runs this worker executes at a time; it claims no more, so that others can. A run
      that has waited for longer than `park_after` has left memory, and does not count.
    - `max_steps`, `max_threads`: how many steps it has in flight, and how many threads for sync steps.
    - `max_crashes`: how many workers may die in a row under one run before it is stuck.
    - `grace`: seconds that steps in flight get when the App is left; a second Ctrl-C cuts them short.
    - `version`: your code's version, recorded with each run; by default the environment's `OUTLAST_VERSION`.
    - `outbox`: your database in which `outlast.outbox` notes runs, given as to `outlast.transaction`, or a list of
      several. A worker starts them; a client only sees to it that the table is there.
    - `prices`: what models cost, by name, a `Price` each; a name that ends in `*` is for all that begin so.

    Raises WrongUse for settings that make no sense. Entering it raises WrongUse for a URL that means nothing here,
    NotAStore, ReadOnlyStore or StoreUnavailable.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] | None = None,
        *,
        worker: bool = True,
        codec: Codec | None = None,
        on_event: Listener | Sequence[Listener] = (),
        lease: float = 10.0,
        park_after: float = 1.0,
        worker_concurrency: int = 10_000,
        max_steps: int = 1_000,
        max_threads: int = 64,
        max_crashes: int = 10,
        grace: float = 10.0,
        version: str | None = None,
        outbox: Any = None,
        prices: Mapping[str, Price] | None = None,
    ) -> None:
        self.url = os.fspath(url) if url is not None else os.environ.get("OUTLAST_URL") or "./outlast.db"
        self.codec: Codec = held_to_its_promises(codec) if codec is not None else JsonCodec()
        self.clock = SystemClock()
        self.notices = Notices(tuple(on_event) if isinstance(on_event, Sequence) else (on_event,))
        self.prices = Prices(prices)
        self.grace = grace
        self.version = version if version is not None else os.environ.get("OUTLAST_VERSION", "")
        self._wants_worker = worker
        counts = {
            "worker_concurrency": worker_concurrency, "max_steps": max_steps, "max_threads": max_threads,
            "max_crashes": max_crashes,
        }  # fmt: skip
        check_kinds(worker=worker, codec=self.codec, version=self.version)
        check_limits(counts, lease=lease, park_after=park_after, grace=grace)
        self._limits = {"lease_s": lease, "park_after": park_after, **counts}
        self._store: Store | None = None
        self._pid = 0
        self._declared = set()
        self._worker: Worker | None = None
        given = outbox if isinstance(outbox, list | tuple) else [] if outbox is None else [outbox]
        self.outboxes: list[Source] = [source_of(each) for each in given]
        self._duties: list[Relay | Forgetting] = []
        self.lookout: Lookout | None = None if worker else Lookout(self)

    # -- opening and closing -------------------------------------------------------------

    async def __aenter__(self) -> App:
        refuse_while_imported("`async with App(...)`")
        refuse_app()
        if self._store is not None:
            raise WrongUse("this App is open already; make another one for another `async with`")
        self._loop = loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(None, open_store, self.url, self.clock)
        self._store = await or_undone(opening, lambda store: store.close())
        self._pid = os.getpid()
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="outlast-read")
        expire = None if self._wants_worker else partial(expire_for_client, self)
        self.ends = Ends(self._store, self._read, self._executes, expire)
        self.readers = Readers(self._store, self._executes)
        self.writer = Writer(self._store, self.clock, self.notices)
        self.writer.on_output = self.readers.tell
        self.writer.start()
        if self._wants_worker:
            notice_threads()
            self._worker = self._make_worker(self._store)
        try:
            relays = [Relay(self, source) for source in self.outboxes]
            for relay in relays:
                await relay.prepare()
            if self._worker is not None:
                await self._worker.start()
                self._duties = [*relays, Forgetting(self._worker)]
                for duty in self._duties:
                    duty.start()
        except BaseException:
            await self.close()
            raise
        return self

    def _make_worker(self, store: Store) -> Worker:
        return Worker(
            store=store,
            codec=self.codec,
            writer=self.writer,
            clock=self.clock,
            notices=self.notices,
            readers=self._readers,
            lock_folder=store.lock_folder(),
            version=self.version,
            on_end=self._tell_end,
            prices=self.prices,
            **self._limits,  # type: ignore[arg-type]
        )

    def _tell_end(self, row: RunRow) -> None:
        self.ends.tell(row)
        self.readers.tell(row.pk)

    def __enter__(self) -> NoReturn:
        raise WrongUse("an App is entered with `async with`; in code without an event loop use outlast.sync.App")

    def __exit__(self, *_: object) -> None: ...

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.drain()
        finally:  # told to stop once more
            await self.close()

    async def drain(self, grace: float | None = None) -> None:
        """Claim no more runs and hand all back: at once between steps, else after the step in flight.

        Returns when all are handed back, or after `grace` seconds.
        """
        if os.getpid() == self._pid:
            await to_its_end(self._stop_duties())
        if self._worker is not None and os.getpid() == self._pid:
            await self._worker.drain(self.grace if grace is None else grace)

    async def close(self) -> None:
        """Close without waiting for steps in flight; their runs go back to the queue as they are."""
        store, self._store = self._store, None
        if store is None or os.getpid() != self._pid:  # a forked child's are all its parent's, who goes on with them
            return
        self.readers.close()  # from here on they could not read
        await to_its_end(self._close(store))

    async def _stop_duties(self) -> None:
        duties, self._duties = self._duties, []
        for duty in duties:
            await duty.stop()

    async def _close(self, store: Store) -> None:
        await self._stop_duties()
        if self._worker is not None:
            await self._worker.stop()
            self._worker = None
        await self.writer.stop()
        self.ends.close()
        self._readers.shutdown(wait=True)
        store.close()

    def run(self, call: Call[R], *, id: str | None = None) -> R:
        """Start a run, wait for its result, and close: for scripts. Blocking; raises as `Run.result` does.

        Ctrl-C ends the waiting and not the run: a warning in the log names it, and what takes it up.
        """
        if isinstance(call, Call):
            call.take()  # whatever becomes of it here, it was not forgotten
        refuse_while_imported("App.run()")
        refuse_app()
        return run_to_its_end(self, call, id)

    def __repr__(self) -> str:
        return f"<App {self.url}>"

    @property
    def store(self) -> Store:
        """The open store. Raises WrongUse when the App is not open, or was opened by the parent of a forked process."""
        if self._store is None:
            raise WrongUse(f"this App is not open; use it inside `async with App({self.url!r}) as app:`")
        if os.getpid() != self._pid:
            raise WrongUse("this App was opened by the parent process; open a new App in the forked child")
        return self._store
