"""The connections of one process to one store.

One connection writes, guarded by a lock. Readers come from a small pool, each used by one thread at a time.

Nothing outlives a transaction, so that a pooler may give each one another session: the schema, the limits of time and
the isolation level are said at the start of each, in the same network packet as its first statements. Prepared
statements are used only where no pooler stands between: there the process id that the server gave when it was connected
to is the one that it says it has.

**Fork.** A child leaves its parent's connections alone and opens its own.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from outlast.core.errors import StoreError, StoreUnavailable
from outlast.stores.postgres import faults
from outlast.stores.postgres.address import Address
from outlast.stores.postgres.arrays import teach
from outlast.stores.postgres.limits import Connection, Cursor, Limits
from outlast.stores.postgres.rights import REFUSED, lacking_right
from outlast.stores.postgres.times import SERVER_TIME, Times

T = TypeVar("T")
Db = Connection

IDLE_READERS = 4
TRIES = 5  # of a transaction that met another one
PREPARE_AFTER = 2

BEGIN_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# A server that commits before its log is on disk would acknowledge what can still be lost.
DURABLE = (
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
    "ELSE current_setting('synchronous_commit') END, true)"
)


@cache
def settings_of(limits: Limits, *, writes: bool) -> str:
    """Return the expressions that say a transaction's settings; they take the search path."""
    return f"set_config('search_path', %s, true), {limits.of_transaction(writes=writes)}, {DURABLE}"


# What idle workers ask for ever is planned once and not each time, for which no index is left out that the tables'
# sizes of that moment would leave out: they grow faster than the server counts their rows anew. (Without the last, an
# index that is missing would have a cost at which the server compiles the plan.)
PLANNED_ONCE = ", ".join(
    f"set_config('{name}', '{value}', true)"
    for name, value in (("plan_cache_mode", "force_generic_plan"), ("enable_seqscan", "off"), ("jit", "off"))
)


# A session is its process and when that began, since numbers of processes are used again. What the session of another
# user began at is hidden from most; then the number alone has to do.
BEGAN = "(extract(epoch FROM backend_start) * 1000000)::bigint"
ENDED = (
    "session <> '' AND NOT EXISTS (SELECT 1 FROM pg_stat_get_activity(split_part(session, ' ', 1)::int) "
    f"WHERE backend_start IS NULL OR {BEGAN} = split_part(session, ' ', 2)::bigint)"
)


@dataclass(frozen=True, slots=True)
class Link:
    """A connection. `session` names it among those of the server, empty where a pooler stands between."""

    db: Db
    session: str


@contextmanager
def transaction(db: Db, begin: str, *, pipelined: bool) -> Iterator[None]:
    """Run the block in a transaction and commit it. Any error rolls it back.

    `pipelined`: statements whose rows nobody asks for are sent without waiting for their answers.
    """
    try:
        with db.pipeline() if pipelined else nullcontext():
            db.execute(begin)
            yield
            end = db.execute("COMMIT")
        if end.statusmessage != "COMMIT":
            raise psycopg.OperationalError("the transaction was not committed")
    except BaseException:
        if not db.closed and db.info.transaction_status != TransactionStatus.IDLE:
            with suppress(psycopg.Error):  # the first error says more; what is broken is dropped
                db.execute("ROLLBACK")
        raise


