"""The stores that every test of the checkpointer runs over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.langgraph import Saver
from tests.support.postgres import empty_store_url


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty store."""
    return f"sqlite:///{tmp_path}/agent.db" if request.param == "sqlite" else empty_store_url()


@pytest.fixture
def saver(url: str) -> Iterator[Saver]:
    """Return a checkpointer on an empty store."""
    with Saver(url) as made:
        yield made
