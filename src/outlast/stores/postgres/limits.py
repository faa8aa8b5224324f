"""How long a store waits for its server. Each limit is an option of the URL, in seconds; 0 is no limit.

Three of them the server keeps itself, and they are said in each transaction. A server that hangs keeps nothing (its
process was stopped, its disk does not answer, a network swallows what is sent and closes nothing), so there is one more
on this side: a connection on which the server has been silent for too long is given up, and what was asked is asked
again on another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from math import inf, isfinite
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait

from outlast.core.errors import WrongUse

T = TypeVar("T")
# Of the server's end, for what is cut off in the midst of a request, where it waits without any other limit.
KEEPALIVES = [
    f"set_config('tcp_keepalives_{name}', '{n}', true)" for name, n in (("idle", 5), ("interval", 2), ("count", 3))
]
LOOK_S = 0.1  # how often a wait looks at the clock, and at signals


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, by the names that the URL has for them.

    - `statement_timeout`: for one statement of a read; those that write get no longer than `answer_timeout`.
    - `lock_timeout`: for a row that another transaction holds.
    - `idle_timeout`: until the server ends a transaction whose process says nothing, and frees its locks.
    - `answer_timeout`: for a sign of life from the server; in a listing it comes on top of `statement_timeout`.
    - `migration_timeout`: in place of the first and the fourth, where a new Outlast alters the tables, or waits for
      another process that does.
    - `open_timeout`: for the database to be there when the store is opened; by default it has to be there at once.
    """

    statement_timeout: float = 30.0
    lock_timeout: float = 5.0
    idle_timeout: float = 5.0
    answer_timeout: float = 10.0
    migration_timeout: float = 600.0
    open_timeout: float = 0.0

    @property
    def usual_wait(self) -> float:
        """Return how long the server may be silent."""
        return self.answer_timeout or inf

    @property
    def long_wait(self) -> float:
        """Return how long the server may be silent over a listing or a check."""
        return self.statement_timeout + self.answer_timeout if self.statement_timeout and self.answer_timeout else inf

    @property
    def for_locks(self) -> str:
        """Return the expression that sets the limit for locks in a transaction."""
        return _setting("lock_timeout", self.lock_timeout)

    def of_transaction(self, *, writes: bool) -> str:
        """Return the expressions that set a transaction's limits."""
        statement = self.statement_timeout
        if writes and self.answer_timeout:
            statement = min(statement or inf, self.answer_timeout)
        idle = _setting("idle_in_transaction_session_timeout", self.idle_timeout)
        settings = [_setting("statement_timeout", statement), idle, self.for_locks]
        return ", ".join([*settings, *KEEPALIVES] if writes else settings)


NAMES = tuple(field.name for field in fields(Limits))


def _setting(name: str, seconds: float) -> str:
    return f"set_config('{name}', '{round(seconds * 1000)}', true)"


def limits_of(options: Mapping[str, str]) -> Limits:
    """Return the limits that the options of a URL name. Raises WrongUse."""
    return Limits(**{name: _seconds(name, text) for name, text in options.items()})


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not isfinite(seconds) or seconds < 0 or 0 < seconds < 0.001:
        raise WrongUse(f"{name}={text} in the URL of a store: it takes a number of seconds, 0 for no limit")
    return seconds


class Pipeline(psycopg.Pipeline):
    """Sends nothing before somebody waits for an answer: then all at once, up to where the server may rest.

    psycopg sends each statement as it comes. Then the server waits for the next one in the midst of a request, where
    none of its limits holds: it keeps the locks of a process that is frozen just there as long as that is, and those of
    one that the network has cut off for hours. One packet also costs less than many.
    """

    # psycopg has no public place for this; what depends on it is tested ("nothing is sent before ...").

    _waits = False

    def _enqueue_sync(self) -> None:
        self._waits = True
        super()._enqueue_sync()

    def _communicate_gen(self) -> PQGen[None]:
        if not self._waits:
            return
        self._waits = False
        while self.command_queue:  # into libpq's buffer, which psycopg would send after each
            self.command_queue.popleft()()
        yield from super()._communicate_gen()
        while self.pgconn.flush():  # psycopg leaves what the socket did not take
            if (yield Wait.RW) & Ready.R:
                self.pgconn.consume_input()


class Cursor(psycopg.Cursor[tuple[Any, ...]]):
    """Asks for rows so that the server waits for what comes next *between* two requests, where its limits hold."""

    connection: Connection

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        self._sync()
        return super().fetchall()

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row."""
        self._sync()
        return super().fetchone()

    def _sync(self) -> None:
        pipe = self.connection.pipe
        if pipe is not None and self.pgresult is None:
            pipe.sync()


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed when the server is silent for `waits` seconds though something is awaited."""

    waits: float = inf
    boot: Callable[[], float] = staticmethod(lambda: 0.0)  # a clock that nobody sets
    _pipeline: Pipeline | None

    @property
    def pipe(self) -> Pipeline | None:
        """Return the pipeline, while there is one."""
        return self._pipeline

    @contextmanager
    def pipeline(self) -> Iterator[Pipeline]:
        """Run the block in pipeline mode. After an error of the block it is left in silence: what follows says less."""
        pipe = self._pipeline = Pipeline(self)
        try:
            pipe.__enter__()
            try:
                yield pipe
            except BaseException:
                with suppress(psycopg.Error):
                    pipe.__exit__(None, None, None)
                raise
            pipe.__exit__(None, None, None)
        finally:
            self._pipeline = None

    def wait(self, gen: PQGen[T], *args: Any, **settings: Any) -> T:
        """Bring a wait of psycopg to its end. Raises OperationalError when that takes too long."""
        if not args:
            settings.setdefault("interval", min(LOOK_S, self.waits / 4))
        return super().wait(self._limited(gen), *args, **settings)

    def _limited(self, gen: PQGen[T]) -> PQGen[T]:
        try:
            wanted = next(gen)
            since = None
            while True:
                ready = yield wanted
                if ready != Ready.NONE:
                    since = None
                elif since is None:
                    since = self.boot()
                elif self.boot() - since > self.waits:
                    # It is of no use any more, and nothing may be asked in it again, not even to roll back.
                    self.close()
                    raise psycopg.OperationalError(f"the server has been silent for {self.waits:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result
