"""What an idle or busy worker asks costs the same with any number of runs that it has nothing to do with.

A test watches the statements of a store and asks the server how it would carry out each: through an index, never over a
table that grows.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from outlast.core.transitions import Status
from outlast.runtime.clock import SystemClock
from outlast.stores.checkpoint_verbs import (
    CheckpointFilter,
    CopyThread,
    DeleteOrigins,
    DeleteThread,
    PendingWrite,
    PruneThread,
    PutWrites,
)
from outlast.stores.postgres import PostgresStore
from outlast.stores.protocol import RunFilter
from outlast.stores.verbs import Beat, Claim, Claimed, Done
from tests.conformance.world import SetClock, World, finish, message, park, record, write
from tests.support.postgres import drop, server_url, with_schema
from tests.support.scenes_of_verbs import checkpoint

CROWD = 50_000
FEW_PAGES = 60  # that a statement reads or writes; walking over the crowd takes thousands
GROWING = ("runs", "records", "inbox", "taken", "waiters", "checkpoints", "channel_values", "checkpoint_writes")


class Seen:
    """The plans of the statements that were run, as the server carried them out."""

    def __init__(self) -> None:
        self.plans: list[tuple[str, dict[str, Any]]] = []

    def expensive(self) -> list[str]:
        """Return the statements that walked over a table that grows, or read much."""
        return [sql for sql, plan in self.plans if _walks(plan) or _pages(plan) > FEW_PAGES]


def _walks(plan: dict[str, Any]) -> bool:
    mine = plan["Node Type"] == "Seq Scan" and plan.get("Relation Name") in GROWING
    return mine or any(_walks(part) for part in plan.get("Plans", ()))


def _pages(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


@pytest.fixture(scope="module")
def crowded() -> Iterator[str]:
    """Return the URL of a store with 50,000 runs that are parked, and as many that have ended, each with a record."""
    schema = f"test_{secrets.token_hex(6)}"
    PostgresStore(with_schema(schema), SystemClock()).close()
    insert = (
        "INSERT INTO runs (id, incarnation, workflow, definition, is_step, options, status, due, ended, started, "
        "parent_key, forks, created, python, version, claim, input) "
        "SELECT %(name)s || i, 'inc' || i, 'flow', '', false, '{}', %(status)s, %(due)s, %(ended)s, 1.0, '', '[]', "
        "1.0, '', '', 1, '' FROM generate_series(1, %(count)s) AS i"
    )
    far = 4e9
    crowd = (
        {"name": "parked", "status": "waiting", "due": None, "ended": None, "count": CROWD // 2},
        {"name": "asleep", "status": "waiting", "due": far, "ended": None, "count": CROWD // 2},
        {"name": "ended", "status": "succeeded", "due": None, "ended": 2.0, "count": CROWD},
    )
    with psycopg.connect(server_url(), autocommit=True) as db:
        db.execute(f"SET search_path = {schema}".encode())
        for some in crowd:
            db.execute(insert.encode(), some)
        db.execute(
            "INSERT INTO inbox (run, kind, key, message_id, ok, created) "
            "SELECT pk, 'message', '', 'm', true, 0 FROM runs WHERE status = 'waiting' LIMIT 20000"
        )
        db.execute(
            "INSERT INTO records SELECT pk, 1, 'step', 'k', 1, 'n', true, NULL, NULL, 1, '', 1, 1, NULL, 0, 'w', '' "
            "FROM runs"
        )
        db.execute("INSERT INTO taken SELECT pk, 'message', 'old' FROM runs WHERE status = 'waiting' LIMIT 20000")
        db.execute("INSERT INTO waiters SELECT pk, pk + 1, 'k' FROM runs WHERE status = 'waiting' LIMIT 20000")
        db.execute("UPDATE runs SET queue = 'q', queue_key = 'k' || (pk % 4) WHERE pk % 2 = 0")
        db.execute(
            "INSERT INTO checkpoints (thread, ns, id, type, data, versions, labels, origin) SELECT 't' || (i % 100), "
            "'', 'c' || i, '', '', '{}', '{}', 'run' || (i % 1000) FROM generate_series(1, 50000) AS i"
        )
        db.execute(
            "INSERT INTO channel_values SELECT 't' || (i % 100), '', 'x', i::text, '', '', '' "
            "FROM generate_series(1, 50000) AS i"
        )
        db.execute(
            "INSERT INTO checkpoint_writes SELECT pk, 'task', i, 'x', '', '', '' FROM checkpoints, "
            "generate_series(1, 2) AS i"
        )
        limits = '{"concurrency": 5, "rate": 100, "per": 60.0}'
        db.execute("INSERT INTO queues (name, limits) VALUES ('q', %s)", (limits,))
        db.execute("VACUUM ANALYZE")
    yield with_schema(schema)
    drop(schema)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Have each statement that names a table explained as it runs."""
    seen = Seen()
    real = psycopg.Connection.execute

    def execute(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        in_transaction = isinstance(query, str) and "pg_current_snapshot" not in query
        if in_transaction and re.search(rf"\b({'|'.join((*GROWING, 'workers'))})\b", query):
            real(self, "SAVEPOINT explained")
            explained = real(self, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}", params)
            seen.plans.append((query, explained.fetchone()[0][0]["Plan"]))
            real(self, "ROLLBACK TO SAVEPOINT explained")
        return real(self, query, params, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    for alone in ("append", "renew"):  # one statement, and no transaction
        monkeypatch.setattr(f"outlast.stores.postgres.store.{alone}", lambda *_: None)
    return seen


@pytest.fixture
def world(crowded: str, seen: Seen) -> Iterator[World]:
    world = World(PostgresStore(crowded, SystemClock()), SetClock())
    seen.plans.clear()
    yield world
    world.store.close()


def test_parked_runs_cost_an_idle_worker_nothing(world: World, seen: Seen) -> None:
    world.worker("idle")
    for _ in range(3):
        world.store.change()
        assert world.do(Claim(worker="idle", workflows=("flow", "other"), limit=100, key="k")) == Claimed(())
        assert world.store.next_due(("flow", "other")) is not None
        assert world.store.to_come(("flow", "other"))[0] is not None
        assert world.store.owned("idle") == []
        assert world.store.inbox("idle") == []
        assert world.store.owners() == {}
        assert world.store.orphans() == []
        assert world.store.survey(("flow", "other")).orphans == []
        world.do(Beat(worker="idle", lease_s=30.0))
    assert len(seen.plans) > 20
    assert seen.expensive() == []


def test_parked_runs_cost_a_worker_of_their_queue_nothing(world: World, seen: Seen) -> None:
    world.worker("idle")
    for key in ("k1", "k2", "k3"):
        claim = Claim(worker="idle", workflows=("flow", "other"), limit=100, key=key, queues=("q",))
        assert world.do(claim) == Claimed(())
        assert world.store.next_due(("flow", "other"), ("q",), "idle") is not None
    world.start("of the queue", queue="q", queue_key="k0")
    answer = world.do(Claim(worker="idle", workflows=("flow",), limit=100, key="k4", queues=("q",)))
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
    world.do(park(run, due=world.store.now() - 1))
    (run,) = world.claim("busy")
    assert world.do(finish(run, last_seq=2)) == Done((parent.pk,))
    world.store.load([run.pk])
    assert [ended.pk for ended in world.store.ended([run.pk, parent.pk])] == [run.pk]
    assert world.store.run("mine") is not None
    world.do(finish(parent))
    assert len(seen.plans) > 30
    assert seen.expensive() == []


def test_a_page_of_a_listing_costs_a_page(world: World, seen: Seen) -> None:
    for wanted in (
        RunFilter(statuses=(Status.SUCCEEDED,)),
        RunFilter(statuses=(Status.STUCK, Status.FAILED)),
        RunFilter(id_prefix="parked777"),
        RunFilter(owner="nobody"),
        RunFilter(parent=5),
        RunFilter(),
    ):
        world.store.runs(wanted, limit=10)
    assert len(seen.plans) == 6
    assert [(sql, plan) for sql, plan in seen.plans if _pages(plan) > 500] == []


def test_a_crowd_of_checkpoints_costs_a_thread_nothing(world: World, seen: Seen) -> None:
    world.do(checkpoint("c1"))
    assert world.do(checkpoint("c2", "c1")) == Done()
    write = PendingWrite("task", 0, "x", "", b"")
    assert world.do(PutWrites(thread="t", ns="", checkpoint="c2", writes=(write,))) == Done()
    assert world.store.checkpoint("t", "", "c1") is not None
    assert world.store.checkpoint("t7", "") is not None
    assert len(world.store.checkpoints(CheckpointFilter(thread="t7", ns=""), limit=10)) == 10
    assert len(world.store.checkpoints(CheckpointFilter(thread="t"), limit=10)) == 2
    world.do(CopyThread(source="t", target="new"))
    world.do(PruneThread(thread="new", drop=(("", "c1"),)))
    world.do(DeleteThread(thread="new"))
    world.do(DeleteOrigins(origins=("someone",)))
    assert world.store.checkpoint("t", "") is None
    assert len(seen.plans) > 30
    assert seen.expensive() == []
