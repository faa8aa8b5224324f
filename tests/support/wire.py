"""A wire that tests cut: a TCP proxy before a PostgreSQL server.

What goes over a connection is a sequence of **flights**: all that one side sends until the other side speaks. A test
says what happens to the n-th request, or to the answer to it, on the connections that are open by then (those of
`Hints`, which come and go by the clock, are left alone), and the wire says whether it came to that. So a test can go
through a verb request by request, until there is none left: before COMMIT is sent is among them, and after it is
applied, without anybody having to know where.
"""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from enum import StrEnum
from types import TracebackType

from outlast.stores.postgres.address import parse

LISTENERS = (b"LISTEN", b"pg_notify")


class Cut(StrEnum):
    """What happens to a request, or to its answer."""

    REQUEST_LOST = "the connection breaks before the request arrives"
    ANSWER_LOST = "the connection breaks after the request is answered, and the answer does not arrive"
    ANSWER_HALVED = "the connection breaks in the middle of the answer"
    REQUEST_SWALLOWED = "the request never arrives, and nothing is closed"
    ANSWER_SWALLOWED = "the answer never arrives, and nothing is closed"


SILENT = (Cut.REQUEST_SWALLOWED, Cut.ANSWER_SWALLOWED)


class _Pair:
    """One connection: the client's socket, the server's, and who spoke last."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.from_client = False
        self.listens = False
        self.counted = False
        self.flights = 0
        self.heard = b""  # from the client
        self.swallows: set[socket.socket] = set()  # whose words go nowhere
        self.cuts_answer: Cut | None = None


class Wire:
    """The proxy. `port` is where clients connect to; `target` is (host, port), or the path of a socket.

    One that is narrow takes little at a time.
    """

    def __init__(self, target: tuple[str, int] | str, *, narrow: bool = False) -> None:
        self.target = target
        self.struck = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._most = 2_048 if narrow else 1 << 16
        if narrow:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._most)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._lock = threading.Lock()  # the plan, and the pairs
        self._pairs: dict[socket.socket, _Pair] = {}
        self._cut: Cut | None = None
        self._at: int | bytes = 0
        self._counts_new = False
        self._then_refuses = False
        self._half_open: list[socket.socket] = []  # servers' ends of connections whose clients have hung up
        self._refuses = False
        self._forgets = False
        self._over = False
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
        self._thread.start()

    @classmethod
    def to(cls, url: str, *, narrow: bool = False) -> Wire:
        """Return a wire to the server of a URL."""
        given = parse(url).libpq
        host, port = str(given.get("host") or "localhost"), int(given.get("port") or 5432)
        return cls(f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port), narrow=narrow)

    def url(self, url: str, **options: object) -> str:
        """Return a URL of the server by way of this wire, with more options."""
        place, _, query = url.partition("?")
        scheme, _, rest = place.partition("://")
        user, _, name = rest.partition("@") if "@" in rest else ("", "", rest)
        kept = [o for o in query.split("&") if o and o.partition("=")[0] not in ("host", "port", *options)]
        more = [f"{name}={value}" for name, value in {"sslmode": "disable", "gssencmode": "disable", **options}.items()]
        at = f"{user}@" if user else ""
        return f"{scheme}://{at}127.0.0.1:{self.port}/{name.partition('/')[2]}?{'&'.join(kept + more)}"

    # -- what happens ----------------------------------------------------------------

    def cut_at(self, cut: Cut, at: int | bytes, *, new: bool = False, refuse: bool = False) -> None:
        """Cut at the n-th request (from 1), or at one that holds these bytes, of those that are connected by now.

        With `new`, of those to come, too. With `refuse` nobody is connected any more after it.
        """
        with self._lock:
            self.struck.clear()
            self._cut, self._at, self._counts_new, self._then_refuses = cut, at, new, refuse
            for pair in self._pairs.values():
                pair.counted, pair.flights, pair.from_client = not pair.listens, 0, False

    def heal(self) -> None:
        """Let everything pass from now on."""
        with self._lock:
            self._cut, self._refuses, self._forgets = None, False, False
            for pair in self._pairs.values():
                pair.cuts_answer = None  # whose answer has yet to come

    def break_all(self, *, refuse: bool = False) -> None:
        """Break every connection; with `refuse` new ones, too, until it is healed."""
        with self._lock:
            self._refuses = refuse
            for pair in set(self._pairs.values()):
                self._drop(pair)

    def forget_all(self, *, refuse: bool = False) -> None:
        """Do as a firewall that forgets: what is sent over the connections there are goes nowhere, and none is closed.

        With `refuse` new ones are forgotten, too, until it is healed.
        """
        with self._lock:
            while self._half_open:  # of an earlier time; in the end a server, too, notices
                self._half_open.pop().close()
            self._forgets = refuse
            for pair in set(self._pairs.values()):
                pair.swallows |= {pair.client, pair.server}

    def close(self) -> None:
        """End it."""
        self._over = True
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self.break_all()
        for side in (self._listener, *self._half_open):
            side.close()
        self._selector.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def heard(self) -> dict[int, bytes]:
        """Return what each connection there is has carried from its client, by the client's port."""
        with self._lock:
            return {pair.client.getpeername()[1]: pair.heard for pair in set(self._pairs.values())}

    # -- the thread --------------------------------------------------------------------

    def _run(self) -> None:
        while not self._over:
            for key, _ in self._selector.select():
                with self._lock:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._pairs:
                        self._carry(key.fileobj, self._pairs[key.fileobj])

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if self._refuses or self._over:
            client.close()
            return
        server = socket.socket(socket.AF_UNIX if isinstance(self.target, str) else socket.AF_INET)
        try:
            server.connect(self.target)
        except OSError:
            client.close()
            server.close()
            return
        pair = _Pair(client, server)
        pair.counted = self._cut is not None and self._counts_new
        if self._forgets:
            pair.swallows = {client, server}
        for side in (client, server):
            side.settimeout(5.0)
            if side.family != socket.AF_UNIX:
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs[side] = pair
            self._selector.register(side, selectors.EVENT_READ)

    def _carry(self, side: socket.socket, pair: _Pair) -> None:
        try:
            data = side.recv(self._most)
        except OSError:
            data = b""
        if side in pair.swallows:
            if not data:
                self._hang_up(pair, side)
            return
        if not data:
            self._drop(pair)
            return
        if side is pair.client:
            pair.heard += data
        with suppress(OSError):
            if side is pair.client:
                self._request(pair, data)
            else:
                self._answer(pair, data)

    def _request(self, pair: _Pair, data: bytes) -> None:
        pair.listens = pair.listens or any(word in data for word in LISTENERS)
        if not pair.from_client:
            pair.from_client = True
            pair.flights += 1
        here = self._at in data if isinstance(self._at, bytes) else pair.flights == self._at
        strikes = pair.counted and not pair.listens and self._cut is not None and here
        match self._cut if strikes else None:
            case Cut.REQUEST_LOST:
                self._strike()
                self._drop(pair)
                return
            case Cut.REQUEST_SWALLOWED:
                self._strike()
                pair.swallows |= {pair.client, pair.server}
                return
            case None:
                pass
            case cut:
                pair.cuts_answer = cut
        pair.server.sendall(data)

    def _answer(self, pair: _Pair, data: bytes) -> None:
        pair.from_client = False
        match pair.cuts_answer:
            case Cut.ANSWER_SWALLOWED:
                self._strike()
                pair.swallows |= {pair.client, pair.server}
            case None:
                pair.client.sendall(data)
            case cut:
                self._strike()
                if cut is Cut.ANSWER_HALVED:
                    pair.client.sendall(data[: len(data) // 2])
                self._drop(pair)

    def _strike(self) -> None:
        self._cut = None
        self._refuses = self._then_refuses
        for pair in self._pairs.values():
            pair.cuts_answer = None
        self.struck.set()

    def _drop(self, pair: _Pair) -> None:
        for side in (pair.client, pair.server):
            self._unwatch(side)
            side.close()

    def _hang_up(self, pair: _Pair, side: socket.socket) -> None:
        """One end of a connection that is half open was closed: the other is never told."""
        self._unwatch(side)
        side.close()
        if side is pair.client:
            self._unwatch(pair.server)
            self._half_open.append(pair.server)

    def _unwatch(self, side: socket.socket) -> None:
        if self._pairs.pop(side, None) is not None:
            self._selector.unregister(side)
