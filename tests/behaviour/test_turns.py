"""A run that lives long goes on as another call, with an empty journal: nothing that was sent to it is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast
from outlast import RunCancelled, RunConflict, WrongUse, step, workflow
from tests.behaviour.flows import executed, note
from tests.behaviour.stage import Door, OpenApp, eventually, failure, reaches

at_work = Door()


@workflow
async def counting(n: int, last: int) -> list[int]:
    await note(n)
    if n < last:
        outlast.continue_as(counting(n + 1, last))
    return [n]


@workflow
def sync_counting(n: int, last: int) -> list[int]:
    note.call(n).result()
    if n < last:
        outlast.continue_as(sync_counting(n + 1, last))
    return [n]


@pytest.mark.parametrize("flow", [counting, sync_counting])
async def test_each_turn_begins_anew_and_the_result_is_that_of_the_last(open_app: OpenApp, flow: Any) -> None:
    async with open_app() as app:
        run = await app.start(flow(1, 4), id="one")
        first = (await run.info()).incarnation
        assert await run.result() == [4]
        info = await run.info()
        assert (info.turn, info.status, info.id) == (4, "succeeded", "one")
        assert info.incarnation != first
        assert [s.id for s in await run.steps()] == ["main/note#1"]
    assert executed == [1, 2, 3, 4]


async def test_the_call_that_started_it_still_gives_the_run_and_no_other_does(open_app: OpenApp) -> None:
    async with open_app() as app:
        await (await app.start(counting(1, 3), id="one")).result()
        assert await (await app.start(counting(1, 3), id="one")).result() == [3]
        with pytest.raises(RunConflict):
            await app.start(counting(3, 3), id="one")
    assert executed == [1, 2, 3]


@workflow
async def handing_over(n: int) -> Any:
    await outlast.receive("turn")
    outlast.continue_as(taking_over(n))


@workflow
async def taking_over(n: int) -> Any:
    return [n, await outlast.receive("turn")]


async def test_a_run_holds_its_dedup_key_by_the_call_that_started_it(open_app: OpenApp) -> None:
    once = handing_over.options(dedup="k")
    async with open_app() as app:
        run = await app.start(once(1))
        await run.send("turn")
        await eventually(lambda: _has_turn(run, 2))
        assert (await app.start(once(1))).id == run.id
        for other in (once(2), taking_over.options(dedup="k")(2)):
            with pytest.raises(RunConflict, match=run.id):
                await app.start(other)
        await run.send("turn", "on")
        assert await run.result() == [1, "on"]
        assert (await app.start(once(1))).id != run.id


async def test_a_run_goes_on_as_a_workflow_of_which_another_run_holds_its_dedup_key(open_app: OpenApp) -> None:
    async with open_app() as app:
        holder = await app.start(taking_over.options(dedup="k")(1))
        run = await app.start(handing_over.options(dedup="k")(2))
        await run.send("turn")
        await run.send("turn", "on")
        assert await run.result() == [2, "on"]
        assert (await app.start(taking_over.options(dedup="k")(1))).id == holder.id


@step
async def key() -> str:
    return outlast.idempotency_key()


@workflow
async def drawing(seen: list[str], turns: int) -> list[str]:
    seen = [*seen, str(outlast.uuid4()), await key(), str(outlast.now().timestamp())]
    if turns > 1:
        return outlast.continue_as(drawing(seen, turns - 1))
    return seen


async def test_no_key_and_no_id_comes_twice_and_time_goes_on(open_app: OpenApp) -> None:
    async with open_app() as app:
        seen = await (await app.start(drawing([], 3))).result()
    assert len(set(seen[0::3])) == len(set(seen[1::3])) == 3
    times = [float(t) for t in seen[2::3]]
    assert times == sorted(times)


@workflow
async def adding(seen: list[int], per_turn: int, last: int) -> list[int]:
    for _ in range(per_turn):
        seen.append(await outlast.receive("n", type=int))
        if seen[-1] == last:
            return seen
    return outlast.continue_as(adding(seen, per_turn, last))


async def test_of_a_thousand_messages_each_comes_once_in_order(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(adding([], 10, -1))

        async def pour(sender: int) -> None:
            for n in range(20):
                for _ in range(1 + (n == 7)):  # one is repeated, perhaps a turn later
                    await run.send("n", sender * 20 + n, id=f"{sender}/{n}")

        await asyncio.gather(*map(pour, range(50)))
        await run.send("n", -1)
        seen = await run.result()
        assert sorted(seen) == list(range(-1, 1000))
        for sender in range(50):
            mine = [n for n in seen if n // 20 == sender]
            assert mine == sorted(mine)
        assert (await run.info()).turn == 101


async def test_a_restart_between_turns_loses_nothing(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(adding([], 2, 5), id="one")
        for n in range(3):
            await run.send("n", n)
        await reaches(run, "waiting")
    async with open_app() as app:
        run = await app.get("one")
        for n in range(3, 6):
            await run.send("n", n)
        assert await run.result() == list(range(6))


@workflow
async def parent() -> list[int]:
    return [await outlast.call(_seven), *(await counting(1, 3))]


def _seven() -> int:
    return 7


async def test_a_parent_gets_the_result_of_the_last_turn(open_app: OpenApp) -> None:
    async with open_app() as app:
        assert await (await app.start(parent())).result() == [7, 3]


@workflow
async def slow_child() -> str:
    await outlast.receive("go")
    return "went"


@workflow
async def leaving_children(turn: int) -> int:
    if turn == 1:
        await outlast.start(slow_child(), id="started")
        asyncio.create_task(slow_child.options(id="awaited")())  # noqa: RUF006
        await note("both")
        outlast.continue_as(leaving_children(2))
    await outlast.receive("end")
    return turn


async def test_children_that_were_started_go_on_without_a_parent(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(leaving_children(1))
        await eventually(lambda: _has_turn(run, 2))
        child = await app.get("started")
        assert (await child.info()).parent == ""
        await child.send("go")
        assert await child.result() == "went"
        await run.send("end")
        assert await run.result() == 2


async def _has_turn(run: Any, turn: int) -> bool:
    return bool((await run.info()).turn == turn)


@workflow
async def catching(how: str) -> str:
    try:
        if how == "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(_continue())
        if how != "group":
            outlast.continue_as(counting(2, 2))
    except Exception:  # noqa: BLE001 - as code does that catches whatever goes wrong
        executed.append("caught")
    except BaseException:
        if how == "swallowed":
            return "on I go"
        raise
    finally:
        await note("cleaned up")
    return "never"


async def _continue() -> None:
    outlast.continue_as(counting(2, 2))


@pytest.mark.parametrize("how", ["plain", "group"])
async def test_it_passes_where_errors_are_caught_and_what_is_to_be_cleaned_up_is(open_app: OpenApp, how: str) -> None:
    async with open_app() as app:
        assert await (await app.start(catching(how))).result() == [2]
    assert executed == ["cleaned up", 2]


async def test_a_body_that_catches_it_and_goes_on_fails_and_is_told(open_app: OpenApp) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse, match=r"asked to continue as counting\(\.\.\.\), caught"):
            await (await app.start(catching("swallowed"))).result()


@workflow
async def continuing_in_clean_up() -> None:
    try:
        await asyncio.sleep(3600)
    finally:
        outlast.continue_as(counting(1, 1))


async def test_a_run_that_is_cancelled_does_not_go_on(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(continuing_in_clean_up())
        await reaches(run, "waiting")
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)
        assert (await run.info()).turn == 1


@workflow
async def endless(n: int) -> None:
    await note(n)
    outlast.continue_as(endless(n + 1))


async def test_a_cancellation_reaches_a_run_that_is_always_between_turns(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(endless(1))
        await eventually(lambda: len(executed) > 5)
        await run.cancel()
        assert isinstance(await failure(run), RunCancelled)


@workflow
async def misusing(how: str) -> None:
    if how == "step":
        outlast.continue_as(note(1))
    if how == "value":
        outlast.continue_as(1)  # type: ignore[arg-type]
    call = counting(1, 1)
    await call
    outlast.continue_as(call)


@pytest.mark.parametrize(
    ("how", "text"), [("step", "takes the call of a workflow"), ("value", "takes the"), ("used", "was started before")]
)
async def test_what_it_cannot_go_on_as_is_refused(open_app: OpenApp, how: str, text: str) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse, match=text):
            await (await app.start(misusing(how))).result()


line = outlast.queue("line", concurrency=1)


@pytest.mark.parametrize("options", [{"timeout": 5}, {"delay": 5}, {"id": "x"}, {"queue": line}], ids=str)
async def test_it_cannot_go_on_with_options_that_belong_to_a_start(open_app: OpenApp, options: dict[str, Any]) -> None:
    @workflow
    async def choosing() -> None:
        outlast.continue_as(counting.options(**options)(2, 2))

    async with open_app() as app:
        with pytest.raises(WrongUse, match="cannot continue as counting with options of its own"):
            await (await app.start(choosing())).result()


async def test_it_keeps_its_queue_and_its_deadline(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(counting.options(queue=line, priority=3, queue_key="ada", timeout=3600)(1, 3))
        before = await run.info()
        assert await run.result() == [3]
        after = await run.info()
        for kept in (before, after):
            assert (kept.queue, kept.queue_key, kept.priority) == ("line", "ada", 3)
        assert after.deadline == before.deadline is not None


@workflow
async def forgetting() -> None:
    outlast.compensate(note("undone"))
    outlast.continue_as(counting(2, 2))


async def test_the_end_of_a_turn_undoes_nothing(open_app: OpenApp) -> None:
    async with open_app() as app:
        assert await (await app.start(forgetting())).result() == [2]
    assert executed == [2]
