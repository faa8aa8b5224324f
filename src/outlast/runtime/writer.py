"""The one writer of a process: a thread that commits in batches.

Everything that any run writes goes through `submit`. The thread takes all that has
arrived, commits it in one transaction and hands the answers back to the event
loop: while one commit is on its way to the disk, the next batch gathers. It also
beats the lease, so a lease is renewed exactly as long as this process can write, and no
user code can hold it up.

When the store is unavailable the same batch is sent again until it is answered
(every verb is idempotent). A verb of a person (`patience` in seconds) is not held
that long: it gets the error. A batch that fails in a way that nobody has foreseen is
sent again in ever smaller parts, until the one verb is found that is at fault, and
that one alone is answered with the error.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from outlast.core.errors import ReadOnlyStore, StoreError, StoreUnavailable
from outlast.runtime.clock import SystemClock
from outlast.runtime.notices import Notices, log
from outlast.stores.protocol import Store
from outlast.stores.verbs import Answer, Beat, Beaten, Fenced, Leave, Verb

Done = Callable[[Answer | StoreError], None]
Batch = list[tuple[Verb, Done, float | None]]

BATCH_LIMIT = 2_000
LOOK_AT_SESSION_S = 0.1
BACKOFF_S = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)


class Lease:
    """This worker's proof of life, as this process knows it."""

    def __init__(self, store: Store, seconds: float) -> None:
        self._now = store.lease_now
        self._session = store.session
        self.session = store.session()  # in which it was renewed last
        self.seconds = seconds
        self.until = 0.0
        self.lost = False

    def holds(self) -> bool:
        """Tell whether an effect may start now. Looks at the clock, so a process that was frozen notices at once."""
        return not self.lost and self._now() < self.until and self._session() == self.session

    def renewal_in(self) -> float:
        """Return the seconds until it is time to beat: at a third of the lease, or now, as the session has dropped."""
        if self._session() != self.session:
            return 0.0
        return self.until - self.seconds * 2 / 3 - self._now()


class Outside(Protocol):
    """What the writer tells its owner, on the event loop."""

    def lease_renewed(self) -> None: ...

    def lease_lost(self, why: str) -> None: ...


