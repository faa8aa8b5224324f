"""A run has one owner: a worker that lost its lease starts nothing more, writes nothing more, and begins anew."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import outlast
from outlast import DidNotHappen, Happened, step, workflow
from outlast.stores.verbs import StartRun
from tests.behaviour.flows import executed
from tests.behaviour.gated_store import Gate
from tests.behaviour.stage import Door, Ears, OpenApp, eventually, unless_it_ends


async def worker_of(ears: Ears) -> str:
    return str((await ears.hear("worker.started")).data["worker"])


async def test_a_frozen_worker_is_replaced_and_what_it_does_later_counts_for_nothing(
    open_app: OpenApp, gate: Gate, ears: Ears
) -> None:
    doors = [Door(), Door()]
    others = Ears()

    @step
    async def work() -> str:
        n = len(executed)
        executed.append(n)
        await doors[n].passed()
        return f"by execution {n}"

    @workflow
    async def flow() -> list[str]:
        return [await work(), await after()]

    @step
    async def after() -> str:
        executed.append("after")
        return "after"

    async with open_app(lease=0.3, on_event=ears) as frozen:
        run = await frozen.start(flow(), id="one")
        await unless_it_ends(run, doors[0].reached())
        gate.hold_worker(await worker_of(ears))
        async with open_app(lease=0.3, on_event=others) as other:
            await others.hear("worker.took_over")
            await doors[1].reached()
            # The frozen one comes back with its result, unless it has seen before that the run is another's ...
            doors[0].open()
            await eventually(lambda: bool(ears.heard("step.ended", run="one") or ears.heard("run.lost", run="one")))
            doors[1].open()
            assert await (await other.get("one")).result() == ["by execution 1", "after"]
            gate.release()  # ... and may write again
            await ears.hear("worker.lost_lease")
            await ears.hear("worker.started", 2)
            assert await run.result() == ["by execution 1", "after"]
            assert [(s.id, s.value) for s in await run.steps()] == [
                ("main/work#1", "by execution 1"),
                ("main/after#1", "after"),
            ]
            assert (await run.info()).claims == 2
    assert executed.count("after") == 1


async def test_a_worker_that_begins_anew_takes_new_runs(open_app: OpenApp, gate: Gate, ears: Ears) -> None:
    @workflow
    async def quick(n: int) -> int:
        return n

    @workflow
    async def sleeping() -> None:
        await asyncio.sleep(3600)

    others = Ears()
    async with open_app(lease=0.3, on_event=ears) as frozen:
        await frozen.start(sleeping(), id="one")
        gate.hold_worker(await worker_of(ears))
        async with open_app(lease=0.3, on_event=others, worker_concurrency=1):
            await others.hear("worker.took_over")
            gate.release()
            await ears.hear("worker.started", 2)
        assert await (await frozen.start(quick(5))).result() == 5
    assert len({n.data["worker"] for n in ears.heard("worker.started")}) == 2


async def test_no_effect_starts_while_the_lease_does_not_hold(open_app: OpenApp, gate: Gate, ears: Ears) -> None:
    """It looks at its own clock, before anybody tells it that it was replaced."""
    door = Door()

    @step(effect="pure")
    async def first() -> None:
        await door.passed()

    @step
    async def effect() -> str:
        executed.append("effect")
        return "done"

    @workflow
    async def flow() -> str:
        await first()
        return await effect()

    async with open_app(lease=0.3, on_event=ears) as app:
        run = await app.start(flow())
        await unless_it_ends(run, door.reached())
        gate.hold_worker(await worker_of(ears))
        lease = app.writer.lease
        assert lease is not None
        await eventually(lambda: not lease.holds())
        door.open()
        await ears.hear("step.ended")
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert executed == []
        gate.release()  # nobody has taken it over: it renews its lease and goes on
        assert await run.result() == "done"
    assert executed == ["effect"]


@pytest.mark.parametrize("happened", [True, False])
async def test_a_once_attempt_of_a_replaced_worker_is_asked_about_and_not_repeated(
    open_app: OpenApp, gate: Gate, ears: Ears, happened: bool
) -> None:
    door, others = Door(), Ears()

    async def confirm(key: str) -> Any:
        executed.append("asked")
        return Happened("found") if happened else DidNotHappen()

    @step(effect="once", confirm=confirm, settle=0.1, timeout=0.6)
    async def pay() -> str:
        executed.append("sent")
        if executed.count("sent") == 1:
            await door.passed()
        return "receipt"

    @workflow
    async def flow() -> str:
        return await pay()

    async with open_app(lease=0.3, on_event=ears) as frozen:
        run = await frozen.start(flow(), id="one")
        await unless_it_ends(run, door.reached())
        gate.hold_worker(await worker_of(ears))
        async with open_app(lease=0.3, on_event=others) as other:
            await others.hear("worker.took_over")
            result = await (await other.get("one")).result()
            assert result == ("found" if happened else "receipt")
            door.open()
            gate.release()
            await ears.hear("worker.lost_lease")
            assert await run.result() == result
    assert executed.count("sent") == (1 if happened else 2)
    assert "asked" in executed


async def test_a_starter_that_is_given_up_leaves_a_run_that_goes_on(open_app: OpenApp, gate: Gate) -> None:
    @workflow
    async def quick() -> str:
        return "done"

    async with open_app() as app:
        gate.hold(StartRun)
        start = asyncio.create_task(app.start(quick(), id="one"))
        await eventually(lambda: gate.waiting == 1)
        start.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await start
        gate.release()
        await eventually(lambda: _exists(app, "one"))
        assert await (await app.get("one")).result() == "done"


async def _exists(app: outlast.App, id: str) -> bool:
    return bool(await app.runs(id_prefix=id))


async def test_workers_that_come_and_go_lose_no_run(open_app: OpenApp) -> None:
    @step
    async def hop(n: int) -> int:
        await asyncio.sleep(0)
        return n

    @workflow
    async def hopping(rounds: int) -> int:
        total = 0
        for n in range(rounds):
            total += await hop(n)
            await asyncio.sleep(0.001)
        return total

    async with open_app(worker=False) as client:
        runs = [await client.start(hopping(6), id=f"run-{n}") for n in range(20)]
        for _ in range(5):
            async with open_app(park_after=0), open_app(park_after=0):
                await runs[0].status()
        async with open_app():
            assert await asyncio.gather(*(run.result() for run in runs)) == [15] * 20
