"""Hints between processes: that something was committed, so that nobody need wait for their next look at the tables.

A thread with a session of its own says so (NOTIFY) and hears it (LISTEN). What it says is never part of a transaction
that carries data: a commit that notifies takes a lock which all others want, too. It says nothing but "look", so that
any number of commits need one hint: one is on its way at most, and none follows another too closely.

What runs write to streams is told apart, on a channel that is heard only by who is just reading one: it comes often.

Only a hint: where it gets lost, or a pooler stands between, which hears for nobody, the thread finds out by asking, now
and then. So whoever wants to know whether there is news has the answer here, and never waits for the server.

The session is also a proof of life: it ends when the process dies, and the server knows at once. So it stands in the
worker's row. Where it drops without a death, this thread is the first to see it: it makes a new one and says so.
"""

from __future__ import annotations

import hashlib
import os
import select
import threading
from collections.abc import Callable
from random import Random

import psycopg
from psycopg import sql

from outlast.core.errors import StoreError
from outlast.stores.postgres.connections import ENDED, Connections, Db, Link
from outlast.stores.postgres.times import SERVER_TIME

LINGER_S = 2.0  # that the thread stays when nobody needs it any more: a store may be left open, and be forgotten
COME_BACK_S = 2.0
SECOND_LOOK_S = 0.15
# Between two questions whether there is anything new, and whose session has ended. Who hears hints shares the asking
# with all others that live: when one has died, the others together ask once in that time, at moments of their own. Who
# is alone hardly needs to ask: whoever comes says so.
ASK_S, ASK_ALONE_S, ASK_MOST_S = 0.2, 1.0, 5.0
FIRST_SESSION_S = 1.0
GAP_S = 0.005  # between two hints
UNHEARD_S = 0.02  # between two looks at streams where no hints are heard
AGAIN_S = 0.5  # until the next try where the server is away

# What a session locks as long as it lasts. To try such a lock costs the server next to nothing, where the table of its
# sessions is copied as a whole for whoever asks about one; so that one is asked only about those whose locks are free.
LOCK = "hashtext('outlast session'), hashtext({session})"
# (Its own lock is free to each session.)
UNLOCKED = f"session NOT IN ('', {{mine}}) AND pg_try_advisory_xact_lock_shared({LOCK.format(session='session')})"
NEWS = (
    f"SELECT pg_current_snapshot()::text, {SERVER_TIME}, count(*), array_agg(id) FILTER (WHERE {{over}}) "
    "FROM {schema}.workers WHERE state = 'alive'"
)


