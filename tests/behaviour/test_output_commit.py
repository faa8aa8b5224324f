"""Nothing leaves a run on the strength of something that could still be forgotten, and nothing else waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast
from outlast import step, workflow
from outlast.runtime import client as client_module
from outlast.runtime import steps
from outlast.stores.verbs import Finish, StartRun, Write
from tests.behaviour.flows import executed, waiting_at
from tests.behaviour.gated_store import Gate
from tests.behaviour.stage import Door, Ears, OpenApp, eventually


@step(effect="pure")
async def think(what: Any) -> Any:
    executed.append(what)
    return what


@step
async def act(what: Any) -> Any:
    executed.append(what)
    return what


@step(effect="once")
async def pay(what: Any) -> Any:
    executed.append(what)
    return what


async def turns(n: int = 20) -> None:
    """Let everything happen that does not wait for a commit."""
    for _ in range(n):
        await asyncio.sleep(0.001)


async def test_a_chain_of_pure_steps_does_not_wait_for_commits(open_app: OpenApp, gate: Gate) -> None:
    @workflow
    async def thinking() -> list[Any]:
        return [await think(n) for n in range(100)]

    async with open_app() as app:
        run = await app.start(thinking())
        gate.hold(Write, Finish)
        await eventually(lambda: len(executed) == 100)
        gate.release()
        assert await run.result() == list(range(100))


@pytest.mark.parametrize("effect", [act, pay], ids=["idempotent", "once"])
async def test_an_effect_waits_for_the_commit_of_what_came_before(
    open_app: OpenApp,
    gate: Gate,
    effect: Any,
) -> None:
    door = Door()

    @step(effect="pure")
    async def first() -> None:
        await door.passed()

    @workflow
    async def flow() -> list[Any]:
        await first()
        return [await think("thought"), await effect("effect")]

    async with open_app() as app:
        run = await app.start(flow())
        await door.reached()
        gate.hold(Write, Finish)
        door.open()
        await eventually(lambda: executed == ["thought"])
        await eventually(lambda: gate.waiting == 1)
        await turns()
        assert executed == ["thought"]
        gate.release()
        assert await run.result() == ["thought", "effect"]


async def test_a_once_step_waits_for_the_commit_of_its_own_intent(open_app: OpenApp, gate: Gate) -> None:
    @workflow
    async def flow() -> str:
        return str(await pay("paid"))

    async with open_app() as app:
        gate.hold(Write)
        run = await app.start(flow())
        await eventually(lambda: gate.waiting == 1)
        await turns()
        assert executed == []
        gate.release()
        assert await run.result() == "paid"


async def test_an_effect_does_not_wait_where_nothing_came_before(open_app: OpenApp, gate: Gate) -> None:
    @workflow
    async def flow() -> str:
        return str(await act("at once"))

    async with open_app() as app:
        gate.hold(Write, Finish)
        run = await app.start(flow())
        await eventually(lambda: executed == ["at once"])
        gate.release()
        await run.result()


async def test_a_child_waits_for_the_commit_of_what_came_before(open_app: OpenApp, gate: Gate) -> None:
    door = Door()

    @step(effect="pure")
    async def first() -> None:
        await door.passed()

    @workflow
    async def child() -> str:
        executed.append("child")
        return "child"

    @workflow
    async def parent() -> str:
        await first()
        return await child()

    async with open_app() as app:
        run = await app.start(parent())
        await door.reached()
        gate.hold(Write)
        door.open()
        await eventually(lambda: gate.waiting == 1)
        await turns()
        assert executed == []
        gate.release()
        assert await run.result() == "child"
    kinds = [type(verb) for verb in gate.committed if isinstance(verb, (Write, StartRun, Finish))]
    assert kinds[0] is StartRun
    assert kinds[1] is Write
    assert StartRun in kinds[2:]


async def test_a_result_is_given_after_its_commit_only(open_app: OpenApp, gate: Gate, ears: Ears) -> None:
    @workflow
    async def flow() -> str:
        return str(await think("thought"))

    async with open_app(on_event=ears) as app:
        gate.hold(Finish)
        run = await app.start(flow(), id="one")
        waiter = asyncio.create_task(run.result())
        await eventually(lambda: gate.waiting == 1)
        await turns()
        assert not waiter.done()
        assert await run.status() == "running"
        assert not ears.heard("run.ended")
        gate.release()
        assert await waiter == "thought"


async def test_a_start_returns_after_its_commit_only_and_the_body_does_not_run_before(
    open_app: OpenApp,
    gate: Gate,
) -> None:
    @workflow
    async def flow() -> str:
        executed.append("body")
        return "done"

    async with open_app() as app:
        gate.hold(StartRun)
        start = asyncio.create_task(app.start(flow(), id="one"))
        await eventually(lambda: gate.waiting == 1)
        await turns()
        assert not start.done()
        assert executed == []
        gate.release()
        assert await (await start).result() == "done"


async def test_the_backlog_of_pure_steps_is_bounded(
    open_app: OpenApp,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "BACKLOG_RECORDS", 50)

    @workflow
    async def thinking() -> int:
        for n in range(200):
            await think(n)
        return len(await asyncio.gather(*(think(n) for n in range(100))))

    async with open_app() as app:
        run = await app.start(thinking())
        gate.hold(Write, Finish)
        await eventually(lambda: gate.waiting == 1)
        await turns(50)
        assert len(executed) <= 60
        gate.release()
        assert await run.result() == 100
    assert len(executed) == 300


# -- a store that fails -----------------------------------------------------------------------------


async def work(app: outlast.App) -> Any:
    """Do some of everything: steps of each effect, a child, a timer, a rest."""

    @workflow
    async def child(n: int) -> Any:
        return await act(("child", n))

    @workflow
    async def parent() -> list[Any]:
        thought = [await think(n) for n in range(3)]
        acted = await asyncio.gather(*(act(n) for n in range(3)))
        paid = await pay("paid")
        children = await asyncio.gather(*(child(n) for n in range(3)))
        await asyncio.sleep(0.05)
        return [thought, list(acted), paid, list(children), await act("last")]

    return await (await app.start(parent(), id="p")).result()


EVERYTHING = [[0, 1, 2], [0, 1, 2], "paid", [("child", n) for n in range(3)], "last"]


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_store_that_fails_now_and_then_costs_nothing_and_doubles_nothing(
    open_app: OpenApp,
    gate: Gate,
    fault: str,
) -> None:
    """The commit failed, or it was applied and only the answer was lost."""
    batches = 0

    def failing(_: Any) -> str:
        nonlocal batches
        batches += 1
        return fault if batches % 2 else ""

    async with open_app() as app:
        gate.fail(failing)
        assert await work(app) == EVERYTHING
    assert len(executed) == len(set(map(repr, executed))) + 3  # 0, 1 and 2 were thought and acted on


async def test_a_store_that_is_away_for_a_while_is_waited_for_and_told(
    open_app: OpenApp,
    gate: Gate,
    ears: Ears,
) -> None:
    away = True

    async with open_app(on_event=ears) as app:
        running = asyncio.create_task(work(app))
        await eventually(lambda: len(executed) > 3)
        gate.fail(lambda _: "before" if away else "")
        await ears.hear("store.unavailable")
        await turns()
        away = False
        assert await running == EVERYTHING
        await ears.hear("store.back")
    assert executed.count("paid") == 1


async def test_a_client_does_not_wait_for_ever_for_a_store_that_is_away(
    open_app: OpenApp,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "CLIENT_PATIENCE_S", 0.05)

    @workflow
    async def flow() -> str:
        return "done"

    async with open_app() as app:
        gate.fail(lambda _: "before")
        with pytest.raises(outlast.StoreUnavailable, match="taken the store away"):
            await app.start(flow(), id="one")
        gate.fail(lambda _: "")
        assert await (await app.start(flow(), id="one")).result() == "done"


async def test_a_client_does_not_wait_behind_a_worker_that_waits_for_the_store(
    open_app: OpenApp,
    gate: Gate,
    ears: Ears,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "CLIENT_PATIENCE_S", 0.05)
    door = Door()
    waiting = waiting_at(door)

    async with open_app(on_event=ears) as app:
        running = await app.start(waiting())
        await door.reached()
        gate.fail(lambda _: "before")
        door.open()  # the worker has something to record, and tries until it can
        await ears.hear("store.unavailable")
        with pytest.raises(outlast.StoreUnavailable, match="taken the store away"):
            await app.start(waiting(), id="one")
        gate.fail(lambda _: "")
        assert await running.result() == "passed"
