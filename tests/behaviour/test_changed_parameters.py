"""A workflow whose parameters a deploy changes: its runs go on where they can, and else wait for the old code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import outlast
from outlast import RunStuck, workflow
from tests.behaviour.flows import executed, note
from tests.behaviour.stage import OpenApp, reaches


def deploy(fn: Callable[..., Any]) -> Any:
    """Bring out a version of the workflow `flow`; the next one replaces it, as a new process with new code would."""
    fn.__qualname__ = "deployed.<locals>.flow"
    return workflow(name="flow")(fn)


async def told(*given: Any) -> list[Any]:
    await note("first")
    await outlast.receive("go")
    return list(given)


async def old(a: int, b: int) -> list[Any]:
    return await told(a, b)


async def with_default(a: int, b: int, c: int = 5) -> list[Any]:
    return await told(a, b, c)


async def without_one(a: int) -> list[Any]:
    return await told(a)


async def with_another_name(a: int, z: int) -> list[Any]:
    return await told(a, z)


async def with_one_more(a: int, b: int, c: int) -> list[Any]:
    return await told(a, b, c)


async def test_a_parameter_that_is_new_gets_its_default(open_app: OpenApp) -> None:
    async with open_app() as app:
        await reaches(await app.start(deploy(old)(1, b=2), id="one"), "waiting")
    deploy(with_default)
    async with open_app() as app:
        run = await app.get("one")
        await run.send("go")
        assert await run.result() == [1, 2, 5]
    assert executed == ["first"]


@pytest.mark.parametrize("new", [without_one, with_another_name, with_one_more])
async def test_arguments_that_fit_no_longer_stick_a_run_until_the_old_code_is_back(
    open_app: OpenApp, new: Callable[..., Any]
) -> None:
    async with open_app() as app:
        await reaches(await app.start(deploy(old)(1, b=2), id="one"), "waiting")
    deploy(new)
    async with open_app() as app:
        run = await app.get("one")
        await run.send("go")
        with pytest.raises(RunStuck, match=r"TypeError: .*flow\(\) (got an unexpected|missing 1 required)"):
            await run.result()
        assert (await run.info()).reason == "diverged"
        deploy(old)
        assert await (await app.resume("one")).result() == [1, 2]
    assert executed == ["first"]
