"""The App: an open store, a client of it and, by default, a worker of this process. The only composition root."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NoReturn, TypeVar

from outlast.codec import Codec, JsonCodec
from outlast.codec.users_codec import held_to_its_promises
from outlast.core.definitions import Call
from outlast.core.errors import RunEnded, RunNotFound, StoreError, WrongUse
from outlast.core.identity import check_run_id
from outlast.core.lost import refuse_app
from outlast.core.records import RunRow
from outlast.core.settings import DidNotHappen, Happened
from outlast.runtime import mending
from outlast.runtime.clock import SystemClock
from outlast.runtime.ends import Ends
from outlast.runtime.importing import refuse_while_imported
from outlast.runtime.limits import check_kinds, check_limits
from outlast.runtime.lookout import Lookout
from outlast.runtime.notices import Listener, Notices
from outlast.runtime.relay import Relay
from outlast.runtime.run import Run, RunInfo, info_of
from outlast.runtime.script import run_to_its_end
from outlast.runtime.starting import row_of, start_run
from outlast.runtime.thread_starts import notice_threads
from outlast.runtime.uncancelled import or_undone, to_its_end
from outlast.runtime.worker import Worker
from outlast.runtime.writer import Writer
from outlast.stores.databases.sources import source_of
from outlast.stores.open import open_store
from outlast.stores.protocol import RunFilter, Store
from outlast.stores.verbs import Answer, Cancel, Done, Failed, Refused

R = TypeVar("R")

CLIENT_PATIENCE_S = 30.0


class App:
    """A store, opened: a client of it and, with `worker=True`, a worker of this process. Use it with `async with`.

    - `url`: `sqlite:///path.db`, a plain path, `postgresql://user@host/database`, or `memory://`; by default the
      environment's `OUTLAST_URL`, else `./outlast.db`.
    - `worker`: whether this process executes runs.
    - `codec`: how values become bytes; by default JSON.
    - `on_event`: called with every `Notice`; one function or several.
    - `lease`: seconds after which a worker that no longer beats is taken over. (A process that died is noticed at
      once, as a rule; the lease is for those that froze.)
    - `park_after`: seconds of mere waiting after which a run leaves memory.
    - `max_runs`, `max_steps`, `max_threads`: this worker's limits for runs in memory, steps in flight, and threads.
    - `max_crashes`: how many workers may die in a row under one run before it is stuck.
    - `grace`: seconds that steps in flight get when the App is left; a second Ctrl-C cuts them short.
    - `version`: your code's version, recorded with each run; by default the environment's `OUTLAST_VERSION`.
    - `outbox`: your database in which `outlast.outbox` notes runs, given as to `outlast.transaction`. A worker starts
      them; a client only sees to it that the table is there.

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
        max_runs: int = 10_000,
        max_steps: int = 1_000,
        max_threads: int = 64,
        max_crashes: int = 10,
        grace: float = 10.0,
        version: str | None = None,
        outbox: Any = None,
    ) -> None:
        self.url = os.fspath(url) if url is not None else os.environ.get("OUTLAST_URL") or "./outlast.db"
        self.codec: Codec = held_to_its_promises(codec) if codec is not None else JsonCodec()
        self.clock = SystemClock()
        self.notices = Notices(tuple(on_event) if isinstance(on_event, Sequence) else (on_event,))
        self.grace = grace
        self.version = version if version is not None else os.environ.get("OUTLAST_VERSION", "")
        self._wants_worker = worker
        counts = {
            "max_runs": max_runs, "max_steps": max_steps, "max_threads": max_threads, "max_crashes": max_crashes,
        }  # fmt: skip
        check_kinds(worker=worker, codec=self.codec, version=self.version)
        check_limits(counts, lease=lease, park_after=park_after, grace=grace)
        self._limits = {"lease_s": lease, "park_after": park_after, **counts}
        self._store: Store | None = None
        self._pid = 0
        self._worker: Worker | None = None
        self._outbox = source_of(outbox) if outbox is not None else None
        self._relay: Relay | None = None
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
        self.ends = Ends(self._store, self._read, self._executes)
        self.writer = Writer(self._store, self.clock, self.notices)
        self.writer.start()
        if self._wants_worker:
            notice_threads()
            self._worker = self._make_worker(self._store)
        try:
            if self._outbox is not None:
                self._relay = Relay(self, self._outbox)
                await self._relay.prepare()
            if self._worker is not None:
                await self._worker.start()
                if self._relay is not None:
                    self._relay.start()
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
            on_end=self.ends.tell,
            **self._limits,  # type: ignore[arg-type]
        )

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
        await self._stop_relay()
        if self._worker is not None and os.getpid() == self._pid:
            await self._worker.drain(self.grace if grace is None else grace)

    async def close(self) -> None:
        """Close without waiting for steps in flight; their runs go back to the queue as they are."""
        await self._stop_relay()
        store, self._store = self._store, None
        if store is None or os.getpid() != self._pid:  # a forked child's are all its parent's, who goes on with them
            return
        await to_its_end(self._close(store))

    async def _stop_relay(self) -> None:
        relay, self._relay = self._relay, None
        if relay is not None and os.getpid() == self._pid:
            await to_its_end(relay.stop())

    async def _close(self, store: Store) -> None:
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

    def _check_loop(self) -> None:
        """Say so when a coroutine of another event loop asks: it would wait for ever."""
        refuse_app()
        self.store  # noqa: B018 - says so when the App is not open
        if asyncio.get_running_loop() is not self._loop:
            raise WrongUse(
                "this App was opened in another event loop; open one here, or use outlast.sync from several threads"
            )

    # -- clients ---------------------------------------------------------------------------

    async def start(self, call: Call[R], *, id: str | None = None) -> Run[R]:
        """Start a run of a workflow, or of a single step; return when that is committed.

        `id` makes it findable and the start repeatable: the same workflow and arguments again, by position or by name,
        give the same run. Raises RunConflict for an id that is taken by another call, EncodingError (with the path) for
        arguments that cannot be stored, WrongUse for what is not a Call or an id that cannot be one.
        """
        if isinstance(call, Call):
            call.take()  # whatever becomes of it here, it was not forgotten
        self._check_loop()
        python = self._worker.python if self._worker is not None else ""
        row = row_of(call, id, self.codec, version=self.version, python=python)
        return Run(self, await start_run(self, row, call.definition), call.definition.returns)

    async def get(self, id: str) -> Run[Any]:
        """Return the run of this id. Raises RunNotFound."""
        return Run(self, await self._row(id))

    async def runs(
        self,
        *,
        status: str | Sequence[str] | None = None,
        reason: str | None = None,
        workflow: str | None = None,
        version: str | None = None,
        id_prefix: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunInfo]:
        """Return runs, newest first.

        `status` is one or several; `reason` is that of stuck runs; `id_prefix` is taken literally. At most `limit`;
        `before` is the id of the last run of the page before. Raises WrongUse for an unknown status or reason.
        """
        chosen = [status] if isinstance(status, str) else status
        wanted = RunFilter(
            statuses=None if chosen is None else tuple(mending.status_of(s) for s in chosen),
            reason=mending.reason_of(reason),
            workflow=workflow,
            version=version,
            id_prefix=id_prefix,
        )
        below = (await self._row(before)).pk if before is not None else None
        rows = await self._read(lambda: self.store.runs(wanted, limit=limit, before=below))
        parents = await self._parents(rows)
        return [info_of(row, self, parents) for row in rows]

    async def cancel(self, id: str) -> None:
        """Ask a run to end; it cleans up first. Asking again changes nothing. Raises RunNotFound, RunEnded."""
        row = await self._row(id)
        answer = await self.ask(Cancel(id=id))
        if isinstance(answer, Refused):
            raise RunEnded(f"run {id} ({row.workflow}) cannot be cancelled: {answer.why}")
        self._wake(answer)

    async def resume(self, id: str) -> Run[Any]:
        """Take a failed, cancelled or stuck run up again.

        Its end is dropped, the failed step that caused it, which is tried anew, and what came of that failure; all else
        that is recorded stays. A failure that no step caused comes again, until the workflow's own code is changed.
        Raises NotResumable (an effect came of the failure or the cancellation, or may have; the run is in doubt, or
        goes on), RunNotFound.
        """
        return await mending.resume(self, id)

    async def resolve(
        self,
        id: str,
        step: str,
        decision: Happened | DidNotHappen | Literal["fail"],
        *,
        attempt: int | None = None,
        by: str = "",
    ) -> None:
        """Decide an attempt in doubt: `Happened(value)`, `DidNotHappen()` or `"fail"`; for this attempt and no other.

        `step` is its identity (`main/charge#1`), or its name where only one is in doubt. With `attempt` it is refused
        when another one is in doubt by now. `by` says who decides. Raises NotResumable, RunNotFound.
        """
        await mending.resolve(self, id, step, decision, attempt, by)

    async def fork(self, id: str, step: str, *, new_id: str | None = None, repeat_once: bool = False) -> Run[Any]:
        """Start a new run from what a run had recorded before a step, timer or child. The original is left alone.

        `step` is an identity (`main/charge#1`) or a name, which means the first of that name. Where the original
        went on to record a `once` step, that effect would happen again, so `repeat_once=True` must say that this is
        wanted; where it has not ended, too, since both may come to such a step. The same fork again, by `new_id`, gives
        the same run. Raises NotResumable, RunConflict, RunNotFound.
        """
        return await mending.fork(self, id, step, new_id, repeat_once)

    # -- shared by clients -------------------------------------------------------------------

    async def ask(self, verb: Any, heard: Callable[[Answer | StoreError], None] | None = None) -> Answer:
        """Have a verb of a client committed, and return its answer. Raises StoreError.

        `heard(answer)` is called in any case, also when the caller no longer waits.
        """
        self._check_loop()
        answer = await self.writer.ask(verb, CLIENT_PATIENCE_S, heard)
        if isinstance(answer, Failed):
            raise StoreError(f"{self.url}: {answer.why}")
        return answer

    async def _row(self, id: str) -> RunRow:
        row: RunRow | None = await self._read(self.store.run, check_run_id(id))
        if row is None:
            raise RunNotFound(f"no run has the id {id!r} in {self.url}; `outlast runs` lists them")
        return row

    async def _read(self, function: Callable[..., Any], *args: Any) -> Any:
        self._check_loop()
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *args)

    async def _parents(self, rows: Sequence[RunRow]) -> dict[int, str]:
        """Return the run ids of the parents of child runs, by key."""

        def look(pks: set[int]) -> dict[int, str]:
            found = ((pk, self.store.run_by_pk(pk)) for pk in pks)
            return {pk: row.id for pk, row in found if row is not None}

        pks = {row.parent for row in rows if row.parent is not None}
        return await self._read(look, pks) if pks else {}

    def _executes(self, pk: int) -> bool:
        return self._worker is not None and pk in self._worker.executions

    def _wake(self, answer: Answer) -> None:
        if self._worker is not None and isinstance(answer, Done):
            self._worker.wake(answer.woke)
            self._worker.claims.look()
        self.ends.look_soon()
