"""What is believed of an attempt in doubt after a restart, and while its thread may still send something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from outlast import DidNotHappen, Happened, step, workflow
from outlast.runtime import doubt
from tests.behaviour.stage import Door, OpenApp, eventually, unless_it_ends

sent: list[Any] = []
asked: list[Any] = []


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    sent.clear()
    asked.clear()
    monkeypatch.setattr(doubt, "LOOK_AGAIN_S", 0.01)


async def cut_off(open_app: OpenApp, confirm: Callable[..., Any], **settings: Any) -> None:
    """Run a `once` step as run `one` and close its App while the attempt is in flight.

    The worker leaves without a word, for what the attempt has begun may still send: its short lease tells the next.
    """
    door = Door()

    @step(effect="once", confirm=confirm, **settings)
    async def pay(cents: int) -> str:
        sent.append(cents)
        await door.passed()
        return "receipt"

    @workflow(name="cut_off")
    async def flow() -> str:
        return await pay(5)

    async with open_app(lease=0.3) as app:
        run = await app.start(flow(), id="one")
        await unless_it_ends(run, door.reached())
    door.open()


async def test_after_a_restart_happened_gives_the_result(open_app: OpenApp) -> None:
    async def confirm(key: str, cents: int) -> Any:
        return Happened("found")

    await cut_off(open_app, confirm, settle=3600)
    async with open_app(lease=0.3) as app:
        assert await (await app.get("one")).result() == "found"
    assert sent == [5]


async def test_after_a_restart_did_not_happen_is_believed_once_it_has_settled(open_app: OpenApp) -> None:
    async def confirm(key: str, cents: int) -> Any:
        asked.append(1)
        return DidNotHappen()

    await cut_off(open_app, confirm, settle=0.2, timeout=0.5)
    async with open_app(lease=0.3) as app:
        assert await (await app.get("one")).result() == "receipt"
    assert sent == [5, 5]


async def test_an_open_attempt_is_settled_before_an_overdue_timer_fires(open_app: OpenApp) -> None:
    door = Door()

    async def confirm(key: str, cents: int) -> Any:
        return Happened("found")

    @step(effect="once", confirm=confirm)
    async def pay(cents: int) -> str:
        sent.append(cents)
        await door.passed()
        return "receipt"

    @workflow
    async def flow() -> str:
        try:
            async with asyncio.timeout(0.5):
                return await pay(5)
        except TimeoutError:
            return "timed out"

    async with open_app(lease=0.3) as app:
        run = await app.start(flow(), id="one")
        await unless_it_ends(run, door.reached())
    door.open()
    async with open_app(worker=False) as client:  # the deadline passes while nobody works
        created = (await (await client.get("one")).info()).created
        await eventually(lambda: client.store.now() > created + 0.55)
    async with open_app(lease=0.3) as app:
        assert await (await app.get("one")).result() == "found"
    assert sent == [5]


async def test_a_thread_that_still_runs_is_not_believed_to_have_done_nothing(open_app: OpenApp) -> None:
    """The attempt timed out, but its thread may still send: until it ends, a no is no answer."""
    door = Door()

    async def confirm(key: str, cents: int) -> Any:
        asked.append(len(sent))
        return Happened("found") if "sent late" in sent else DidNotHappen()

    @step(effect="once", confirm=confirm, settle=0, timeout=0.02)
    def pay(cents: int) -> str:
        sent.append("begun")
        door.pass_in_thread()
        sent.append("sent late")
        return "receipt"

    @workflow
    async def flow() -> str:
        return await pay.call(5)

    async with open_app() as app:
        run = await app.start(flow())
        await unless_it_ends(run, door.reached())
        await unless_it_ends(run, eventually(lambda: len(asked) >= 3))
        door.open()
        assert await run.result() == "found"
    assert sent == ["begun", "sent late"]


async def test_a_thread_that_still_runs_when_its_app_is_closed_is_not_believed_either(open_app: OpenApp) -> None:
    door = Door()

    async def confirm(key: str, cents: int) -> Any:
        asked.append(len(sent))
        return Happened("found") if "sent late" in sent else DidNotHappen()

    @step(effect="once", confirm=confirm, settle=0, timeout=0.02)
    def pay(cents: int) -> str:
        sent.append("begun")
        door.pass_in_thread()
        sent.append("sent late")
        return "receipt"

    @workflow
    async def flow() -> str:
        return await pay.call(5)

    async with open_app(lease=0.3) as app:
        run = await app.start(flow(), id="one")
        await unless_it_ends(run, door.reached())
        await unless_it_ends(run, eventually(lambda: bool(asked)))
    before = len(asked)
    async with open_app(lease=0.3) as app:
        run = await app.get("one")
        await unless_it_ends(run, eventually(lambda: len(asked) > before))
        assert sent == ["begun"]
        door.open()
        assert await run.result() == "found"
    assert sent == ["begun", "sent late"]