class Writer:
    """See the top of this file. `start` and `submit` are called on the event loop."""

    def __init__(self, store: Store, clock: SystemClock, notices: Notices) -> None:
        self._store = store
        self._clock = clock
        self._notices = notices
        self._queue: queue.SimpleQueue[tuple[Verb, Done, float | None] | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False  # the thread has been asked to end, once it has committed what came before
        self.lease: Lease | None = None
        self.worker = ""
        self.outside: Outside | None = None
        self.on_output: Callable[[int], None] = lambda run: None  # of this run something new can be read
        self.depth = 0

    def start(self) -> None:
        """Start the thread."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="outlast-writer", daemon=True)
        self._thread.start()

    def submit(self, verb: Verb, done: Done, patience: float | None = None) -> None:
        """Queue a verb; `done(answer)` is called on the event loop after its commit.

        With `patience` an unavailable store is answered with its error after so many seconds.
        """
        self.depth += 1
        self._queue.put((verb, done, None if patience is None else self._clock.boot() + patience))

    async def ask(self, verb: Verb, patience: float | None = None, heard: Done | None = None) -> Answer:
        """Submit a verb and wait for its answer. Raises StoreError when patience ends.

        `heard(answer)` is called in any case, also when the caller no longer waits.
        """
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(answer: Answer | StoreError) -> None:
            if heard is not None:
                heard(answer)
            if future.done():
                return
            if isinstance(answer, Answer):
                future.set_result(answer)
            else:
                future.set_exception(answer)

        self.submit(verb, done, patience)
        return await future

    async def stop(self) -> None:
        """Commit what is queued, then end the thread."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._queue.put(None)
        await asyncio.to_thread(thread.join)

    # -- the thread --------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            batch: Batch = []
            self._gather(batch, self._wait_s())
            if self._loop is not None and self._loop.is_closed():
                self._end_without_app()
                return
            for pause_s in self._commit(batch):
                self._pause(pause_s)

    def _end_without_app(self) -> None:
        """Beat no more: nobody executes the runs that this lease would keep from others."""
        text = (
            "an App was left open when its event loop was closed; it does nothing any more, and others take its runs "
            "over once its lease has ended. Open it with `async with App(...)`, which closes it"
        )
        log.warning(text)
        warnings.warn(text, ResourceWarning, stacklevel=1)
        self._store.close()

    def _gather(self, batch: Batch, wait_s: float) -> None:
        """Add all that has arrived to a batch, waiting for the first."""
        try:
            while len(batch) < BATCH_LIMIT and not self._stopping:
                item = self._queue.get(wait_s > 0, wait_s)
                wait_s = 0.0
                if item is None:
                    self._stopping = True
                else:
                    batch.append(item)
        except queue.Empty:
            return

    def _wait_s(self) -> float:
        lease = self.lease
        if lease is None or lease.lost:
            return 1.0
        longest = 1e9 if lease.session is None else LOOK_AT_SESSION_S
        return max(0.0, min(longest, lease.renewal_in()))

    def _commit(self, batch: Batch) -> Iterator[float]:
        """Commit a batch and hand back its answers; yields the seconds to pause before each further try."""
        failing_since: float | None = None
        tries = 0
        overdue, beats = False, True
        together = BATCH_LIMIT + 1
        while True:
            beat = self._beat(overdue) if beats else []
            if not batch and not beat:
                return
            verbs = [*beat, *(item[0] for item in batch)][:together]
            session = self._store.session()
            try:
                answers = self._store.transact(verbs)
            except (StoreUnavailable, ReadOnlyStore) as error:
                now = self._clock.boot()
                if failing_since is None:
                    failing_since = now
                    self._notices("store.unavailable", error=str(error))
                batch = self._give_up(batch, error, now)
                yield BACKOFF_S[min(tries, len(BACKOFF_S) - 1)]
                self._gather(batch, 0.0)  # what has come meanwhile has its own patience, which may end, too
                tries += 1
                if self._stopping and tries > len(BACKOFF_S):
                    self._answer([(done, error) for _, done, _ in batch])
                    return
                continue
            except Exception as error:  # noqa: BLE001 - a fault of ours, and the thread must not end
                if len(verbs) > 1:
                    together = len(verbs) // 2
                    continue
                self._failed(verbs[0], error)
                if beat:
                    beats = False  # what others have written does not wait for it
                    yield BACKOFF_S[0]
                else:
                    self._answer([(batch.pop(0)[1], StoreError(f"the write failed unexpectedly: {error!r}"))])
                together = BATCH_LIMIT + 1
                continue
            if Leave in map(type, verbs):
                self.lease = None  # it is given up, and a further beat would find it gone
            if failing_since is not None:
                self._notices("store.back", seconds=round(self._clock.boot() - failing_since, 3))
                failing_since = None
            if beat:
                self._beaten(answers.pop(0), session)
            sent, batch = batch[: len(answers)], batch[len(answers) :]
            late = self._hand_back(sent, answers, keep_late=beats and not beat)
            overdue = bool(late)
            batch = late + batch

    def _beat(self, overdue: bool) -> list[Verb]:
        """Return the beat of the lease, if it is time for it."""
        lease = self.lease
        if lease is None or lease.lost or not (overdue or lease.renewal_in() <= 0):
            return []
        return [Beat(worker=self.worker, lease_s=lease.seconds)]

    def _failed(self, verb: Verb, error: Exception) -> None:
        self._notices("store.failed", error=repr(error))
        log.error("a write (%s) failed", type(verb).__name__, exc_info=error)

    def _hand_back(self, batch: Batch, answers: list[Answer], *, keep_late: bool) -> Batch:
        """Hand the answers back; return what is to be sent again, after a beat: verbs that were refused since the wait
        for the database outlasted the lease. If nobody took the lease meanwhile, it can be renewed and nothing is lost.
        """
        keep_late = keep_late and self.lease is not None and not self.lease.lost
        late: Batch = []
        answered: list[tuple[Done, Answer | StoreError]] = []
        for item, answer in zip(batch, answers, strict=True):
            if keep_late and isinstance(answer, Fenced) and answer.worker_lost:
                late.append(item)
            else:
                answered.append((item[1], answer))
        self._answer(answered)
        return late

    def _give_up(self, batch: Batch, error: StoreError, now: float) -> Batch:
        """Answer those whose patience has ended; return the others."""
        over: list[tuple[Done, Answer | StoreError]] = []
        left: Batch = []
        for item in batch:
            patient = item[2] is None or (now < item[2] and not isinstance(error, ReadOnlyStore))
            if patient:
                left.append(item)
            else:
                over.append((item[1], error))
        self._answer(over)
        return left

    def _pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def _beaten(self, answer: Answer, session: int | None) -> None:
        lease = self.lease
        if lease is None:
            return
        if isinstance(answer, Beaten):
            lease.until, lease.session = answer.lease_until, session
            self._tell(lambda outside: outside.lease_renewed())  # each time: what waits for it may have come just now
        elif isinstance(answer, Fenced):
            lease.lost = True
            why = answer.why
            self._tell(lambda outside: outside.lease_lost(why))

    def _tell(self, say: Callable[[Outside], None]) -> None:
        if self.outside is not None:
            self._on_loop(say, self.outside)

    def _answer(self, answers: list[tuple[Done, Answer | StoreError]]) -> None:
        if answers:
            self._on_loop(self._deliver, answers)

    def _on_loop(self, act: Callable[..., None], *args: Any) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed, maybe just now: `_run` sees to it
                self._loop.call_soon_threadsafe(act, *args)

    def _deliver(self, answers: list[tuple[Done, Answer | StoreError]]) -> None:
        coming = iter(answers)
        try:
            for done, answer in coming:
                self.depth -= 1
                done(answer)
        finally:  # a fault in one is told by the loop, and keeps no answer from the others
            if (left := list(coming)) and self._loop is not None:
                self._loop.call_soon(self._deliver, left)
