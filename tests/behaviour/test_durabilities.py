"""What a crash may forget, by a workflow's choice: never a message, a child or a result."""

from __future__ import annotations

from typing import Any

import pytest

import outlast
from outlast import WrongUse, step, workflow
from outlast.runtime import execution
from outlast.stores.verbs import Finish, Write
from tests.behaviour.flows import double, executed, note, sleeping
from tests.behaviour.gated_store import Gate
from tests.behaviour.stage import OpenApp, eventually, failure, reaches


@workflow(durability="async")
async def in_a_hurry(n: int) -> list[Any]:
    return [await note(i) for i in range(n)]


@workflow(durability="exit")
async def at_the_end(n: int) -> list[Any]:
    return [await note(i) for i in range(n)]


@workflow
async def safely(n: int) -> list[Any]:
    return [await note(i) for i in range(n)]


async def test_it_is_recorded_with_the_run(open_app: OpenApp) -> None:
    async with open_app() as app:
        for call, name in (
            (safely(1), "sync"),
            (in_a_hurry(1), "async"),
            (at_the_end(1), "exit"),
            (safely.options(durability="exit")(1), "exit"),
            (at_the_end.options(durability="sync")(1), "sync"),
        ):
            run = await app.start(call)
            assert await run.result() == [0]
            assert (await run.info()).durability == name
            assert len(await run.steps()) == 1


@pytest.mark.parametrize("flow", [in_a_hurry, at_the_end])
async def test_a_step_does_not_wait_for_the_commit_of_those_before(open_app: OpenApp, gate: Gate, flow: Any) -> None:
    async with open_app() as app:
        run = await app.start(flow(20))
        gate.hold(Write, Finish)
        await eventually(lambda: len(executed) == 20)
        gate.release()
        assert await run.result() == list(range(20))
        assert len(await run.steps()) == 20


@workflow(durability="exit")
async def resting(n: int) -> list[Any]:
    found = [await note(i) for i in range(n)]
    found.append(await outlast.receive("go"))
    return [*found, await note("after")]


async def test_at_the_exit_all_is_written_in_one_go_when_it_rests_and_when_it_ends(
    open_app: OpenApp, gate: Gate
) -> None:
    async with open_app() as app:
        run = await app.start(resting(20), id="one")
        await reaches(run, "waiting")
        assert [len(verb.records) for verb in gate.committed if isinstance(verb, Write)] == [20]
    async with open_app() as app:
        run = await app.get("one")
        await run.send("go", "now")
        assert await run.result() == [*range(20), "now", "after"]
        assert len(await run.steps()) == 22
    assert executed == [*range(20), "after"]


@workflow(durability="exit")
async def with_others(to: str) -> list[Any]:
    first = await note("first")
    await outlast.send(to, "told", first)
    return [first, await double(4), await safely(2)]


@workflow
async def listening() -> Any:
    return await outlast.receive("told")


async def test_a_message_or_a_child_waits_for_what_was_recorded_before(open_app: OpenApp, gate: Gate) -> None:
    async with open_app() as app:
        other = await app.start(listening(), id="other")
        gate.hold(Write)
        run = await app.start(with_others("other"))
        await eventually(lambda: bool(gate.waiting))
        assert executed == ["first"]
        assert await other.messages() == []
        gate.release()
        assert await other.result() == "first"
        assert await run.result() == ["first", 8, [0, 1]]


@workflow(durability="exit")
async def long(n: int) -> int:
    return sum([await double(i) for i in range(n)])


async def test_what_is_kept_back_is_bounded(open_app: OpenApp, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "BACKLOG_RECORDS", 10)
    async with open_app() as app:
        assert await (await app.start(long(35))).result() == 35 * 34
    assert [len(verb.records) for verb in gate.committed if isinstance(verb, Write)] == [10, 10, 10, 5]


@step(effect="once")
async def pay() -> None:
    executed.append("paid")


@workflow
async def paying() -> None:
    await pay()


@workflow
async def undoing() -> None:
    outlast.compensate(pay())


@pytest.mark.parametrize("flow", [paying, undoing])
@pytest.mark.parametrize("durability", ["async", "exit"])
async def test_a_once_step_is_refused_where_a_crash_may_forget_it(
    open_app: OpenApp, flow: Any, durability: Any
) -> None:
    async with open_app() as app:
        error = await failure(await app.start(flow.options(durability=durability)()))
        assert isinstance(error, WrongUse)
        assert "main/pay#1 has effect='once'" in str(error)
    assert executed == []


async def test_a_run_that_is_handed_back_leaves_its_records(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(sleeping.options(durability="exit")(3600), id="one")
        await eventually(lambda: _runs(run))
    async with open_app() as app:
        run = await app.get("one")
        await run.cancel()
        await failure(run)


async def _runs(run: Any) -> bool:
    return (await run.info()).started is not None


def test_there_are_three() -> None:
    with pytest.raises(WrongUse, match="must be 'sync', 'async' or 'exit'"):

        @workflow(durability="never")  # type: ignore[call-overload]
        async def flow() -> None: ...

    with pytest.raises(WrongUse, match="must be 'sync'"):
        safely.options(durability="never")  # type: ignore[arg-type]


@workflow
async def turning(n: int) -> str:
    if n:
        outlast.continue_as(turning.options(durability="exit")(n - 1))
    return "done"


async def test_a_turn_may_have_another(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(turning(1))
        assert await run.result() == "done"
        assert (await run.info()).durability == "exit"
