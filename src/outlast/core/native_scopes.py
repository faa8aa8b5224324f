"""What a journal has of each scope of a native workflow, and how far the code of the scope has come.

A native body runs on the worker's own loop, with real I/O between its steps, so the order in which its scopes go on is
not the same in each execution. The order within one scope is: its recorded outcomes are given back in the order in
which they were recorded, and nothing new begins in it while recorded outcomes are left that its code has not asked for.

A scope is a branch (`core/identity.py`). One that an adapter enters again (`replayed`) starts from its beginning: its
code is told again what is recorded, also by this very execution.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from outlast.core.effects import InBody
from outlast.core.identity import Branch, here
from outlast.core.records import Kind, Record

if TYPE_CHECKING:
    from outlast.core.pending import Pending

TIMEOUT = "/!timeout"
"""What the identity of the timer that ends a wait has behind that of the wait."""

DELIVERED = (Kind.STEP, Kind.CHILD, Kind.MESSAGE)
NOTES = (Kind.INTENT, Kind.RESOLUTION, Kind.ATTEMPT, Kind.START, Kind.ASK)


class NativeBranch(Branch):
    """A branch of a native body, in which calls are made in no fixed order: they are told apart by their content."""

    __slots__ = ()

    def call(self, name: str, key: str | None = None) -> str:
        """Return the identity of the call with this key; without a key it is known when the call is issued."""
        return "" if key is None else super().call(name, key)

    def by_content(self, name: str, content: bytes) -> str:
        """Return the identity of the next call of this name with this content: its arguments, its question."""
        if content:
            name = f"{name}~{hashlib.blake2b(content, digest_size=4).hexdigest()}"
        return super().call(name)

    def scope(self, key: str) -> Branch:
        return NativeBranch(super().scope(key).path)


class Scope:
    """What is recorded of one scope, and what its code has asked for since it began."""

    __slots__ = (
        "_free",
        "_order",
        "active",
        "asked",
        "at",
        "held",
        "issued",
        "moved",
        "notes",
        "outcomes",
        "path",
        "pause",
        "watched",
    )

    def __init__(self, path: str, at: float) -> None:
        self.path = path
        self.at = at  # when that was recorded which its code was told last
        self.outcomes: dict[str, Record] = {}
        self.notes: dict[str, list[Record]] = {}
        self.issued: set[str] = set()
        self.asked: set[str] = set()  # issued, with an outcome that is still to be given
        self.held: list[Pending] = []  # issued, and held back until the code has asked for all that is recorded
        self.active = False
        self.pause = 0  # turns of the loop until its code may be told more
        self.moved = 0.0  # by the loop's clock: when the code last asked for something or was told something
        self.watched = False  # whether it is looked after, in a while, that its code goes on
        self._order: deque[str] = deque()
        self._free: deque[str] = deque()  # asked for, and given in no order

    def add(self, record: Record) -> None:
        """Keep what was recorded of a call."""
        if record.kind in NOTES:
            self.notes.setdefault(record.key, []).append(record)
        else:
            self.outcomes[record.key.removesuffix(TIMEOUT)] = record

    def begin(self) -> None:
        """The code begins, or begins again."""
        self.issued.clear()
        self.asked.clear()
        self._free.clear()
        self._order = deque(key for key, record in self.outcomes.items() if _has_order(record))

    def left(self) -> list[Record]:
        """Return what holds back anything new: outcomes and open intents that the code has not asked for."""
        outcomes = [self.outcomes[key] for key in self._order if key not in self.issued]
        open_intents = (self.open_intent(key) for key in self.notes if key not in self.issued)
        return outcomes + [intent for intent in open_intents if intent is not None]

    def open_intent(self, key: str) -> Record | None:
        """Return the intent of a `once` attempt of which no outcome is recorded."""
        intent: Record | None = None
        for note in self.notes.get(key, ()) if key not in self.outcomes else ():
            if note.kind is Kind.INTENT:
                intent = note
            elif note.kind is Kind.ATTEMPT:
                intent = None
        return intent

    def ask(self, key: str) -> bool:
        """The code makes this call; tell whether its outcome is recorded, and so will be `next` when its turn comes."""
        self.issued.add(key)
        if key not in self.outcomes:
            return False
        self.asked.add(key)
        if not _has_order(self.outcomes[key]):
            self._free.append(key)
        return True

    def next(self) -> tuple[str, Record] | None:
        """Take the outcome that the code is to be told next, if it has asked for it."""
        if self._order and self._order[0] in self.asked:
            key = self._order.popleft()
        elif self._free:
            key = self._free.popleft()
        else:
            return None
        self.asked.discard(key)
        return key, self.outcomes[key]


def _has_order(record: Record) -> bool:
    """Tell whether the code has seen this, and has to ask for it again. (How often it sleeps may differ.)"""
    return record.kind in DELIVERED or (record.kind is Kind.TIMER and record.key.endswith(TIMEOUT))


class Scopes:
    """All scopes of a run, by their paths."""

    def __init__(self, began: float, records: Iterable[Record]) -> None:
        self._began = began
        self._all: dict[str, Scope] = {}
        for record in records:
            self.add(record)
        for scope in self._all.values():
            scope.begin()

    def add(self, record: Record) -> None:
        """Keep a record where it belongs."""
        if record.kind in (*DELIVERED, *NOTES, Kind.LATE, Kind.TIMER) and record.key:
            self.of(record.key.removesuffix(TIMEOUT).rpartition("/")[0]).add(record)

    def of(self, path: str) -> Scope:
        """Return the scope of this path."""
        scope = self._all.get(path)
        if scope is None:
            scope = self._all[path] = Scope(path, self._began)
        return scope

    def left(self) -> list[Record]:
        """Return what is recorded and was not asked for, in order."""
        return sorted((record for scope in self._all.values() for record in scope.left()), key=lambda r: r.seq)

    def enter(self, outer: Branch, key: str) -> NativeBranch:
        """Begin the scope of this key again. One that is under way is left alone: then it is another, with a number."""
        path, n = Branch(outer.path).scope(key).path, 1
        numbered = path
        while self.of(numbered).active:
            n += 1
            numbered = f"{path}#{n}"
        self.of(numbered).active = True
        self.begin(numbered)
        return NativeBranch(numbered)

    def begin(self, path: str) -> None:
        """Have the code of the scope of this path, and of those within, start from its beginning."""
        for scope in self._all.values():
            if scope.path == path or scope.path.startswith(f"{path}."):
                scope.begin()

    def leave(self, branch: Branch) -> None:
        """The code of the scope has ended."""
        self.of(branch.path).active = False


class HasScopes(Protocol):
    """The operations of a native body."""

    scopes: Scopes


@contextmanager
def replayed(key: str) -> Iterator[None]:
    """Enter a scope of a native body whose code may start again: whatever it did is then told to it from the journal.

    For adapters, whose frameworks start a part of an agent again (a node, a task). Elsewhere than in a native body it
    does nothing.
    """
    place = here.get()
    scopes: Scopes | None = getattr(place.ops, "scopes", None) if isinstance(place, InBody) else None
    if not isinstance(place, InBody) or scopes is None:
        yield
        return
    branch = scopes.enter(place.branch.current(), key)
    token = here.set(InBody(place.ops, branch))
    try:
        yield
    finally:
        here.reset(token)
        scopes.leave(branch)
