"""What an idle or busy worker asks costs the same with any number of runs that it has nothing to do with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast.core.transitions import Status
from outlast.stores.checkpoint_verbs import (
    CheckpointFilter,
    CopyThread,
    DeleteOrigins,
    DeleteThread,
    PendingWrite,
    PruneThread,
    PutWrites,
)
from outlast.stores.protocol import RunFilter
from outlast.stores.sqlite import SqliteStore
from outlast.stores.verbs import Beat, Claim, Claimed, Done
from tests.conformance.world import SetClock, World, finish, message, park, record, write
from tests.support.scenes_of_verbs import checkpoint

CROWD = 100_000
FEW_STEPS = 400  # of SQLite's machine, for one statement; walking over the crowd takes millions


class Seen:
    """The statements that connections run, with what they cost."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int, int]] = []

    def watch(self, db: apsw.Connection) -> None:
        db.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._ran)

    def _ran(self, event: dict[str, Any]) -> None:
        cost = event["stmt_status"]
        steps, scans = cost["SQLITE_STMTSTATUS_VM_STEP"], cost["SQLITE_STMTSTATUS_FULLSCAN_STEP"]
        self.steps.append((event["sql"], steps, scans))

    def expensive(self) -> list[tuple[str, int, int]]:
        """Return the statements that did more than a few steps, or walked over a table."""
        return [seen for seen in self.steps if seen[1] > FEW_STEPS or seen[2] > 20]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with 100,000 runs that are parked, and as many that have ended."""
    path = tmp_path_factory.mktemp("crowd") / "agent.db"
    SqliteStore(str(path), SetClock()).close()
    db = apsw.Connection(str(path))
    db.execute("PRAGMA synchronous = OFF")
    insert = (
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
        "INSERT INTO runs (id, incarnation, workflow, definition, is_step, options, status, due, ended, started, "
        "parent_key, forks, created, python, version, claim) "
        "SELECT ? || i, 'inc' || i, 'flow', '', 0, '{}', ?, ?, ?, 1.0, '', '[]', 1.0, '', '', 1 FROM n"
    )
    far = SetClock().wall() + 1e6
    db.execute("BEGIN")
    db.execute(insert, (CROWD // 2, "parked", "waiting", None, None))
    db.execute(insert, (CROWD // 2, "asleep", "waiting", far, None))
    db.execute(insert, (CROWD, "ended", "succeeded", None, 2.0))
    db.execute(
        "INSERT INTO inbox (run, kind, key, message_id, ok, created) "
        "SELECT pk, 'message', '', 'm', 1, 0 FROM runs WHERE status = 'waiting' LIMIT 20000"
    )
    db.execute("UPDATE runs SET queue = 'q', queue_key = 'k' || (pk % 4) WHERE pk % 2 = 0")
    db.execute("INSERT INTO queues (name, limits) VALUES ('q', ?)", ('{"concurrency": 5, "rate": 100, "per": 60.0}',))
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) "
    db.execute(
        f"{numbers} INSERT INTO checkpoints (thread, ns, id, type, data, versions, labels, origin) "
        "SELECT 't' || (i % 100), '', 'c' || i, '', x'', '{}', '{}', 'run' || (i % 1000) FROM n"
    )
    db.execute(f"{numbers} INSERT INTO channel_values SELECT 't' || (i % 100), '', 'x', i, '', x'', '' FROM n")
    db.execute("INSERT INTO checkpoint_writes SELECT pk, 'task', 0, 'x', '', x'', '' FROM checkpoints")
    db.execute("COMMIT")
    db.close()
    return path


@pytest.fixture
def seen() -> Iterator[Seen]:
    seen = Seen()
    apsw.connection_hooks.append(seen.watch)
    yield seen
    apsw.connection_hooks.remove(seen.watch)


@pytest.fixture
def world(seen: Seen, crowded: Path) -> Iterator[World]:
    clock = SetClock()
    world = World(SqliteStore(str(crowded), clock), clock)
    yield world
    world.store.close()


def test_parked_runs_cost_an_idle_worker_nothing(world: World, seen: Seen) -> None:
    world.worker("idle")
    for _ in range(3):
        world.store.change()
        assert world.do(Claim(worker="idle", workflows=("flow", "other"), limit=100)) == Claimed(())
        assert world.store.next_due(("flow", "other")) is not None
        assert world.store.owned("idle") == []
        assert world.store.inbox("idle") == []
        assert world.store.owners() == {}
        assert world.store.orphans() == []
        assert world.store.survey(("flow", "other")).orphans == []
        world.do(Beat(worker="idle", lease_s=30.0))
    assert len(seen.steps) > 20
    assert seen.expensive() == []


def test_parked_runs_cost_a_worker_of_their_queue_nothing(world: World, seen: Seen) -> None:
    world.worker("idle")
    claim = Claim(worker="idle", workflows=("flow", "other"), limit=100, queues=("q",))
    for _ in range(3):
        assert world.do(claim) == Claimed(())
        assert world.store.next_due(("flow", "other"), ("q",), "idle") is not None
    world.start("of the queue", queue="q", queue_key="k0")
    answer = world.do(claim)
    assert isinstance(answer, Claimed)
    assert [run.id for run in answer.runs] == ["of the queue"]
    world.do(finish(answer.runs[0]))
    assert seen.expensive() == []


def test_a_crowd_costs_a_working_worker_nothing(world: World, seen: Seen) -> None:
    world.worker("busy")
    parent = world.running("parent", "busy")
    run = world.running("mine", "busy", parent=parent.pk, parent_key="k")
    world.do(message("mine"))
    (row,) = world.store.inbox("busy")
    world.do(write(run, record(1), record(2), consumes=(row.id,)))
    world.do(park(run, due=world.clock.wall()))
    (run,) = world.claim("busy")
    assert world.do(finish(run, last_seq=2)) == Done((parent.pk,))
    world.store.load([run.pk])
    assert [ended.pk for ended in world.store.ended([run.pk, parent.pk])] == [run.pk]
    assert world.store.run("mine") is not None
    world.do(finish(parent))
    assert seen.expensive() == []


def test_a_page_of_a_listing_costs_a_page(world: World, seen: Seen) -> None:
    for wanted in (
        RunFilter(statuses=(Status.WAITING,)),
        RunFilter(statuses=(Status.STUCK, Status.FAILED)),
        RunFilter(id_prefix="parked777"),
        RunFilter(owner="nobody"),
        RunFilter(parent=5),
        RunFilter(),
    ):
        world.store.runs(wanted, limit=10)
    lists = [row for row in seen.steps if "FROM runs" in row[0] and "LIMIT" in row[0]]
    assert len(lists) == 6
    assert [row for row in lists if row[1] > 5_000] == []


def test_a_crowd_of_checkpoints_costs_a_thread_nothing(world: World, seen: Seen) -> None:
    world.do(checkpoint("c1"))
    assert world.do(checkpoint("c2", "c1")) == Done()
    write = PendingWrite("task", 0, "x", "", b"")
    assert world.do(PutWrites(thread="t", ns="", checkpoint="c2", writes=(write,))) == Done()
    assert world.store.checkpoint("t", "", "c1") is not None
    assert world.store.checkpoint("t7", "") is not None
    assert len(world.store.checkpoints(CheckpointFilter(thread="t7", ns=""), limit=10)) == 10
    world.do(CopyThread(source="t", target="new"))
    world.do(PruneThread(thread="new", drop=(("", "c1"),)))
    world.do(DeleteThread(thread="new"))
    world.do(DeleteOrigins(origins=("someone",)))
    assert world.store.checkpoint("t", "") is None
    assert seen.expensive() == []
