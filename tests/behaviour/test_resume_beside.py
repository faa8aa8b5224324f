"""Resuming keeps what was done beside a failed step, and drops only what came of its failure."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast
from outlast import NotResumable, step, workflow
from tests.behaviour.flows import executed
from tests.behaviour.stage import Door, OpenApp, failure, stuck

healthy: list[bool] = []


@pytest.fixture(autouse=True)
def sick() -> None:
    healthy.clear()


@step(effect="pure")
async def flaky() -> str:
    executed.append("flaky")
    if not healthy:
        raise ConnectionError("down")
    return "up"


@step(effect="pure")
async def think(what: Any) -> Any:
    executed.append(what)
    return what


@step
async def save(what: Any) -> Any:
    executed.append(what)
    return what


@workflow
async def child(what: Any) -> Any:
    return await save(what)


async def resumed(app: outlast.App, call: outlast.Call[Any]) -> Any:
    """Run a call that fails, resume it when all is well, and return its result."""
    run = await app.start(call, id="one")
    assert isinstance(await failure(run), (ConnectionError, ExceptionGroup))
    healthy.append(True)
    return await (await app.resume("one")).result()


async def attempted(*work: Any) -> list[Any]:
    """Wait for all, and raise the first error only then."""
    got = await asyncio.gather(*work, return_exceptions=True)
    for each in got:
        if isinstance(each, BaseException):
            raise each
    return got


async def test_what_another_task_did_after_the_failure_is_not_done_again(open_app: OpenApp) -> None:
    async def beside() -> list[Any]:
        done = [await think(0), await save(1), await child(2)]
        await asyncio.sleep(0.01)
        with outlast.scope("late"):
            return [*done, await think(3), await save(4)]

    @workflow
    async def parallel() -> list[Any]:
        return await attempted(flaky(), beside())

    async with open_app() as app:
        assert await resumed(app, parallel()) == ["up", [0, 1, 2, 3, 4]]
    assert sorted(map(str, executed)) == ["0", "1", "2", "3", "4", "flaky", "flaky"]


async def test_calls_made_before_the_failure_are_kept_whoever_made_them(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def slow() -> str:
        executed.append("slow")
        await door.passed()
        return "slow"

    @step(effect="pure")
    async def fails() -> str:
        await door.reached()
        try:
            return await flaky.fn()
        finally:
            door.open()

    @workflow
    async def parallel() -> list[Any]:
        return await attempted(fails(), slow())

    async with open_app() as app:
        assert await resumed(app, parallel()) == ["up", "slow"]
    assert executed.count("slow") == 1


async def test_what_came_of_the_failure_is_dropped_with_it(open_app: OpenApp) -> None:
    @workflow
    async def sorry() -> list[Any]:
        try:
            return [await flaky()]
        except ConnectionError:
            await think("what went wrong")
            await asyncio.sleep(0.01)
            await think("what to say")
            raise

    async with open_app() as app:
        assert await resumed(app, sorry()) == ["up"]
        assert [s.id for s in await (await app.get("one")).steps()] == ["main/flaky#1"]


async def test_a_finished_step_that_may_have_come_of_the_failure_is_not_done_again(open_app: OpenApp) -> None:
    door = Door()

    @step(effect="pure")
    async def fails() -> str:
        door.open()
        return await flaky.fn()

    @step(effect="pure")
    async def ends_after_it() -> None:
        await door.passed()

    @workflow
    async def in_one_line() -> list[Any]:
        task = asyncio.create_task(fails())
        await ends_after_it()
        return [await think(1), await task]

    async with open_app() as app:
        run = await app.start(in_one_line(), id="one")
        await failure(run)
        before = (await run.info(), await run.steps())
        with pytest.raises(
            NotResumable, match=r"main/think#1.*only the code could tell.*outlast fork one 'main/fails#1'"
        ):
            await app.resume("one")
        assert (await run.info(), await run.steps()) == before


async def test_a_task_that_only_remembers_the_failure_is_found_out_and_nothing_is_done_again(open_app: OpenApp) -> None:
    @workflow
    async def remembering() -> list[Any]:
        failures: list[str] = []

        async def work() -> None:
            try:
                await flaky()
            except ConnectionError as error:
                failures.append(str(error))
                raise

        async def report() -> None:
            await think("slowly")
            await think("more slowly")
            await save(f"{len(failures)} failed")

        return await attempted(work(), report())

    async with open_app() as app:
        await failure(await app.start(remembering(), id="one"))
        healthy.append(True)
        info = await stuck(await app.resume("one"))
    assert info.reason == "diverged"
    assert executed.count("flaky") + executed.count("1 failed") == 2


async def test_what_one_task_did_since_another_failed_is_not_done_again(open_app: OpenApp) -> None:
    """The failure lets a second task go on: without it, that one may still ask for the same."""

    @workflow
    async def in_turn() -> list[Any]:
        gate = asyncio.Semaphore(1)

        async def enter(work: Any, *args: Any) -> Any:
            async with gate:
                return await work(*args)

        return await attempted(enter(flaky), enter(think, 1), enter(think, 2))

    async with open_app() as app:
        run = await app.start(in_turn(), id="one")
        await failure(run)
        with pytest.raises(NotResumable, match=r"step main.enter#2/think#1 was recorded after that"):
            await app.resume("one")


async def test_an_effect_that_came_of_the_failure_in_another_task_stands_against_resuming(open_app: OpenApp) -> None:
    @workflow
    async def told() -> list[Any]:
        watching, failed = asyncio.Event(), asyncio.Event()

        async def watch() -> None:
            await think("before")
            watching.set()
            await failed.wait()
            await save("alarm")

        async def work() -> None:
            await watching.wait()
            try:
                await flaky()
            except ConnectionError:
                failed.set()
                raise

        return await attempted(work(), watch())

    async with open_app() as app:
        await failure(await app.start(told(), id="one"))
        with pytest.raises(NotResumable, match=r"step main.watch#1/save#1 was recorded after that"):
            await app.resume("one")


# -- what was given up ---------------------------------------------------------------------------


def failing_after(door: Door) -> Any:
    """Return a step that does as `flaky`, and fails only after another has come to the door."""

    @step(effect="pure")
    async def fails() -> str:
        if not healthy:
            await door.reached()
        return await flaky.fn()

    return fails


async def test_a_failure_that_came_too_late_for_the_body_does_not_fail_the_resumed_run(open_app: OpenApp) -> None:
    door = Door()
    fails = failing_after(door)

    @step
    def late() -> str:
        executed.append("late")
        if healthy:
            return "late"
        door.pass_in_thread()
        raise ValueError("down, too")

    @workflow
    async def grouped() -> list[Any]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(fails()), group.create_task(late.call())]
        except* ConnectionError:
            await think("give up")
            await opened()
            await asyncio.sleep(0.2)
            raise
        return [task.result() for task in tasks]

    @step(effect="pure")
    async def opened() -> None:
        door.open()

    async with open_app() as app:
        assert await resumed(app, grouped()) == ["up", "late"]


async def test_a_late_outcome_that_fails_a_resumed_run_can_itself_be_resumed(open_app: OpenApp) -> None:
    door = Door()
    fails = failing_after(door)

    @step(effect="once", definite=ValueError)
    def late() -> str:
        executed.append("late")
        if len(healthy) > 1:
            return "late"
        door.pass_in_thread()
        raise ValueError("no")

    @workflow
    async def unwaited() -> list[Any]:
        task = asyncio.create_task(late.call())
        got = await fails()
        return [got, await task]

    async with open_app() as app:
        run = await app.start(unwaited(), id="one")
        await door.reached()
        door.open()
        assert isinstance(await failure(run), ConnectionError)
        healthy.append(True)
        assert isinstance(await failure(await app.resume("one")), ValueError)
        healthy.append(True)
        assert await (await app.resume("one")).result() == ["up", "late"]


async def test_a_run_that_failed_by_its_own_code_fails_the_same_way_until_that_is_changed(open_app: OpenApp) -> None:
    @workflow
    async def buggy() -> None:
        await think("first")
        raise ZeroDivisionError

    async with open_app() as app:
        run = await app.start(buggy(), id="one")
        await failure(run)
        assert isinstance(await failure(await app.resume("one")), ZeroDivisionError)
    assert executed == ["first"]
