"""Shops, and how their transactions are given. Tests that are an `async def` run in an event loop of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.behaviour.conftest import ears, open_app, pytest_pyfunc_call  # noqa: F401 - fixtures, and the hook
from tests.databases.shop import POSTGRES, SQLITE, Shop, Way, close, new_shop

HERE = Path(__file__).parent
LONGEST_TEST_S = 60


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that waits for an event which never comes ends soon, and says where it stood."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(LONGEST_TEST_S))


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of an empty store."""
    return f"sqlite:///{tmp_path / 'runs.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """Return a shop's database, of either kind."""
    made = new_shop(tmp_path if request.param == "sqlite" else None)
    yield made
    close(made)


WAYS = [("sqlite", way) for way in SQLITE] + [("postgres", way) for way in POSTGRES]


@pytest.fixture(params=WAYS, ids=[f"{kind}-{way}" for kind, way in WAYS])
def given(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Shop, Way]]:
    """Return a shop's database, and each way in turn to give its transactions."""
    kind, way = request.param
    made = new_shop(tmp_path if kind == "sqlite" else None)
    yield made, way
    close(made)