class Connections:
    """Keeps connections, opens them when they are needed, and lets one thread at a time use each."""

    def __init__(self, address: Address, times: Times) -> None:
        self.address = address
        self.times = times
        self.pooled = False
        self._closed = False
        self._dbs: set[Db] = set()  # all that are open
        self._begin_anew()
        _open.add(self)
        # A store that nobody closed and nobody knows any more ends its sessions, and is silent about it.
        weakref.finalize(self, _close_all, self._dbs).atexit = False

    def _begin_anew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()  # guards what follows, and is never held for long
        self._idle: deque[Link] = deque()
        self._write_lock = threading.Lock()
        self._writer: Link | None = None

    # -- opening -------------------------------------------------------------------

    def connect(self) -> Link:
        """Open a connection, and hear what time it is there. Raises StoreUnavailable."""
        try:
            db = Connection.connect(
                **self.address.libpq,  # type: ignore[arg-type]
                autocommit=True,
                cursor_factory=Cursor,
                client_encoding="utf8",
                prepare_threshold=None,
            )
            db.boot = self.times.boot
            db.waits = self.address.limits.usual_wait
        except psycopg.Error as error:
            raise faults.why_no_connection(error, self.address) from error
        try:
            teach(db)
            asked = self.times.boot()
            ((pid, session, now),) = db.execute(
                f"SELECT pid, pid || ' ' || {BEGAN}, {SERVER_TIME} FROM pg_stat_get_activity(pg_backend_pid())"
            ).fetchall()
            self.times.heard(asked, now)
        except psycopg.Error as error:
            db.close()
            raise faults.why_no_connection(error, self.address) from error
        self._dbs.add(db)
        if pid != db.info.backend_pid:
            self.pooled = True
        if self.pooled:
            return Link(db, "")
        db.prepare_threshold = PREPARE_AFTER
        return Link(db, session)

    def disconnect(self, db: Db) -> None:
        """End a connection."""
        self._dbs.discard(db)
        db.close()

    # -- using -----------------------------------------------------------------------

    def write(self, action: Callable[[Link], T]) -> T:
        """Run `action`, which commits a transaction by itself and may safely be run again.

        It is run again when its connection was found broken, or when it met another transaction. Raises
        StoreUnavailable, what the server says, or what the content of a verb brought about (`faults.REFUSALS`).
        """
        self._check()
        with self._write_lock:
            broken = False
            for tries in range(1, TRIES + 1):
                link = self._writer = self._writer or self.connect()
                try:
                    return action(link)
                except faults.REFUSALS:
                    if link.db.closed:
                        self._drop_writer()
                    raise
                except psycopg.Error as error:
                    dead = faults.is_dead(error, link.db)
                    if dead:
                        self._forget(error)
                        self._drop_writer()
                    if tries == TRIES or broken or not (dead or isinstance(error, faults.TRANSIENT)):
                        raise self._meaning(error, link.db) from error
                    broken = dead
            raise AssertionError("the last try has raised")

    def ask(self, action: Callable[[Db], Callable[[], T]]) -> T:
        """Run `action`, which sends questions that are asked again and again and waits for no answer, as `read` does.

        All go in one packet. What it returns is called when the answers are there, and makes the result of them.
        """
        return self.read(action, settings=PLANNED_ONCE)()

    def read(self, action: Callable[[Db], T], *, long: bool = False, settings: str = "true") -> T:
        """Run `action`, which only reads, inside one snapshot; again when its connection was found broken.

        `long`: it may read much, and nobody's lease hangs on it. `settings` are further ones of the transaction.
        """
        self._check()
        limits = self.address.limits
        said = f"SELECT {settings_of(limits, writes=False)}, {settings}"
        broken = False
        while True:
            with self._lock:
                link = self._idle.pop() if self._idle else None
            link = link or self.connect()
            link.db.waits = limits.long_wait if long else limits.usual_wait
            try:
                with transaction(link.db, BEGIN_READ, pipelined=True):
                    link.db.execute(said, (self.address.search_path,))
                    result = action(link.db)
            except psycopg.Error as error:
                told = self._meaning(error, link.db)
                if faults.is_dead(error, link.db):
                    self._forget(error)
                    self.disconnect(link.db)
                    if not broken:
                        broken = True
                        continue
                else:
                    self._give_back(link)
                raise told from error
            except BaseException:
                self.disconnect(link.db)
                raise
            self._give_back(link)
            return result

    def _check(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"the store {self.address.text} is closed")

    def _meaning(self, error: psycopg.Error, db: Db) -> StoreError:
        lacking = None
        if isinstance(error, REFUSED) and not faults.is_dead(error, db):
            lacking = lacking_right(db, self.address)
        return lacking or faults.meaning(error, self.address)

    def _forget(self, error: psycopg.Error) -> None:
        """Take in what a dead connection tells of the others."""
        if isinstance(error, faults.NOT_PREPARED):
            self.pooled = True
        with self._lock:  # they are as old as this one
            idle, self._idle = self._idle, deque()
        for link in idle:
            self.disconnect(link.db)

    def _give_back(self, link: Link) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < IDLE_READERS:
                self._idle.append(link)
                return
        self.disconnect(link.db)

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            self.disconnect(writer.db)

    # -- closing ---------------------------------------------------------------------

    def close(self) -> None:
        """Let nobody begin to use a connection any more, and close all that are idle; others close after their use."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, deque()
        for link in idle:
            self.disconnect(link.db)
        with self._write_lock:
            self._drop_writer()

    def in_child(self) -> None:
        """Leave the connections of the process that was forked to it."""
        _inherited.extend(self._dbs)
        self._dbs.clear()
        self._begin_anew()


def _close_all(dbs: set[Db]) -> None:
    for db in dbs:
        db.close()


_open: weakref.WeakSet[Connections] = weakref.WeakSet()
_inherited: list[Db] = []  # kept for ever: to close them here would end the parent's sessions


def _after_fork_in_child() -> None:
    for connections in list(_open):
        connections.in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
