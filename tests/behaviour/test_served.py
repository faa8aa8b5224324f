"""The store knows which runs each worker executes."""

from __future__ import annotations

import uuid

import outlast
from outlast import App, workflow
from tests.behaviour.stage import OpenApp, eventually


@workflow
async def served_first() -> int:
    return 1


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
