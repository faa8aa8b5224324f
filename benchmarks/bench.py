"""What a measure is given: how often and how large to measure, where stores are, and the yardsticks for them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from benchmarks import bare_sqlite, processes
from benchmarks.figures import Row, Series


class Ground(Protocol):
    """A kind of store to measure on: SQLite now; PostgreSQL is to come under the same measures."""

    name: str

    def store(self) -> str:
        """Return the URL of a new, empty store."""
        ...

    def bare(self, rows: int, rows_per_commit: int) -> dict[str, float]:
        """Return `seconds` and `commit_s` of a loop that writes the same rows and does nothing else."""
        ...

    def dbos(self, runs: int, steps: int) -> float:
        """Return the runs per second of DBOS at its best."""
        ...


class Sqlite:
    """Files in one folder, which should be on a real disk: on a tmpfs a commit costs nothing."""

    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = itertools.count(1)

    def store(self) -> str:
        return f"sqlite:///{quote(self._path())}"

    def bare(self, rows: int, rows_per_commit: int) -> dict[str, float]:
        found = processes.call(bare_sqlite.insert, path=self._path(), rows=rows, rows_per_commit=rows_per_commit)
        return dict(found)

    def dbos(self, runs: int, steps: int) -> float:
        faces = ("on_threads", "on_asyncio")  # named, so that only their process imports DBOS
        took = [
            processes.call(f"benchmarks.peer_dbos:{face}", path=self._path(), runs=runs, steps=steps) for face in faces
        ]
        return runs / float(min(took))

    def _path(self) -> str:
        return str(self._folder / f"{next(self._count)}.db")


@dataclass
class Bench:
    """The settings of one run of the benchmarks, and what it has found so far."""

    ground: Ground
    repeats: int = 5
    quick: bool = False
    peers: bool = True
    load_before: tuple[float, float, float] = field(default_factory=os.getloadavg)
    load_after: dict[str, float] = field(default_factory=dict)  # by measure
    rows: list[Row] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)

    def size(self, full: int, quick: int) -> int:
        """Return how large this run measures something."""
        return quick if self.quick else full


Measure = Callable[[Bench], Iterator[Row | Series]]
