"""The store knows which runs each worker executes."""

from __future__ import annotations

import asyncio
import uuid

import pytest

import outlast
from outlast import App, workflow
from outlast.runtime import lookout
from tests.behaviour.stage import Ears, OpenApp, eventually


@workflow
async def served_first() -> int:
    return 1


@workflow
async def another() -> int:
    return 2


def served(app: App) -> set[str]:
    (row,) = app.store.workers()
    assert row.serves is not None
    return set(row.serves)


async def test_a_worker_says_what_it_serves_also_what_is_imported_later(open_app: OpenApp) -> None:
    async with open_app() as app:
        name = f"served_{uuid.uuid4().hex}"
        assert "served_first" in served(app)
        assert name not in served(app)

        @outlast.workflow(name=name)
        async def later() -> int:
            return 2

        await eventually(lambda: name in served(app))


async def test_a_client_is_no_worker_and_serves_nothing(open_app: OpenApp) -> None:
    async with open_app(worker=False) as app:
        assert app.store.workers() == []


async def test_a_client_says_once_that_nobody_executes_the_runs_that_it_waits_for(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookout, "LOOK_S", 0.02)
    ears = Ears()
    async with open_app(worker=False, on_event=ears) as client:
        runs = [await client.start(served_first(), id=f"r-{n}") for n in range(2)]
        waits = [asyncio.create_task(run.result()) for run in runs]
        told = await ears.hear("run.unserved")
        assert told.data["why"] == "no worker is alive"
        assert told.data["do"].startswith("start one: ")
        await asyncio.sleep(0.1)
        assert len(ears.heard("run.unserved", workflow="served_first")) == 1
        async with open_app():
            assert await asyncio.gather(*waits) == [1, 1]
        late = asyncio.create_task((await client.start(another(), id="late")).result())
        assert (await ears.hear("run.unserved", run="late")).data["workflow"] == "another"
        late.cancel()
