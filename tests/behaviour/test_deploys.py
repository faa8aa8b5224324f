"""A run goes on under changed code, unless it no longer does what its journal recorded: then both sides are shown."""

from __future__ import annotations

import asyncio
import re
import sys
import types
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import outlast
from outlast import NotResumable, step, workflow
from tests.behaviour.flows import executed
from tests.behaviour.stage import Ears, OpenApp, Restart, reaches, stuck


def deploy(body: Callable[[], Awaitable[Any]]) -> Any:
    """Bring out a version of the workflow `flow`; the next one replaces it, as a new process with new code would."""

    @workflow
    async def flow() -> Any:
        return await body()

    return flow


@step
async def a(what: Any = None) -> Any:
    executed.append("a")
    return what


@step
async def b(what: Any = None) -> Any:
    executed.append("b")
    return what


@step
async def c() -> None:
    executed.append("c")


async def under_new_code(
    restart: Restart, open_app: OpenApp, old: Callable[[], Awaitable[Any]], new: Callable[[], Awaitable[Any]]
) -> Any:
    """Run the old body up to its restart, and let the new one go on. Return the result."""
    run_id = await restart.run(deploy(old)())
    deploy(new)
    async with open_app() as app:
        return await (await app.get(run_id)).result()


async def test_a_change_behind_the_point_a_run_has_reached_just_works(restart: Restart, open_app: OpenApp) -> None:
    async def old() -> str:
        await a()
        await restart.point()
        return "old"

    async def new() -> str:
        await a()
        await restart.point()
        await b()
        return "new"

    assert await under_new_code(restart, open_app, old, new) == "new"
    assert executed == ["a", "b"]


async def test_a_change_of_comments_or_other_workflows_changes_nothing(restart: Restart, open_app: OpenApp) -> None:
    async def old() -> str:
        await a()
        await restart.point()
        return "done"

    @workflow
    async def unrelated() -> None: ...

    assert await under_new_code(restart, open_app, old, old) == "done"


# -- patched ------------------------------------------------------------------------------------


async def test_patched_keeps_a_run_that_passed_here_on_its_old_course(restart: Restart, open_app: OpenApp) -> None:
    async def old() -> str:
        await a()
        await restart.point()
        return "old"

    async def new() -> str:
        if outlast.patched("b before a"):
            await b()
        await a()
        await restart.point()
        return "patched" if outlast.patched("b before a") else "as before"

    assert await under_new_code(restart, open_app, old, new) == "as before"
    assert executed == ["a"]
    async with open_app() as app:
        assert await (await app.start(deploy(new)())).result() == "patched"
    assert executed == ["a", "b", "a"]


async def test_patched_stays_true_for_a_run_that_took_the_new_side(restart: Restart) -> None:
    @workflow
    async def flow() -> list[bool]:
        first = outlast.patched("change")
        if first:
            await b()
        await restart.point()
        await a()
        return [first, outlast.patched("change")]

    assert await restart.result(flow()) == [True, True]
    assert executed == ["b", "a"]


async def test_patched_is_true_in_a_run_that_had_not_yet_come_there(restart: Restart, open_app: OpenApp) -> None:
    async def old() -> str:
        await a()
        await restart.point()
        await a()
        return "old"

    async def new() -> str:
        await a()
        await restart.point()
        if outlast.patched("b instead"):
            await b()
            return "new"
        await a()
        return "old"

    assert await under_new_code(restart, open_app, old, new) == "new"
    assert executed == ["a", "b"]


async def test_a_patch_in_a_loop_holds_for_the_whole_run(restart: Restart, open_app: OpenApp) -> None:
    async def old() -> int:
        for _ in range(3):
            await a()
        await restart.point()
        return 0

    async def new() -> int:
        sides = []
        for _ in range(3):
            if outlast.patched("loop"):
                await b()
            else:
                await a()
            sides.append(outlast.patched("loop"))
        await restart.point()
        return sum(sides)

    assert await under_new_code(restart, open_app, old, new) == 0
    assert executed == ["a", "a", "a"]


@pytest.mark.parametrize("key", [5, None, b"x", "a\0", "\ud800", "two\nlines"], ids=repr)
async def test_a_change_is_named_by_text_that_every_store_can_keep(open_app: OpenApp, key: Any) -> None:
    @workflow
    async def flow() -> str:
        try:
            outlast.patched(key)
        except outlast.WrongUse as refused:
            return str(refused)
        return "taken"

    async with open_app() as app:
        assert "printable characters" in await (await app.start(flow())).result()


# -- diverged -----------------------------------------------------------------------------------


async def other_name() -> None:
    await b()


async def other_arguments() -> None:
    await a("other")


async def nothing_at_all() -> None:
    await asyncio.sleep(3600)


async def ends_at_once() -> None:
    return None


async def raises() -> None:
    raise ValueError("new bug")


async def as_child() -> None:
    await deploy_child()()


def deploy_child() -> Any:
    @workflow(name="a")
    async def child(what: Any = None) -> None: ...

    return child


