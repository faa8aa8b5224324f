"""A store on a file, and a provider that says what a test scripts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from outlast import App
from tests.adapters.pydantic_ai.provider import Provider
from tests.behaviour.stage import OpenApp, Restart

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that waits for an event which never comes ends soon."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(60))


@pytest.fixture
def open_app(tmp_path: Path) -> OpenApp:
    """Make Apps on one file. Waiting runs leave memory at once, and closing waits for no step."""

    def make(**settings: Any) -> App:
        return App(f"sqlite:///{tmp_path / 'agent.db'}", **({"park_after": 0.02, "grace": 0.0} | settings))

    return make


@pytest.fixture
def restart(open_app: OpenApp) -> Restart:
    """Stop a run at a point, and have it go on in another App."""
    return Restart(open_app)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    """A provider of models, at first of one that says what it was told."""
    with ExitStack() as stack:
        yield Provider(stack, tmp_path / "asked")
