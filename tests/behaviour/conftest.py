"""The stores that the tests run over (a further one is one more URL), and how they run."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import App
from outlast.runtime import app as app_module
from tests.behaviour.flows import executed
from tests.behaviour.gated_store import Gate, GatedStore
from tests.behaviour.stage import Ears, OpenApp, Restart
from tests.support.postgres import empty_store_url

HERE = Path(__file__).parent
STORES = ("memory", "sqlite", "postgres")
LONGEST_TEST_S = 30
LONGEST_CLEAN_UP_S = 5
QUICK = {"park_after": 0.02, "grace": 0.0}  # waiting runs leave memory at once, and closing waits for no step


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that waits for an event which never comes ends soon, and says where it stood."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(LONGEST_TEST_S))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is an `async def` in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(pyfuncitem.obj(**arguments))
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:  # a test that has failed may have broken what would end them
            loop.run_until_complete(asyncio.wait(left, timeout=LONGEST_CLEAN_UP_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
    return True


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty store; every App that opens it sees the same runs."""
    if request.param == "postgres":
        return empty_store_url()
    return {"memory": f"memory://{uuid.uuid4()}", "sqlite": f"sqlite:///{tmp_path / 'runs.db'}"}[request.param]


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Return the URL of an empty store that several processes can open."""
    return f"sqlite:///{tmp_path / 'runs.db'}"


@pytest.fixture
def open_app(url: str) -> OpenApp:
    """Return a function that makes an App on the test's store; a second one is the restarted program."""

    def make(**settings: Any) -> App:
        return App(url, **{**QUICK, **settings})

    return make


@pytest.fixture
def ears() -> Ears:
    """Return a listener."""
    return Ears()


@pytest.fixture
def restart(open_app: OpenApp) -> Restart:
    """Return a point for workflow bodies at which the program is restarted."""
    return Restart(open_app)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Return a gate that all commits of all Apps of this test go through."""
    made = Gate()
    real = app_module.open_store
    monkeypatch.setattr(app_module, "open_store", lambda url, clock: GatedStore(real(url, clock), made))
    return made


@pytest.fixture(autouse=True)
def nothing_is_executed() -> None:
    """Each test begins with an empty record of what was done."""
    executed.clear()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Whatever a test did, an App that was closed leaves no thread behind."""
    before = set(threading.enumerate())
    yield
    end = time.monotonic() + 5
    while left := [t.name for t in threading.enumerate() if t.name.startswith("outlast") and t not in before]:
        if time.monotonic() > end:
            pytest.fail(f"threads are left: {', '.join(left)}")
        time.sleep(0.002)
