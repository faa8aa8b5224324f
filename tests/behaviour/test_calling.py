"""What a call of a step or workflow does, by the place where it is made: never a plain call by accident."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import outlast
from outlast import Call, WrongUse, step, workflow
from tests.behaviour.stage import Ears, OpenApp

calls: list[str] = []


@step
async def fetch(what: str) -> str:
    return f"fetched {what}"


@step(effect="pure")
async def think(what: str) -> str:
    return f"thought {what}"


@step
def add(a: int, b: int = 1) -> int:
    return a + b


@step(effect="once")
async def pay(cents: int) -> int:
    calls.append("pay")
    return cents


@step(effect="once")
def pay_blocking(cents: int) -> int:
    calls.append("pay_blocking")
    return cents


@workflow
async def flow(what: str) -> str:
    return await fetch(what)


@workflow
def blocking_flow(n: int) -> int:
    return add(n)


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


# -- outside of any run -----------------------------------------------------------------


async def test_outside_of_a_run_a_step_that_may_be_repeated_is_the_plain_function() -> None:
    assert await fetch("x") == "fetched x"
    assert await think("x") == "thought x"
    assert add(1, 2) == 3
    assert await add.call(1, b=2) == 3


async def test_outside_of_a_run_a_once_step_is_refused_and_names_its_function() -> None:
    with pytest.raises(WrongUse, match=r"step pay has effect='once'.*outside of any run.*pay\.fn\(\.\.\.\)"):
        await pay(5)
    with pytest.raises(WrongUse, match=r"pay_blocking\.fn"):
        pay_blocking(5)
    with pytest.raises(WrongUse, match=r"pay_blocking\.fn"):
        await pay_blocking.call(5)
    assert calls == []
    assert await pay.fn(5) == 5
    assert pay_blocking.fn(5) == 5


@pytest.mark.parametrize("call", [lambda: flow("x"), lambda: blocking_flow(1)])
async def test_a_workflow_awaited_outside_of_a_run_says_how_to_start_it(call: Callable[[], Call[Any]]) -> None:
    with pytest.raises(WrongUse, match=r"outside of a run.*app\.start\((blocking_)?flow\(\.\.\.\)\)"):
        await call()


def test_a_workflow_asked_for_its_result_outside_of_a_run_is_refused() -> None:
    with pytest.raises(WrongUse, match="only a sync workflow"):  # and no warning of a forgotten call
        blocking_flow(1).result()


def test_a_call_that_is_never_awaited_warns() -> None:
    with pytest.warns(RuntimeWarning, match="workflow flow was called but its Call was never awaited"):
        flow("x")
    with pytest.warns(RuntimeWarning, match="step fetch was called but"):
        fetch("x")


@pytest.mark.filterwarnings("ignore:run .* was called but its Call was never awaited:RuntimeWarning")
async def test_in_a_run_each_call_that_is_never_awaited_is_told_with_its_run_and_its_identity(
    open_app: OpenApp,
) -> None:
    ears = Ears()

    @workflow
    async def forgetful() -> str:
        await think("first")
        pay(5)
        for _ in range(2):
            add.call(1)
        kept = flow("x")
        await asyncio.sleep(0.02)  # it rests here, and what was told before is not told again by the replay
        return await fetch("y") if kept else ""

    async with open_app(on_event=ears, park_after=0.001) as app:
        for name in ("one", "two"):
            run = await app.start(forgetful(), id=name)
            assert await run.result() == "fetched y"
    assert calls == []
    for name in ("one", "two"):
        told = [notice.data["call"] for notice in ears.heard("call.not_awaited", run=name, workflow="forgetful")]
        assert told == ["main/pay#1", "main/add#1", "main/add#2", "main/flow#1"]


async def test_in_a_run_a_call_that_is_never_awaited_warns_with_its_run(open_app: OpenApp) -> None:
    @workflow
    async def forgetful() -> None:
        pay(5)

    async with open_app() as app:
        with pytest.warns(RuntimeWarning, match="run r-1: step main/pay#1 was called but its Call was never awaited"):
            await (await app.start(forgetful(), id="r-1")).result()


async def test_a_call_that_a_sync_workflow_never_waited_for_is_told_when_it_is_given_up(open_app: OpenApp) -> None:
    ears = Ears()

    @workflow
    def forgetful() -> str:
        first = add.call(1)
        add.call(2)  # goes on while the body waits, and has its outcome then
        said = add.call(first.result()).result()
        pay(5)
        flow("x")
        return str(said)

    async with open_app(on_event=ears) as app:
        with pytest.warns(RuntimeWarning, match=r"run r-1: .* main/.*#\d was called but its \.result\(\) was never"):
            assert await (await app.start(forgetful(), id="r-1")).result() == "3"
    told = [notice.data["call"] for notice in ears.heard("call.not_awaited", run="r-1", workflow="forgetful")]
    assert [name for name in told if "add" not in name] == ["main/pay#1", "main/flow#1"]
    assert calls == []


@pytest.mark.filterwarnings("ignore:run .* was called but its Call was never awaited:RuntimeWarning")
async def test_the_start_of_a_child_that_is_never_awaited_is_told(open_app: OpenApp) -> None:
    ears = Ears()

    @workflow
    async def forgetful() -> str:
        outlast.start(flow("x"))
        child = await asyncio.create_task(outlast.start(flow("y")))
        return await child.result()

    async with open_app(on_event=ears) as app:
        run = await app.start(forgetful(), id="r-1")
        await run.result()
    assert [notice.data["call"] for notice in ears.heard("call.not_awaited", run="r-1")] == ["main/flow#1"]


# -- in a step ---------------------------------------------------------------------------


async def test_in_a_step_another_step_is_the_plain_function_and_leaves_no_record(open_app: OpenApp) -> None:
    @step
    async def outer() -> list[Any]:
        return [await fetch("a"), add(1, 2), await add.call(3), outlast.current.step_id]

    @workflow
    async def nested() -> list[Any]:
        return await outer()

    async with open_app() as app:
        run = await app.start(nested())
        assert await run.result() == ["fetched a", 3, 4, "main/outer#1"]
        assert [s.id for s in await run.steps()] == ["main/outer#1"]


async def test_in_a_step_a_once_step_is_refused(open_app: OpenApp) -> None:
    @step
    async def outer() -> int:
        return await pay(5)

    @step
    def outer_blocking() -> int:
        return pay_blocking(5)

    @workflow
    async def nested(blocking: bool) -> int:
        return await outer_blocking.call() if blocking else await outer()

    async with open_app() as app:
        for blocking in (False, True):
            with pytest.raises(WrongUse, match=r"effect='once' and was called inside step main/outer"):
                await (await app.start(nested(blocking))).result()
    assert calls == []


async def test_in_a_step_a_workflow_is_refused(open_app: OpenApp) -> None:
    @step
    async def outer() -> str:
        return await flow("x")

    @workflow
    async def nested() -> str:
        return await outer()

    async with open_app() as app:
        with pytest.raises(WrongUse, match=r"workflow flow was awaited inside step main/outer#1"):
            await (await app.start(nested())).result()


# -- in a workflow --------------------------------------------------------------------------


async def test_a_sync_step_called_directly_in_an_async_workflow_names_call(open_app: OpenApp) -> None:
    @workflow
    async def direct() -> int:
        return add(1, 2)

    async with open_app() as app:
        with pytest.raises(WrongUse, match=r"write: await add\.call\(\.\.\.\)"):
            await (await app.start(direct())).result()


async def test_call_runs_a_sync_step_in_a_thread_of_an_async_workflow(open_app: OpenApp) -> None:
    threads = []

    @step
    def where() -> str:
        threads.append(threading.current_thread())
        return outlast.current.step_id or ""

    @workflow
    async def indirect() -> str:
        return await where.call()

    async with open_app() as app:
        assert await (await app.start(indirect())).result() == "main/where#1"
    assert threads[0] is not threading.current_thread()


async def test_call_of_an_async_step_is_the_same_as_calling_it(open_app: OpenApp) -> None:
    @workflow
    async def both() -> list[str]:
        return [await fetch.call("a"), await fetch("b")]

    async with open_app() as app:
        run = await app.start(both())
        assert await run.result() == ["fetched a", "fetched b"]
        assert [s.id for s in await run.steps()] == ["main/fetch#1", "main/fetch#2"]


async def test_result_of_a_call_in_an_async_workflow_is_refused(open_app: OpenApp) -> None:
    @workflow
    async def waiting() -> str:
        call = fetch("x")
        try:
            return call.result()
        finally:
            call.close()

    async with open_app() as app:
        with pytest.raises(WrongUse, match="write: await fetch"):
            await (await app.start(waiting())).result()


async def test_a_call_awaited_twice_is_refused(open_app: OpenApp) -> None:
    @workflow
    async def twice() -> str:
        call = fetch("x")
        await call
        return await call

    async with open_app() as app:
        with pytest.raises(RuntimeError, match=r"awaited before; call fetch again"):
            await (await app.start(twice())).result()


async def test_a_step_called_in_another_thread_of_a_workflow_is_refused(open_app: OpenApp) -> None:
    found: list[BaseException] = []

    @workflow
    async def threaded() -> None:
        context = contextvars.copy_context()

        def elsewhere(action: Callable[[], Any]) -> None:
            try:
                context.run(action)
            except BaseException as error:  # noqa: BLE001 - looked at below
                found.append(error)

        def drive() -> None:
            call = fetch("x")
            call.send(None)

        thread = threading.Thread(target=elsewhere, args=(drive,))
        thread.start()
        thread.join()

    async with open_app() as app:
        run = await app.start(threaded())
        await run.result()
        assert await run.steps() == []
    assert isinstance(found[0], outlast.LostRun)


async def test_a_step_called_in_a_fresh_context_is_refused(open_app: OpenApp) -> None:
    @workflow
    async def lost(once: bool) -> str:
        context = contextvars.Context()
        call = context.run(pay if once else fetch, 5 if once else "x")
        return str(await call)

    async with open_app() as app:
        for once in (False, True):
            with pytest.raises(outlast.LostRun, match="lost its run"):
                await (await app.start(lost(once))).result()
    assert calls == []


async def test_what_needs_a_real_event_loop_is_refused_in_a_body_and_names_steps(open_app: OpenApp) -> None:
    def blocking() -> None:
        calls.append("blocking")

    attempts: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "to_thread": lambda: asyncio.to_thread(blocking),
        "executor": lambda: _executor(blocking),
        "connection": lambda: asyncio.open_connection("localhost", 1),
        "subprocess": lambda: asyncio.create_subprocess_exec("true"),
        "as_completed": _as_completed,
    }

    @workflow
    async def reaching(name: str) -> None:
        await attempts[name]()

    async with open_app() as app:
        for name in attempts:
            with pytest.raises(outlast.NotDeterministic, match=r"step|pass tasks"):
                await (await app.start(reaching(name))).result()
    assert calls == []


async def _executor(function: Callable[[], None]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, function)


async def _as_completed() -> None:
    async def nothing() -> None: ...

    for future in asyncio.as_completed([nothing()]):
        await future
