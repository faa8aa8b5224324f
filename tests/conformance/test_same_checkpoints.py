"""The verbs of checkpoints in any order give the same answers on every store, as `test_same_answers` has all verbs."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import initialize, rule

from outlast.core.records import WorkerRow
from outlast.core.transitions import Status
from outlast.stores.protocol import Store
from outlast.stores.sqlite import SqliteStore
from outlast.stores.verbs import Finish, Register, StartRun
from tests.conformance.random_checkpoints import RandomCheckpoints
from tests.conformance.test_same_answers import RANDOM
from tests.conformance.two_sides import NAMES
from tests.support.postgres import empty_store_url, open_with_given_times


class SameCheckpoints(RandomCheckpoints):
    """Checkpoints, and a run that owns the thread of its id until it ends."""

    @initialize()
    def a_run_is_running(self) -> None:
        worker = self._worker(1)
        self.batch += [
            Register(worker=WorkerRow(id=worker, pid=1), lease_s=30.0),
            StartRun(run=self._new(NAMES[0], "flow", b""), claim_by=worker),
        ]
        self.commit(0)

    @rule()
    def the_run_ends(self) -> None:
        run = self._run(0)
        self.batch.append(Finish(**self._owner(run, 1, 0), status=Status.SUCCEEDED, last_seq=0))


class SqliteCheckpoints(SameCheckpoints):
    """A file."""

    def open_faces(self) -> list[Store]:
        return [SqliteStore(str(self.folder / "test.db"), self.clock) for _ in range(2)]


class PostgresCheckpoints(SameCheckpoints):
    """A schema of the session's server."""

    def open_faces(self) -> list[Store]:
        url = empty_store_url()
        return [open_with_given_times(url, self.clock) for _ in range(2)]


TestSqliteCheckpoints = SqliteCheckpoints.TestCase
TestPostgresCheckpoints = PostgresCheckpoints.TestCase
TestSqliteCheckpoints.settings = settings(RANDOM, max_examples=60)
TestPostgresCheckpoints.settings = settings(RANDOM, max_examples=20)
