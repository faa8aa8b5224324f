"""Forking starts a new run from what another had recorded before a step; the original is left alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast
from outlast import NotResumable, Retry, RunConflict, RunNotFound, WrongUse, step, workflow
from tests.behaviour.stage import OpenApp, failure, reaches

executed: list[Any] = []
version: list[str] = []


@pytest.fixture(autouse=True)
def first_version() -> None:
    executed.clear()
    version[:] = ["old"]


@step
async def note(what: Any) -> str:
    executed.append(what)
    return f"{version[0]} {what}"


@step
async def key() -> str:
    return outlast.idempotency_key()


@step(effect="once")
async def pay(cents: int) -> str:
    executed.append("pay")
    return f"{version[0]} receipt"


@workflow
async def flow() -> list[Any]:
    return [await note("a"), await note("b"), await note("c")]


@workflow
async def shopping() -> list[Any]:
    return [await note("before"), await pay(5), await note("after")]


async def test_a_fork_keeps_what_came_before_the_step_and_does_the_rest_anew(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        assert await run.result() == ["old a", "old b", "old c"]
        version[:] = ["new"]
        fork = await app.fork("one", "main/note#2", new_id="two")
        assert fork.id == "two"
        assert await fork.result() == ["old a", "new b", "new c"]
    assert executed == ["a", "b", "c", "b", "c"]


async def test_the_original_is_left_alone(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await run.result()
        before = (await run.info(), await run.steps())
        await (await app.fork("one", "main/note#2")).result()
        assert (await run.info(), await run.steps()) == before
        assert await run.result() == ["old a", "old b", "old c"]


async def test_a_fork_gets_a_new_id_and_a_new_incarnation(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await run.result()
        first, second = await app.fork("one", "main/note#1"), await app.fork("one", "main/note#1")
        assert len({run.id, first.id, second.id}) == 3
        assert first.id.startswith("one.fork-")
        incarnations = {(await r.info()).incarnation for r in (run, first, second)}
        assert len(incarnations) == 3
        await asyncio.gather(first.result(), second.result())


async def test_a_step_can_be_named_by_its_name_and_the_first_is_meant(open_app: OpenApp) -> None:
    async with open_app() as app:
        await (await app.start(flow(), id="one")).result()
        version[:] = ["new"]
        assert await (await app.fork("one", "note")).result() == ["new a", "new b", "new c"]


async def test_what_is_done_anew_gets_new_idempotency_keys(open_app: OpenApp) -> None:
    @workflow
    async def keys() -> list[str]:
        return [await key(), await key()]

    async with open_app() as app:
        kept, old = await (await app.start(keys(), id="one")).result()
        again, new = await (await app.fork("one", "main/key#2")).result()
    assert again == kept
    assert new != old


async def test_a_fork_before_a_once_step_must_be_told_to_repeat_it(open_app: OpenApp) -> None:
    async with open_app() as app:
        await (await app.start(shopping(), id="one")).result()
        for before in ("main/note#1", "main/pay#1"):
            with pytest.raises(NotResumable, match=r"would do step main/pay#1 again.*repeat_once=True"):
                await app.fork("one", before, new_id="two")
        with pytest.raises(RunNotFound):
            await app.get("two")
        version[:] = ["new"]
        fork = await app.fork("one", "main/pay#1", repeat_once=True)
        assert await fork.result() == ["old before", "new receipt", "new after"]
    assert executed == ["before", "pay", "after", "pay", "after"]


async def test_a_fork_after_a_once_step_keeps_its_outcome(open_app: OpenApp) -> None:
    async with open_app() as app:
        await (await app.start(shopping(), id="one")).result()
        version[:] = ["new"]
        fork = await app.fork("one", "main/note#2")
        assert await fork.result() == ["old before", "old receipt", "new after"]
    assert executed == ["before", "pay", "after", "after"]


async def test_a_failed_run_can_be_forked_before_its_failure(open_app: OpenApp) -> None:
    @step
    async def flaky() -> str:
        if version[0] == "old":
            raise ConnectionError
        return "up"

    @workflow
    async def fragile() -> list[str]:
        return [await note("a"), await flaky()]

    async with open_app() as app:
        run = await app.start(fragile(), id="one")
        assert isinstance(await failure(run), ConnectionError)
        version[:] = ["new"]
        assert await (await app.fork("one", "flaky")).result() == ["old a", "up"]
        assert isinstance(await failure(run), ConnectionError)


async def test_draws_of_the_copied_part_are_those_of_the_original(open_app: OpenApp) -> None:
    @workflow
    async def drawing() -> list[Any]:
        first = await note(outlast.uuid4())
        second = await note(outlast.random.randrange(10**9))
        third = await note(outlast.uuid4())
        return [first, second, third, outlast.uuid4(), str(outlast.now())]

    async with open_app() as app:
        original = await (await app.start(drawing(), id="one")).result()
        fork = await (await app.fork("one", "main/note#3")).result()
    assert fork[:3] == original[:3]  # the third has the same argument: it was drawn in the copied part
    assert fork[3] != original[3]


async def test_draws_of_the_new_part_are_new_after_a_retried_step(open_app: OpenApp) -> None:
    @step(retry=Retry(attempts=3, initial=0))
    async def flaky() -> int:
        if outlast.attempt() < 3 and version[0] == "old":
            raise ConnectionError
        return outlast.attempt()

    @workflow
    async def drawing() -> list[Any]:
        await note("a")
        await flaky()
        return [outlast.uuid4(), await note("b"), outlast.uuid4()]

    async with open_app() as app:
        original = await (await app.start(drawing(), id="one")).result()
        version[:] = ["new"]
        fork = await (await app.fork("one", "flaky")).result()
    assert fork[0] != original[0]
    assert fork[2] != original[2]


async def test_a_fork_of_a_fork_replays_each_stretch_with_its_own_draws(open_app: OpenApp) -> None:
    @workflow
    async def drawing() -> list[Any]:
        return [await note(outlast.uuid4()) for _ in range(5)]

    async with open_app() as app:
        one = await (await app.start(drawing(), id="one")).result()
        two = await (await app.fork("one", "main/note#3", new_id="two")).result()
        earlier = await (await app.fork("two", "main/note#2", new_id="earlier")).result()
        later = await (await app.fork("two", "main/note#5", new_id="later")).result()
        third = await (await app.fork("later", "main/note#4", new_id="third")).result()
    assert two[:3] == one[:3]
    assert not set(two[3:]) & set(one[3:])
    assert earlier[:2] == one[:2]
    assert not set(earlier[2:]) & {*one[2:], *two[2:]}
    assert later[:5] == two[:5]
    assert third[:4] == two[:4]


async def test_a_fork_has_a_start_of_its_own_and_the_copied_part_keeps_the_originals(open_app: OpenApp) -> None:
    @workflow
    async def timing() -> list[Any]:
        began = str(outlast.now())
        return [began, await note("a"), await note("b")]

    async with open_app() as app:
        run = await app.start(timing(), id="one")
        began = (await run.result())[0]
        fork = await app.fork("one", "main/note#2", new_id="two")
        assert (await fork.result())[0] == began
        again = await app.fork("two", "main/note#1", new_id="three")
        assert (await again.result())[0] == began
        first, second, third = await run.info(), await fork.info(), await again.info()
    assert (first.started or 0) < second.created <= (second.started or 0) < third.created <= (third.started or 0)


async def test_a_fork_copies_children_that_had_ended(open_app: OpenApp) -> None:
    @workflow
    async def child(what: str) -> str:
        return await note(what)

    @workflow
    async def parent() -> list[str]:
        return [await child("x"), await note("y"), await child("z")]

    async with open_app() as app:
        await (await app.start(parent(), id="one")).result()
        version[:] = ["new"]
        assert await (await app.fork("one", "note", repeat_once=True)).result() == ["old x", "new y", "new z"]
        assert len(await app.runs(workflow="child")) == 3


async def test_a_fork_at_a_child_starts_another_child(open_app: OpenApp) -> None:
    @workflow
    async def child() -> str:
        return await note("x")

    @workflow
    async def parent() -> list[str]:
        return [await note("a"), await child()]

    async with open_app() as app:
        await (await app.start(parent(), id="one")).result()
        version[:] = ["new"]
        assert await (await app.fork("one", "main/child#1", repeat_once=True)).result() == ["old a", "new x"]


async def test_a_fork_of_parallel_branches_keeps_what_was_recorded_first(open_app: OpenApp) -> None:
    async def branch(name: str) -> list[str]:
        return [await note(f"{name}1"), await note(f"{name}2")]

    @workflow
    async def parallel() -> list[list[str]]:
        return list(await asyncio.gather(branch("a"), branch("b")))

    async with open_app() as app:
        run = await app.start(parallel(), id="one")
        await run.result()
        order = [s.id for s in await run.steps()]
        version[:] = ["new"]
        fork = await app.fork("one", order[2])
        results = await fork.result()
    flat = [item for branch in results for item in branch]
    assert sorted(item.split()[0] for item in flat) == ["new", "new", "old", "old"]


async def test_a_run_that_has_not_ended_is_forked_by_who_says_that_once_steps_may_happen_twice(
    open_app: OpenApp,
) -> None:
    @workflow
    async def resting() -> list[str]:
        first, second = await note("a"), await note("b")
        if version[0] == "old":
            await asyncio.sleep(3600)
        return [first, second]

    async with open_app() as app:
        run = await app.start(resting(), id="one")
        await reaches(run, "waiting")
        version[:] = ["new"]
        with pytest.raises(
            NotResumable, match=r"has not ended \(waiting\).*both go on.*outlast cancel one.*repeat_once=True"
        ):
            await app.fork("one", "main/note#2", new_id="two")
        with pytest.raises(RunNotFound):
            await app.get("two")
        fork = await app.fork("one", "main/note#2", repeat_once=True)
        assert await fork.result() == ["old a", "new b"]
        assert await run.status() == "waiting"


async def test_the_fork_of_a_run_that_was_cancelled_before_its_once_step_does_it_alone(open_app: OpenApp) -> None:
    @workflow
    async def paying_later() -> list[str]:
        first = await note("a")
        if version[0] == "old":
            await asyncio.sleep(3600)
        return [first, await pay(5)]

    async with open_app() as app:
        run = await app.start(paying_later(), id="one")
        await reaches(run, "waiting")
        await run.cancel()
        await failure(run)
        version[:] = ["new"]
        assert await (await app.fork("one", "note")).result() == ["new a", "new receipt"]
    assert executed.count("pay") == 1


async def test_an_unknown_step_or_a_taken_id_forks_nothing(open_app: OpenApp) -> None:
    async with open_app() as app:
        await (await app.start(flow(), id="one")).result()
        with pytest.raises(NotResumable, match="has recorded no step 'nothing'"):
            await app.fork("one", "nothing")
        with pytest.raises(RunConflict, match="'one' exists already, so nothing was forked"):
            await app.fork("one", "note", new_id="one")
        with pytest.raises(WrongUse, match="run id"):
            await app.fork("one", "note", new_id="")
        assert len(await app.runs()) == 1


async def test_the_same_fork_asked_for_again_is_the_same_run(open_app: OpenApp) -> None:
    """Whoever did not see the answer may ask again."""
    async with open_app() as app:
        await (await app.start(flow(), id="one")).result()
        first = await app.fork("one", "main/note#2", new_id="copy")
        again = await app.fork("one", "main/note#2", new_id="copy")
        assert (await again.info()).incarnation == (await first.info()).incarnation
        assert await again.result() == await first.result()
        assert (await (await app.fork("one", "main/note#2", new_id="copy")).info()).status == "succeeded"
        for other in ("main/note#1", "main/note#3"):
            with pytest.raises(RunConflict):
                await app.fork("one", other, new_id="copy")
        assert len(await app.runs()) == 2


async def test_the_fork_of_a_run_with_the_longest_id_has_an_id_too(open_app: OpenApp) -> None:
    async with open_app() as app:
        await (await app.start(flow(), id="x" * 255)).result()
        fork = await app.fork("x" * 255, "main/note#3")
        assert await fork.result() == ["old a", "old b", "old c"]
