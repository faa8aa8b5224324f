"""A scene whose store is a PostgreSQL database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from outlast.core.errors import StoreError
from outlast.runtime.clock import SystemClock
from outlast.stores.postgres import PostgresStore
from tests.crash.harness.scene import DEADLINE_S, Scene, Zygote


class Fleet(Scene):
    """Workers and clients reach the store by `url`, the test itself by `looks_by`: it sees what is, whatever is cut."""

    blur_s = 0.5  # a journal has the earliest that the server's clock can be

    def __init__(self, zygote: Zygote, folder: Path, url: str, looks_by: str | None = None, **defaults: Any) -> None:
        super().__init__(zygote, folder, **defaults)
        self.url = url
        self.looks_by = looks_by or url

    @cached_property
    def store(self) -> PostgresStore:  # type: ignore[override]
        """The store itself, opened by the test's own process."""
        return PostgresStore(self.looks_by, SystemClock())

    def until(self, what: str, holds: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
        """Poll until `holds()` is true, and return what it says; a store that is away may come back."""

        def holds_now() -> Any:
            try:
                return holds()
            except StoreError:
                return False

        return super().until(what, holds_now, deadline_s)

    def repeats(self) -> list[str]:
        """Return which attempts of which steps left more than one line in the ledger."""
        counts = Counter((line.run, line.step, line.attempt) for line in self.ledger)
        return [f"{step} of {run} was done {n} times" for (run, step, _), n in counts.items() if n > 1]
