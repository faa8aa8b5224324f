"""Change under way: runs are held back and given free by version, and moved to code of another name."""

from __future__ import annotations

from typing import Any

import pytest

import outlast
from outlast import RunNotFound, WrongUse, step, workflow
from outlast.runtime import registry
from tests.behaviour.flows import executed, note
from tests.behaviour.stage import OpenApp, reaches, stuck


@workflow
async def waiting() -> Any:
    await note("before")
    return await outlast.receive("go")


@workflow
async def renamed() -> Any:
    await note("before")
    return ["renamed", await outlast.receive("go")]


@workflow
async def other() -> None:
    await step_of_another_name()


@step
async def step_of_another_name() -> None:
    executed.append("other")


async def test_runs_of_a_version_are_held_until_they_are_free_whatever_comes_for_them(open_app: OpenApp) -> None:
    async with open_app(version="v1") as app:
        run = await app.start(waiting(), id="old")
        await reaches(run, "waiting")
        assert await app.hold(version="v1") == 1
        assert (await run.info()).held
        assert "held back" in (await run.info()).detail
        await run.send("go", 1)
        assert [info.id for info in await app.runs(version="v1")] == ["old"]
    async with open_app(version="v2") as app:
        assert await (await app.start(note(1), id="new")).result() == 1
        run = await app.get("old")
        assert await run.status() == "waiting"
        assert await app.release(version="v1") == 1
        assert await run.result() == 1
        assert (await run.info()).version == "v2"


async def test_one_run_is_held_by_its_id(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(waiting(), id="one")
        await reaches(run, "waiting")
        assert await app.hold("one") == 1
        assert await app.hold("one") == 0
        await run.send("go", 2)
        assert await app.release("one") == 1
        assert await run.result() == 2


async def test_holding_nothing_in_particular_is_refused(open_app: OpenApp) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse, match="say which"):
            await app.hold()
        with pytest.raises(WrongUse, match="say which"):
            await app.release()
        with pytest.raises(RunNotFound):
            await app.hold("none")


async def test_runs_of_a_workflow_that_is_gone_go_on_as_another(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app() as app:
        run = await app.start(waiting(), id="one")
        await reaches(run, "waiting")
    monkeypatch.delitem(registry._known, "waiting")
    async with open_app() as app:
        run = await app.get("one")
        await run.send("go", 3)
        assert await app.move("waiting", "renamed") == 1
        assert await run.result() == ["renamed", 3]
        assert (await run.info()).workflow == "renamed"


async def test_runs_are_moved_beside_one_that_holds_their_dedup_key(open_app: OpenApp) -> None:
    async with open_app() as app:
        holder = await app.start(renamed.options(dedup="k")())
        runs = [await app.start(waiting.options(dedup=key)()) for key in ("k", "l")]
        for run in (holder, *runs):
            await reaches(run, "waiting")
        assert await app.move("waiting", "renamed") == 2
        assert (await app.start(renamed.options(dedup="k")())).id == holder.id
        assert (await app.start(renamed.options(dedup="l")())).id == runs[1].id
        for run in runs:
            await run.send("go", 3)
            assert await run.result() == ["renamed", 3]


async def test_one_that_its_journal_does_not_fit_is_stuck_and_can_be_moved_back(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(waiting(), id="one")
        await reaches(run, "waiting")
        await app.move("waiting", "other")
        await run.send("go", 4)
        info = await stuck(run)
        assert info.reason == "diverged"
        assert "main/note#1" in info.detail
        assert await app.move("other", "waiting") == 1
        assert await (await app.resume("one")).result() == 4
    assert executed == ["before"]


async def test_a_move_that_makes_no_sense_is_refused(open_app: OpenApp) -> None:
    async with open_app() as app:
        for to in ("", "waiting", "step:note"):
            with pytest.raises(WrongUse, match=r"cannot be moved|must be a str, not empty"):
                await app.move("waiting", to)


@workflow
async def asking() -> Any:
    return (await outlast.approve("Go on?")).by


@workflow
async def asking_as_before() -> Any:
    return ["renamed", (await outlast.approve("Go on?")).by]


async def test_a_question_stays_open_while_no_code_knows_its_run_and_its_answer_is_kept(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app() as app:
        await reaches(await app.start(asking(), id="one"), "waiting")
    monkeypatch.delitem(registry._known, "asking")
    async with open_app() as app:
        run = await app.get("one")
        (asked,) = await app.approvals()
        await app.approve(asked.id, by="bob")
        with pytest.raises(TimeoutError, match="no living worker knows asking"):
            await run.result(timeout=0)
        assert await app.move("asking", "asking_as_before") == 1
        assert await run.result() == ["renamed", "bob"]
