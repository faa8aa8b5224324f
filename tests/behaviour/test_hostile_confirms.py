"""Whatever a `confirm` raises or answers: the run stays in doubt, and can be resolved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from outlast import DidNotHappen, Happened, step, workflow
from outlast.runtime import doubt
from tests.behaviour.stage import Door, OpenApp
from tests.behaviour.test_unspeakable_errors import Unspeakable, UnspeakableExit, decide

asked: list[int] = []


class Detached:
    """An object of an ORM, say, whose session is gone."""

    def __repr__(self) -> str:
        raise RuntimeError("detached")


class Proxy(Detached):
    @property
    def __class__(self) -> Any:
        raise RuntimeError("what it stands for is gone")

    @__class__.setter
    def __class__(self, other: Any) -> None: ...


RAISED: list[tuple[BaseException, str]] = [
    (asyncio.CancelledError("pool closed"), "CancelledError: pool closed"),
    (SystemExit("cannot reach the bank"), "a wish to exit the process (SystemExit: cannot reach the bank)"),
    (KeyboardInterrupt(), "a wish to exit the process (KeyboardInterrupt)"),
    (UnspeakableExit(), "a wish to exit the process (UnspeakableExit: <UnspeakableExit, whose str() raised"),
    (GeneratorExit(), "GeneratorExit"),
    (StopIteration(5), "RuntimeError: coroutine raised StopIteration"),
    (Unspeakable(), "Unspeakable: <Unspeakable, whose str() raised RuntimeError>"),
    (ValueError("\0\udc80"), r"ValueError: \x00\udc80"),
    (BaseException("odd"), "BaseException: odd"),
]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    asked.clear()
    monkeypatch.setattr(doubt, "LOOK_AGAIN_S", 0.001)


def paying(confirm: Callable[..., Any]) -> Any:
    @step(effect="once", confirm=confirm, settle=0)
    async def pay() -> str:
        raise ConnectionError("lost")

    @workflow
    async def flow() -> str:
        return await pay()

    return flow


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "thread"])
@pytest.mark.parametrize(("error", "says"), RAISED, ids=[type(error).__name__ for error, _ in RAISED])
async def test_whatever_a_confirm_raises_it_is_asked_again_and_then_a_person_is(
    open_app: OpenApp, error: BaseException, says: str, blocking: bool
) -> None:
    async def confirm(key: str) -> None:
        asked.append(1)
        raise error

    def confirm_blocking(key: str) -> None:
        asked.append(1)
        raise error

    detail = await decide(open_app, paying(confirm_blocking if blocking else confirm)())
    assert f"its confirm failed with {says}" in detail
    assert len(asked) == doubt.CONFIRM_TRIES


async def test_a_confirm_that_fails_in_such_a_way_once_is_heard_the_next_time(open_app: OpenApp) -> None:
    async def confirm(key: str) -> Happened:
        asked.append(1)
        if len(asked) == 1:
            raise asyncio.CancelledError
        return Happened("found")

    async with open_app() as app:
        assert await (await app.start(paying(confirm)())).result() == "found"


async def test_a_confirm_that_cancels_its_own_task_has_not_answered(open_app: OpenApp) -> None:
    async def confirm(key: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    assert "its confirm failed with CancelledError" in await decide(open_app, paying(confirm)())


async def test_a_confirm_that_heeds_no_cancellation_is_left_behind(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doubt, "CONFIRM_TIMEOUT_S", 0.02)
    door = Door()

    async def confirm(key: str) -> DidNotHappen:
        while not door.is_open:
            try:
                await door.passed()
            except asyncio.CancelledError:
                asked.append(1)
        return DidNotHappen()

    assert "its confirm failed with TimeoutError: no answer within 0.02 s" in await decide(open_app, paying(confirm)())
    assert asked
    door.open()


@pytest.mark.parametrize("kind", [Detached, Proxy, Unspeakable])
async def test_an_answer_that_nobody_can_look_at_is_none(open_app: OpenApp, kind: type[Any]) -> None:
    async def confirm(key: str) -> Any:
        return kind()

    assert "not Happened(value), DidNotHappen() or Unknown()" in await decide(open_app, paying(confirm)())
