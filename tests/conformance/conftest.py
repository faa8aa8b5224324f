"""The stores that the suite runs over. A further one is one more parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory

import pytest

from outlast.stores.memory import MemoryStore
from outlast.stores.protocol import Clock, Store
from outlast.stores.sqlite import SqliteStore
from tests.conformance.world import SetClock, World, memory_folder
from tests.support.pooler import WHY_NOT, pooled
from tests.support.postgres import empty_store_url, open_with_given_times

UNLESS_POOLED = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
StoreFactory = Callable[[Clock], Store]


@pytest.fixture
def fast_folder() -> Iterator[str]:
    """Return a folder, in memory where the machine has such a place: hundreds of tests here do not need a disk."""
    with TemporaryDirectory(dir=memory_folder()) as folder:
        yield folder


@pytest.fixture(params=["memory", "sqlite", "postgres", pytest.param("pgbouncer", marks=UNLESS_POOLED)])
def store_factory(request: pytest.FixtureRequest, fast_folder: str) -> Iterator[StoreFactory]:
    """Return a function that opens a store; each call gives one more face of the same rows."""
    opened: list[Store] = []

    def open_memory(clock: Clock) -> Store:
        if not opened:
            opened.append(MemoryStore(clock))
        return opened[0]

    def open_sqlite(clock: Clock) -> Store:
        opened.append(SqliteStore(f"{fast_folder}/test.db", clock))
        return opened[-1]

    postgres_url = empty_store_url() if request.param in ("postgres", "pgbouncer") else ""
    if request.param == "pgbouncer":
        postgres_url = pooled(postgres_url)

    def open_postgres(clock: Clock) -> Store:
        opened.append(open_with_given_times(postgres_url, clock))
        return opened[-1]

    ways = {"memory": open_memory, "sqlite": open_sqlite, "postgres": open_postgres, "pgbouncer": open_postgres}
    yield ways[request.param]
    if opened:
        assert opened[0].check() == []
    for store in opened:
        store.close()


@pytest.fixture
def clock() -> SetClock:
    """Return a clock that stands still."""
    return SetClock()


@pytest.fixture
def world(store_factory: StoreFactory, clock: SetClock) -> World:
    """Return an empty store with a clock and shorthands."""
    return World(store_factory(clock), clock)
