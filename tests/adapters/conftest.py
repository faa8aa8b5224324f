"""The tests of an adapter run where its framework is installed: in the environment that `make test-adapters` makes."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.doors import ADAPTERS, is_installed

HERE = Path(__file__).parent

collect_ignore = [name for name in ADAPTERS if not is_installed(name)]

if is_installed("crewai"):
    # It tells its makers of each crew, and tests need no network.
    os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_DISABLE_TRACKING="true", OTEL_SDK_DISABLED="true")
    os.environ.update(CREWAI_TRACING_ENABLED="false", CREWAI_TESTING="true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns while it is imported
        importlib.import_module("crewai")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let CrewAI use what it says is deprecated, callbacks that its checkpoints could not keep, and open clients."""
    for item in items:
        if "crewai" in item.nodeid:
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:function callbacks cannot be serialized:UserWarning"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test in a loop of its own, and close there what it was given that has an `aclose`."""
    if HERE not in pyfuncitem.path.parents or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def main() -> None:
        try:
            await pyfuncitem.obj(**arguments)
        finally:
            for value in arguments.values():
                if hasattr(value, "aclose"):
                    await value.aclose()

    asyncio.run(main())
    return True
