"""An error of Outlast that a user's code raises is the user's: it means nothing for the run but failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import outlast
from outlast import StepError, step, workflow
from outlast.core import errors
from tests.behaviour.stage import Door, OpenApp, failure

OWN = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, BaseException) and kind.__module__ == errors.__name__
]
ASKING_THE_PROCESS = [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, BaseException]
raised: list[type[BaseException]] = []


@step
async def raise_it() -> None:
    raise raised[0]("as if by Outlast")


@step
def raise_it_blocking() -> None:
    raise raised[0]("as if by Outlast")


@workflow
async def raise_it_in_a_child() -> None:
    raise raised[0]("as if by Outlast")


@workflow
async def raise_it_in_a_step() -> None:
    await raise_it()


@workflow
async def raise_it_in_a_thread() -> None:
    await raise_it_blocking.call()


@workflow
async def raise_it_in_the_parent() -> None:
    await raise_it_in_a_child()


@workflow
def raise_it_in_a_sync_body() -> None:
    raise raised[0]("as if by Outlast")


PLACES = [
    raise_it_in_a_step,
    raise_it_in_a_thread,
    raise_it_in_a_child,
    raise_it_in_the_parent,
    raise_it_in_a_sync_body,
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
@pytest.mark.parametrize("kind", [*OWN, *ASKING_THE_PROCESS], ids=lambda kind: kind.__name__)
async def test_it_fails_the_run_and_nothing_else(
    open_app: OpenApp, kind: type[BaseException], place: Callable[[], Any]
) -> None:
    """Not stuck, not cancelled, not tried again for ever: failed. The run beside it does not notice."""
    raised[:] = [kind]

    @workflow
    async def beside() -> str:
        return "done"

    async with open_app() as app:
        run = await app.start(place())
        other = await app.start(beside())
        back = await failure(run)
        assert await run.status() == "failed"
        assert await other.result() == "done"
    assert type(back) is (kind if issubclass(kind, Exception) else StepError)
    if isinstance(back, StepError) and kind is not StepError:
        assert kind.__name__ in f"{back.type_name} {back}"


async def test_a_parent_is_told_of_a_child_whose_error_looks_like_an_outage(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def use_a_database() -> None:
        await door.passed()
        raise outlast.StoreUnavailable("database is locked")

    @workflow
    async def child() -> None:
        await use_a_database()

    @workflow
    async def parent() -> str:
        try:
            await child()
        except outlast.StoreUnavailable as error:
            return f"told: {error}"
        return ""

    async with open_app() as app:
        run = await app.start(parent())
        await door.reached()
        waiter = asyncio.create_task(run.result())
        door.open()
        assert await waiter == "told: database is locked"
    assert door.arrived == 1
