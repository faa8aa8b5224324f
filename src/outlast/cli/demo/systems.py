"""The outside world: the model, the payment system and the ticket system, each a real HTTP server with a ledger.

`python -m outlast.cli.demo.systems NAME LEDGER`

A ledger is a file of JSON lines, appended and synced before anybody gets an answer: it is what counts in the end.
The parent can have the next request for an order **held**, before it is booked or after: the server then says nothing
until the client is gone. So a kill can land at a known place.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

from outlast.cli.demo.lifeline import follow_parent, tell

ADJECTIVES = ("brisk", "calm", "deft", "eager", "frank", "keen", "mild", "plain", "quick", "sober", "terse", "wry")
NOUNS = ("badger", "crane", "finch", "heron", "lynx", "marten", "newt", "otter", "puffin", "stoat", "tern", "wren")
PRICES = {"lamp": 4990}


class System:
    """A ledger, and the requests that are to be held."""

    kept = "entries"  # the name of what its ledger keeps, as in the paths

    def __init__(self, ledger: Path) -> None:
        self._file = ledger.open("a")
        self._lock = threading.Lock()
        self._holds: dict[str, str] = {}
        self.entries: list[dict[str, Any]] = []

    def obey(self, command: dict[str, Any]) -> None:
        """Take a command of the parent: hold the next request for this order, `before` or `after` it is booked."""
        self._holds[command["order"]] = command["when"]
        tell("will_hold", **command)

    def hold_of(self, order: str) -> str:
        """Return when the request for this order is held, and forget it."""
        return self._holds.pop(order, "")

    def book(self, body: dict[str, Any], key: str) -> dict[str, Any]:
        """Enter a request into the ledger and return what is answered."""
        with self._lock:
            entry = self.earlier(key)
            if entry is None:
                entry = {**self.entry(body, len(self.entries) + 1), "order": body["order"], "key": key}
                self._append(entry)
        tell("booked", order=body["order"], id=entry["id"])
        return entry

    def _append(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.entries.append(entry)

    def entry(self, body: dict[str, Any], number: int) -> dict[str, Any]:
        """Make the entry for a request."""
        raise NotImplementedError

    def earlier(self, key: str) -> dict[str, Any] | None:
        """Return the entry that a request with this key is answered with, instead of a new one."""
        return None

    def look_up(self, kept: str, name: str) -> dict[str, Any] | None:
        """Return what a GET finds."""
        return None


class Model(System):
    """Answers with other words at every call, like a model at a temperature above zero."""

    kept = "answers"

    def entry(self, body: dict[str, Any], number: int) -> dict[str, Any]:
        words = f"{random.choice(ADJECTIVES)} {random.choice(NOUNS)} {number}"  # numbered: no two agree by chance
        return {"id": f"answer-{number}", "purpose": body["purpose"], "words": words}


class Payments(System):
    """Books every charge it is asked for, and can say what it booked under a key."""

    kept = "charges"

    def entry(self, body: dict[str, Any], number: int) -> dict[str, Any]:
        return {"id": f"charge-{number}", "card": body["card"], "cents": body["cents"]}

    def look_up(self, kept: str, name: str) -> dict[str, Any] | None:
        found = next((entry for entry in self.entries if entry["key"] == name), None) if kept == self.kept else None
        tell("looked_up", key=name, found=found is not None)
        return found


class Tickets(System):
    """Opens one ticket per key, and knows what is in stock."""

    kept = "tickets"

    def entry(self, body: dict[str, Any], number: int) -> dict[str, Any]:
        return {"id": f"ticket-{number}", "text": body["text"]}

    def earlier(self, key: str) -> dict[str, Any] | None:
        return next((entry for entry in self.entries if key and entry["key"] == key), None)

    def look_up(self, kept: str, name: str) -> dict[str, Any] | None:
        return {"cents": PRICES[name]} if kept == "stock" and name in PRICES else None


class Handler(BaseHTTPRequestHandler):
    """The HTTP side of a system."""

    system: System

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != f"/{self.system.kept}":
            self._answer(404, {})
            return
        order, hold = body["order"], self.system.hold_of(body["order"])
        if hold == "before":
            self._wait_until_client_is_gone(order, hold)
            return
        entry = self.system.book(body, self.headers.get("Idempotency-Key", ""))
        if hold == "after":
            self._wait_until_client_is_gone(order, hold)
            return
        self._answer(200, entry)

    def do_GET(self) -> None:
        _, kept, name = f"{self.path}//".split("/", 3)[:3]
        found = self.system.look_up(kept, name)
        self._answer(404 if found is None else 200, found or {})

    def _wait_until_client_is_gone(self, order: str, when: str) -> None:
        tell("held", order=order, when=when)
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.recv(1)  # a client that lives sends no more: this returns when its end is closed

    def _answer(self, status: int, found: dict[str, Any]) -> None:
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: the ledger is the log."""


class Server(ThreadingTCPServer):
    """Not `HTTPServer`, which asks the resolver for this machine's name."""

    allow_reuse_address = True
    daemon_threads = True


KINDS: dict[str, type[System]] = {"model": Model, "payments": Payments, "tickets": Tickets}


def serve(name: str, ledger: Path) -> None:
    """Serve one system until the parent is gone."""
    Handler.system = KINDS[name](ledger)
    with Server(("127.0.0.1", 0), Handler) as server:
        follow_parent(Handler.system.obey)
        tell("ready", address=f"http://127.0.0.1:{server.server_address[1]}")
        server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]))
