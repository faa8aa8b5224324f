"""Messages that no code asks for stay where they are, and cost neither their run nor others more as they pile up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import outlast
from outlast import App, workflow
from outlast.core.records import InboxRow
from outlast.stores.verbs import Park, Send
from tests.behaviour.gated_store import Gate
from tests.behaviour.stage import OpenApp, eventually, reaches

MANY = 40


@workflow
async def waiting(times: int) -> list[Any]:
    return [await outlast.receive("wanted") for _ in range(times)]


def rows_read(app: App, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keep the id of each message that the worker fetches."""
    read: list[str] = []
    inbox = app.store.inbox

    def look(worker: str, seen: Mapping[int, int]) -> list[InboxRow]:
        rows = inbox(worker, seen)
        read.extend(row.message_id for row in rows)
        return rows

    monkeypatch.setattr(app.store, "inbox", look)
    return read


async def test_each_is_read_once_however_many_come_after_it(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_app(park_after=60) as app:
        read = rows_read(app, monkeypatch)
        run = await app.start(waiting(MANY), id="one")
        await reaches(run, "running")
        for n in range(MANY):
            await run.send("unwanted", n, id=f"unwanted {n}")
            await run.send("wanted", n, id=f"wanted {n}")
        assert await run.result() == list(range(MANY))
        unwanted = [name for name in read if name.startswith("unwanted")]
        assert len(unwanted) == len(set(unwanted))
        assert [m.name for m in await run.messages()] == ["unwanted"] * MANY


async def test_a_run_rests_over_them_and_wakes_for_what_comes_after(open_app: OpenApp, gate: Gate) -> None:
    async with open_app() as app:
        run = await app.start(waiting(2), id="one")
        for n in range(MANY):
            await run.send("unwanted", n)
        await reaches(run, "waiting")
        await run.send("wanted", "a")
        await eventually(lambda: sum(isinstance(verb, Park) for verb in gate.committed) >= 2)
        await reaches(run, "waiting")
        await run.send("wanted", "b")
        assert await run.result() == ["a", "b"]
        assert len(await run.messages()) == MANY


async def test_what_arrives_while_it_is_put_to_rest_keeps_it_awake(open_app: OpenApp, gate: Gate) -> None:
    async with open_app() as app, open_app(worker=False) as client:
        run = await app.start(waiting(1), id="one")
        await run.send("unwanted")
        gate.hold_where(lambda verb: isinstance(verb, Park) and verb.seen > 0)
        await eventually(lambda: gate.waiting == 1)
        await (await client.get("one")).send("wanted", "a")
        gate.release()
        assert await run.result() == ["a"]
        assert [verb.key for verb in gate.committed if isinstance(verb, Send)] == ["unwanted", "wanted"]
