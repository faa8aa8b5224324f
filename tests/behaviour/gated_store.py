"""A store between the runtime and the real one, where a test can hold commits up, or have them fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from outlast.core.errors import StoreUnavailable
from outlast.stores.protocol import Store
from outlast.stores.verbs import Answer, Verb


class Gate:
    """What the test holds in its hand: it outlives the Apps that it opens and closes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: Callable[[Verb], bool] = lambda _: False
        self._failing: Callable[[Sequence[Verb]], str] = lambda _: ""
        self.waiting = 0
        self.committed: list[Verb] = []

    def hold(self, *kinds: type[Verb]) -> None:
        """Let no batch pass that holds a verb of these kinds."""
        self.hold_where(lambda verb: isinstance(verb, kinds))

    def hold_worker(self, worker: str) -> None:
        """Let nothing of this worker pass: its process might as well be frozen."""
        self.hold_where(lambda verb: getattr(verb, "worker", None) == worker)

    def hold_where(self, held: Callable[[Verb], bool]) -> None:
        """Let no batch pass that holds such a verb."""
        with self._changed:
            self._held = held

    def release(self) -> None:
        """Let all pass."""
        with self._changed:
            self._held = lambda _: False
            self._changed.notify_all()

    def fail(self, failing: Callable[[Sequence[Verb]], str]) -> None:
        """Have `failing(verbs)` judge each batch: "" passes, "before" fails, "after" commits and loses the answer."""
        self._failing = failing

    def transact(self, store: Store, verbs: Sequence[Verb]) -> list[Answer]:
        """Commit a batch, or what the test makes of it. Called in the writer's thread."""
        with self._changed:
            self.waiting += 1
            passes = self._changed.wait_for(lambda: not any(map(self._held, verbs)), 15)
            self.waiting -= 1
            assert passes, "nobody let this commit pass"
        fault = self._failing(verbs)
        if fault == "before":
            raise StoreUnavailable("the test has taken the store away")
        answers = store.transact(verbs)
        self.committed += verbs
        if fault == "after":
            raise StoreUnavailable("the test has lost the answer")
        return answers


class GatedStore:
    """A store whose commits go through a gate."""

    def __init__(self, store: Store, gate: Gate) -> None:
        self._store = store
        self._gate = gate

    def transact(self, verbs: Sequence[Verb]) -> list[Answer]:
        """See Gate."""
        return self._gate.transact(self._store, verbs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