class Hints:
    """See the top of this file. `heard` counts the hints of others."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._random = Random()
        self._channel = f"outlast_{hashlib.sha256(connections.address.schema.encode()).hexdigest()[:16]}"
        self._streams = f"{self._channel}_streams"
        self.listener: Callable[[], None] | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = (-1, -1)  # a pipe, while there is a thread
        self._needed = 0.0  # when it was, by the boot clock
        self._wants_to_say: set[str] = set()  # on which channels
        self._streams_wanted = -LINGER_S  # when somebody last asked whether streams have news, by the boot clock
        self._hears_streams = False
        self.heard_streams = 0
        self._stop = threading.Event()
        self.heard = 0
        self.snapshot = ""  # of the server's transactions, while no hints are heard
        self._ask_s = ASK_S
        self._alone = False  # as far as it knows, no worker lives, or one
        self._ended: frozenset[str] = frozenset()  # workers whose sessions seemed to have ended when it asked last
        self._cut_off: frozenset[str] = frozenset()  # and the time before, too
        self.listening = False
        self.session = ""  # in which it listens
        self.since = 0.0  # the boot clock when that began
        self.drops = 0  # how often that has ended without being asked to
        self._worker = ""  # whose proof of life it is
        self._ready = threading.Event()  # it has, or has tried to have, a session

    # -- from any thread -----------------------------------------------------------

    def say(self, *, streams: bool = False) -> None:
        """Let other processes look, soon; or those that read streams."""
        self.start(say=self._streams if streams else self._channel)

    def stream_change(self) -> int:
        """Return a number that differs when streams may have news. Where no hints are heard, that is every moment."""
        now = self._connections.times.boot()
        self._streams_wanted = now
        self.start()
        if not self._hears_streams:
            return hash((self.heard, self.heard_streams, now // UNHEARD_S))
        return hash((self.heard, self.heard_streams, self.snapshot))

    def start(self, *, say: str = "") -> None:
        """Hear and say from now on, for a while."""
        if self._pid != os.getpid():  # a child of the process that the thread is in
            self._begin_anew()
        with self._lock:
            self._needed = self._connections.times.boot()
            if self._thread is None and not self._stop.is_set():
                self._wake = os.pipe()
                self._thread = threading.Thread(target=self._run, name="outlast-hints", daemon=True)
                self._thread.start()
            if say and say not in self._wants_to_say and self._thread is not None:
                self._wants_to_say.add(say)
                os.write(self._wake[1], b".")

    def work_for(self, worker: str) -> None:
        """Let the session stand for a worker from now on; waits a moment for it to be there."""
        self.start()
        self._worker = worker
        self._ready.wait(FIRST_SESSION_S)

    def cut_off(self) -> frozenset[str]:
        """Return, once, the workers whose sessions have ended and did not come back, seen in two looks.

        What has cut off this process may have cut off others, so they, too, get the time to come back.
        """
        found, self._cut_off = self._cut_off, frozenset()
        judges = self.listening and self._connections.times.boot() >= self.since + COME_BACK_S
        return found if judges else frozenset()

    def close(self) -> None:
        """End the thread, once it has said what it was asked to."""
        if self._pid != os.getpid():
            return
        with self._lock:
            thread = self._thread
            self._stop.set()
            if thread is not None:
                os.write(self._wake[1], b".")
        if thread is not None:
            thread.join()

    # -- the thread ------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_over():
            try:
                link = self._connections.connect()
                try:
                    self._serve(link)
                finally:
                    self._connections.disconnect(link.db)
            except (StoreError, psycopg.Error, OSError):
                self._ready.set()
                if not self.session:  # else it was there, and is made again at once
                    self._stop.wait(AGAIN_S)
            self._hears_streams = False
            if self.session:
                self.session, self.listening = "", False
                self.drops += 1

    def _is_over(self) -> bool:
        """End the thread if the store is closed, or if nobody has needed it since it was asked last."""
        with self._lock:
            over = self._stop.is_set() or self._is_idle()
            if over:
                self._thread = None
                for end in self._wake:
                    os.close(end)
            return over

    def _is_idle(self) -> bool:
        return not self._worker and self._connections.times.boot() > self._needed + LINGER_S

    def _serve(self, link: Link) -> None:
        db = link.db
        if link.session:
            db.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            # (Where another's session has the same hash, the death of either is told by the end of its lease.)
            db.execute(f"SELECT pg_try_advisory_lock({LOCK.format(session='%s')})".encode(), (link.session,))
            self.session, self.since = link.session, self._connections.times.boot()
            self.listening = True
            self.heard += 1  # what was told until now nobody has heard
            self._call()
            workers = sql.Identifier(self._connections.address.schema, "workers")
            this = sql.SQL("UPDATE {} SET session = %s WHERE id = %s AND state = 'alive'").format(workers)
            if self._worker:
                db.execute(this, (self.session, self._worker))
        self._ready.set()
        boot, asked = self._connections.times.boot, -ASK_S
        poll = select.poll()  # select() knows only the first thousand files of a process
        for file in (db.pgconn.socket, self._wake[0]):
            poll.register(file, select.POLLIN)
        while True:
            if self._wants_to_say:
                with self._lock:
                    channels, self._wants_to_say = self._wants_to_say, set()
                for channel in sorted(channels):
                    db.execute("SELECT pg_notify(%s, '')", (channel,))
                self._stop.wait(GAP_S)
                self._hear(db)
                continue
            if link.session:
                self._listen_to_streams(db)
            if self._stop.is_set() or self._is_idle():
                return
            rest = asked + (SECOND_LOOK_S if self._ended else self._ask_s) - boot()
            if rest <= 0:
                asked = boot()
                self._ask(db)
                continue
            if self._wake[0] in dict(poll.poll(rest * 1000)):
                os.read(self._wake[0], 4096)
            self._hear(db)

    def _ask(self, db: Db) -> None:
        """Ask what the last transactions are, and whose session has ended; no transaction is needed for that."""
        times = self._connections.times
        asked = times.boot()
        over = ENDED if self._ended else UNLOCKED.format(mine=f"'{self.session}'")
        news = NEWS.format(schema=self._connections.address.quoted_schema, over=over)
        ((snapshot, now, alive, ended),) = db.execute(news.encode()).fetchall()
        times.heard(asked, now)
        self._cut_off, self._ended = self._ended.intersection(ended or ()), frozenset(ended or ())
        self._alone = self.listening and alive <= 1
        together = min(ASK_S * (alive - 1), ASK_MOST_S)
        shared = max(ASK_S, together * self._random.uniform(0.5, 1.5))
        self._ask_s = ASK_ALONE_S if self._alone else shared if self.listening else ASK_S
        untold = not self.listening and snapshot != self.snapshot
        if untold:
            self.snapshot = snapshot
        if untold or self._cut_off:
            self._call()

    def _hear(self, db: Db) -> None:
        others = {notice.channel for notice in db.notifies(timeout=0) if notice.pid != db.info.backend_pid}
        if self._streams in others:
            self.heard_streams += 1
        if self._channel in others:
            self.heard += 1
            if self._alone:
                self._ask_s = ASK_S
            self._call()

    def _listen_to_streams(self, db: Db) -> None:
        """Listen to what is told of streams while somebody wants to know, and a while after that."""
        wanted = self._connections.times.boot() < self._streams_wanted + LINGER_S
        if wanted != self._hears_streams:
            this = sql.SQL("LISTEN {}" if wanted else "UNLISTEN {}").format(sql.Identifier(self._streams))
            db.execute(this)
            self._hears_streams = wanted

    def _call(self) -> None:
        if self.listener is not None:
            self.listener()
