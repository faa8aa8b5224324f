"""The tests of an adapter run where its framework is installed: in the environment that `make test-adapters` makes."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.doors import ADAPTERS, is_installed

HERE = Path(__file__).parent

collect_ignore = [name for name in ADAPTERS if not is_installed(name)]


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
