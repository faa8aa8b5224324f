"""A wire to PostgreSQL that cuts itself around a COMMIT."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

COMMIT = b"COMMIT"


class Wire:
    """Forwards connections to a server. Of the COMMITs it cuts so many as `times`, then all goes through.

    `cut` is "before" (the server never sees it) or "after" (the answer is lost).
    """

    def __init__(self, url: str, cut: str, times: int = 1) -> None:
        given = conninfo_to_dict(url)
        self._server = str(given.get("host") or "localhost"), int(given.get("port") or 5432)
        self._cut, self.left = cut, times
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        others = {name: value for name, value in given.items() if name not in ("host", "port", "dbname")}
        options = "&".join(f"{name}={quote(str(value))}" for name, value in others.items())
        port = self._listener.getsockname()[1]
        self.url = f"postgresql://127.0.0.1:{port}/{given.get('dbname')}?sslmode=disable&gssencmode=disable&{options}"
        threading.Thread(target=self._accept, name="wire", daemon=True).start()

    def cut_all(self) -> None:
        """Cut every connection that is open; new ones can be made."""
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open.clear()

    def close(self) -> None:
        """Cut all, for good."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    def _connect(self) -> socket.socket:
        host, port = self._server
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = self._connect()
                self._open += [client, server]
                cut = threading.Event()
                for source, target in ((client, server), (server, client)):
                    threading.Thread(
                        target=self._forward, args=(source, target, client, cut), name="wire", daemon=True
                    ).start()

    def _forward(
        self, source: socket.socket, target: socket.socket, client: socket.socket, cut: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if source is not client and cut.is_set():
                    break  # this was the answer to COMMIT
                if source is client and COMMIT in data and self._take():
                    cut.set()
                    if self._cut == "before":
                        break
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _take(self) -> bool:
        """Tell whether this COMMIT is one to cut."""
        with self._lock:
            self.left -= 1
            return self.left >= 0
