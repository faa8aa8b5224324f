"""A store on a file, a provider that says what a test scripts, and how async tests are run."""

from __future__ import annotations

import asyncio
import inspect
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


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test in a loop of its own, and close the clients that it has opened."""
    if HERE not in pyfuncitem.path.parents or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def main() -> None:
        try:
            await pyfuncitem.obj(**arguments)
        finally:
            for value in arguments.values():
                if isinstance(value, Provider):
                    await value.close()

    asyncio.run(main())
    return True


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