@pytest.mark.parametrize(
    ("new", "says"),
    [
        (other_name, "the code makes no such call at this point; it waits for main/b#1"),
        (other_arguments, r"the code calls it with other arguments: \[\"other\"\]"),
        (nothing_at_all, "makes no such call at this point; it waits for main/!timer#1"),
        (ends_at_once, "code:    returned"),
        (raises, r"flow raised ValueError: new bug \(.*test_deploys.py:\d+ in raises\), but its journal goes on"),
        (as_child, "the code calls the workflow a here"),
    ],
)
async def test_a_run_that_its_code_no_longer_fits_gets_stuck_with_both_sides_shown(
    restart: Restart, open_app: OpenApp, new: Callable[[], Awaitable[Any]], says: str
) -> None:
    async def old() -> None:
        await a("first")
        await restart.point()

    run_id = await restart.run(deploy(old)())
    executed.clear()
    deploy(new)
    async with open_app() as app:
        run = await app.get(run_id)
        journal = await run.steps()
        info = await stuck(run)
        assert (info.status, info.reason) == ("stuck", "diverged")
        assert f'#{journal[0].seq} step main/a#1 ["first"]' in info.detail
        assert [s for s in await run.steps() if s.state == "done"] == [s for s in journal if s.state == "done"]
        assert f"outlast resume {run_id}" in info.detail
        assert re.search(says, info.detail), info.detail
    assert executed == []


async def test_a_diverged_run_goes_on_when_the_old_code_is_back(restart: Restart, open_app: OpenApp) -> None:
    async def old() -> str:
        await a("first")
        await restart.point()
        return "as before"

    run_id = await restart.run(deploy(old)())
    deploy(other_name)
    async with open_app() as app:
        await stuck(await app.get(run_id))
    deploy(old)
    async with open_app() as app:
        run = await app.get(run_id)
        assert await run.status() == "stuck"  # it waits for a person
        await app.resume(run_id)
        assert await run.result() == "as before"
    assert executed == ["a"]


async def test_a_diverged_run_gets_stuck_again_and_again_until_it_is_mended(
    restart: Restart, open_app: OpenApp, ears: Ears
) -> None:
    async def old() -> None:
        await a("first")
        await restart.point()

    run_id = await restart.run(deploy(old)())
    deploy(other_name)
    async with open_app(on_event=ears) as app:
        run = await app.get(run_id)
        for times in (1, 2, 3):
            await ears.hear("run.stuck", times, run=run_id, reason="diverged")
            await reaches(run, "stuck")
            await app.resume(run_id)
        await ears.hear("run.stuck", 4, run=run_id)


async def test_a_diverged_run_can_be_cancelled_and_forked(restart: Restart, open_app: OpenApp) -> None:
    async def old() -> str:
        await a("first")
        await b()
        await restart.point()
        return "old"

    async def new() -> str:
        await a("first")
        await c()
        return "new"

    run_id = await restart.run(deploy(old)())
    deploy(new)
    async with open_app() as app:
        run = await app.get(run_id)
        await stuck(run)
        fork = await app.fork(run_id, "b")
        assert await fork.result() == "new"
        await run.cancel()
        assert await run.status() == "cancelled"
    assert executed == ["a", "b", "c"]


async def test_a_step_that_may_have_other_arguments_does_not_diverge_by_them(
    restart: Restart, open_app: OpenApp
) -> None:
    @step(check_args=False)
    async def lenient(what: str) -> str:
        return what

    async def old() -> str:
        got = await lenient("old prompt")
        await restart.point()
        return got

    async def new() -> str:
        got = await lenient("new prompt")
        await restart.point()
        return got

    assert await under_new_code(restart, open_app, old, new) == "old prompt"


async def test_long_arguments_are_compared_by_digest(restart: Restart, open_app: OpenApp) -> None:
    async def old() -> None:
        await a("x" * 10_000)
        await restart.point()

    async def new() -> None:
        await a("x" * 9_999 + "y")
        await restart.point()

    run_id = await restart.run(deploy(old)())
    async with open_app() as app:
        await (await app.get(run_id)).result()
    run_id = await restart.run(deploy(old)())
    deploy(new)
    async with open_app() as app:
        assert "other arguments" in (await stuck(await app.get(run_id))).detail


async def test_a_result_whose_class_is_gone_sticks_the_run_and_names_it(restart: Restart, open_app: OpenApp) -> None:
    module = types.ModuleType("outlast_gone")  # a class that a deploy takes away
    sys.modules["outlast_gone"] = module
    exec("import dataclasses\n@dataclasses.dataclass\nclass Gone:\n    x: int = 1", module.__dict__)

    @step
    async def give() -> Any:
        return module.Gone()

    async def old() -> int:
        got = await give()
        await restart.point()
        return int(got.x)

    run_id = await restart.run(deploy(old)())
    del sys.modules["outlast_gone"]
    async with open_app() as app:
        info = await stuck(await app.get(run_id))
        assert info.reason == "undecodable"
        assert "Gone" in info.detail
        sys.modules["outlast_gone"] = module
        try:
            await app.resume(run_id)
            assert await (await app.get(run_id)).result() == 1
        finally:
            del sys.modules["outlast_gone"]


async def test_a_resume_names_what_it_cannot_take_up(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(deploy(ends_at_once)(), id="one")
        await run.result()
        with pytest.raises(NotResumable, match="only failed, cancelled and stuck runs"):
            await app.resume("one")
