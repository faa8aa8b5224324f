"""How a native workflow ends: cancelled, in doubt, failed, handed back."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

import outlast
from outlast import DidNotHappen, Happened, WrongUse, step, workflow
from tests.behaviour.flows import executed
from tests.behaviour.stage import Door, OpenApp, Restart, failed_with, failure, has_recorded


@step(effect="pure")
async def ask(what: Any) -> Any:
    executed.append(f"ask {what}")
    return f"answer to {what}"


@step
def work(what: Any) -> str:
    executed.append(f"work {what}")
    return outlast.idempotency_key()


async def io() -> None:
    """Real I/O, on the worker's loop, which takes no fixed time."""
    reader, writer = await asyncio.open_connection(sock=_pair())
    writer.close()
    await reader.read()
    for _ in range(random.randrange(3)):
        await asyncio.sleep(0)


def _pair() -> Any:
    import socket  # noqa: PLC0415

    one, other = socket.socketpair()
    other.close()
    return one


async def test_a_cancelled_body_cleans_up_with_its_steps(open_app: OpenApp) -> None:
    door = Door()

    @workflow(loop="native")
    async def native() -> None:
        try:
            await ask("before")
            await door.passed()
        finally:
            await work.call("clean-up")

    async with open_app() as app:
        run = await app.start(native())
        await door.reached()
        await run.cancel()
        assert isinstance(await failure(run), outlast.RunCancelled)
    assert executed == ["ask before", "work clean-up"]


async def test_a_cancellation_is_delivered_after_what_was_recorded_before_it(open_app: OpenApp) -> None:
    passes, door = [], Door()

    @step
    async def point() -> None:
        await door.passed()

    @workflow(loop="native")
    async def native() -> None:
        passes.append(1)
        await ask("before")
        try:
            await outlast.receive("never")
        finally:
            await work.call("clean-up 1")
            await point()
            await work.call("clean-up 2")

    async with open_app() as app:
        run = await app.start(native())
        await has_recorded(run, "step")
        await run.cancel()
        await door.reached()
    door.open()
    async with open_app() as app:
        assert isinstance(await failure(await app.get(run.id)), outlast.RunCancelled)
    assert len(passes) >= 2
    assert executed == ["ask before", "work clean-up 1", "work clean-up 2"]


async def test_a_doubt_is_settled_once_the_body_comes_to_it(open_app: OpenApp) -> None:
    door, asked = Door(), []

    def confirm(key: str) -> Happened | DidNotHappen:
        asked.append(key)
        return Happened("found")

    @step(effect="once", confirm=confirm, settle=0.0, timeout=20)
    async def pay() -> str:
        asked.append(outlast.idempotency_key())
        await door.passed()
        return "paid"

    @workflow(loop="native")
    async def native() -> str:
        await io()
        return await pay()

    app = open_app()
    await app.__aenter__()
    run = await app.start(native())
    await door.reached()
    for execution in list(app._worker.executions.values()):  # type: ignore[union-attr]
        execution.stop()
    door.open()
    await app.__aexit__(None, None, None)
    async with open_app() as app:
        assert await (await app.get(run.id)).result() == "found"
    assert len(set(asked)) == 1


async def test_what_a_native_workflow_cannot_do_is_refused() -> None:
    with pytest.raises(WrongUse, match="async def"):

        @workflow(loop="native")
        def plain() -> None: ...

    with pytest.raises(WrongUse, match="native"):
        workflow(loop="other")  # type: ignore[call-overload]


async def test_a_deadline_cancels_a_native_body_once(open_app: OpenApp) -> None:
    @workflow(loop="native")
    async def native() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await work.call("clean-up")

    async with open_app() as app:
        run = await app.start(native.options(timeout=0.1)())
        assert isinstance(await failure(run), outlast.RunTimeout)
        assert [s.kind for s in await run.steps()].count("cancel") == 1
    assert executed == ["work clean-up"]


async def test_a_stream_is_written_in_a_step_not_in_the_body(open_app: OpenApp) -> None:
    @workflow(loop="native")
    async def native() -> None:
        outlast.publish("stage", "begun")
        await outlast.stream("tokens").write("no")

    async with open_app() as app:
        run = await app.start(native())
        assert "in a step" in str(await failed_with(run, WrongUse))
        assert await run.value("stage") == "begun"


async def test_what_a_failed_body_did_is_undone(open_app: OpenApp) -> None:
    @workflow(loop="native")
    async def native() -> None:
        await ask("do")
        outlast.compensate(ask("undo"))
        await io()
        raise ValueError("no")

    async with open_app() as app:
        await failed_with(await app.start(native()), ValueError)
    assert executed == ["ask do", "ask undo"]


async def test_random_values_are_the_same_again(restart: Restart) -> None:
    seen: list[list[str]] = []

    @workflow(loop="native")
    async def native() -> list[str]:
        await io()
        values = [str(outlast.uuid4()), str(outlast.random()), str(outlast.now())]
        await ask("between")
        values += [str(outlast.uuid4()), str(outlast.now())]
        seen.append(values)
        await restart.point()
        return values

    await restart.result(native())
    assert seen[0] == seen[1]


async def test_draining_lets_an_adapter_come_to_a_good_end(open_app: OpenApp) -> None:
    from outlast.core.identity import here  # noqa: PLC0415

    door, passes = Door(), list[int]()

    @workflow(loop="native")
    async def native() -> str:
        passes.append(1)
        ops: Any = here.get().ops  # type: ignore[union-attr]
        await ask("first")
        asked = asyncio.Event()
        ops.on_leave(asked.set)
        await door.passed()
        if len(passes) == 1:
            await asked.wait()
        await ask("second")
        if not asked.is_set():
            return "nobody asked"
        await ops.handed_back()
        return "unreachable"

    async with open_app(grace=10.0) as app:
        run = await app.start(native())
        await door.reached()
        door.open()
        await app.drain()
        assert await run.status() in ("pending", "running")
        assert executed == ["ask first", "ask second"]
    async with open_app() as app:
        assert await (await app.get(run.id)).result() == "nobody asked"


async def test_a_failed_native_run_is_resumed_at_its_last_step(open_app: OpenApp) -> None:
    works = []

    @step
    async def flaky(n: int) -> int:
        executed.append(f"flaky {n}")
        if n == 2 and not works:
            raise ValueError("not yet")
        return n

    @workflow(loop="native")
    async def native() -> list[int]:
        both = list(await asyncio.gather(flaky(0), flaky(1)))
        await io()
        return [*both, await flaky(2), await flaky(3)]

    async with open_app() as app:
        run = await app.start(native())
        await failed_with(run, ValueError)
        works.append(True)
        await app.resume(run.id)
        assert await run.result() == [0, 1, 2, 3]
    assert sorted(executed) == ["flaky 0", "flaky 1", "flaky 2", "flaky 2", "flaky 3"]


async def test_a_fork_of_a_native_run_goes_on_from_its_step(open_app: OpenApp) -> None:
    @workflow(loop="native")
    async def native() -> list[Any]:
        with outlast.scope("plan"):
            plan = await ask("plan")
        return [plan, await ask("act"), str(outlast.uuid4())]

    async with open_app() as app:
        run = await app.start(native())
        first = await run.result()
        act = next(s.id for s in await run.steps() if s.id.startswith("main/ask"))
        fork = await app.fork(run.id, act)
        second = await fork.result()
        assert await run.result() == first
    assert first[:2] == second[:2]
    assert first[2] != second[2]
    assert executed == ["ask plan", "ask act", "ask act"]
