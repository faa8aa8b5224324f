"""What goes wrong in a step or workflow comes back as itself: its type, text, arguments and attributes."""

from __future__ import annotations

import asyncio
import sqlite3
import traceback
from typing import Any

import pytest

import outlast
from outlast import StepError, step, workflow
from tests.behaviour.stage import OpenApp, Restart, failure


class CardDeclined(Exception):
    """Has a constructor that its `args` would not satisfy."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"declined: {reason}")
        self.code = code
        self.reason = reason


class Unready(Exception):
    """Has an attribute that cannot be stored."""

    def __init__(self) -> None:
        super().__init__("unready")
        self.callback = lambda: None


raised: list[BaseException] = []


@step
async def raise_it() -> None:
    raise raised[0]


@step
def raise_it_blocking() -> None:
    raise raised[0]


@workflow
async def failing(blocking: bool = False) -> None:
    await (raise_it_blocking.call() if blocking else raise_it())


@workflow
async def catching() -> list[Any]:
    try:
        await raise_it()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return [type(error).__name__, str(error), traceback.format_exception_only(error)]
    return []


def group() -> ExceptionGroup[Exception]:
    return ExceptionGroup(
        "several", [ValueError("a"), ExceptionGroup("inner", [KeyError("b"), CardDeclined(7, reason="c")])]
    )


ERRORS = [
    ValueError("plain"),
    KeyError("key"),
    OSError(2, "No such file", "x.txt"),
    ConnectionError("lost"),
    TimeoutError("late"),
    ZeroDivisionError(),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    AssertionError("no"),
    RuntimeError("a", {"b": [1]}),
    sqlite3.OperationalError("database is locked"),
    CardDeclined(51, reason="funds"),
    outlast.StepTimeout("nested"),
]


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "thread"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
async def test_an_error_comes_back_as_itself(open_app: OpenApp, error: Exception, blocking: bool) -> None:
    raised[:] = [error]
    async with open_app() as app:
        run = await app.start(failing(blocking))
        back = await failure(run)
        async with open_app(worker=False) as elsewhere:
            again = await failure(await elsewhere.get(run.id))
    for one in (back, again):
        assert type(one) is type(error)
        assert (str(one), one.args) == (str(error), error.args)
        assert {k: v for k, v in vars(one).items() if not k.startswith("__")} == vars(error)
        assert getattr(one, "errno", None) == getattr(error, "errno", None)


async def test_the_body_sees_the_same_error_live_as_after_a_restart(restart: Restart) -> None:
    raised[:] = [CardDeclined(51, reason="funds")]
    seen: list[BaseException] = []

    @workflow
    async def looking() -> str:
        try:
            await raise_it()
        except CardDeclined as error:
            seen.append(error)
            await restart.point()
            return f"{error.code} {error.reason}"
        return ""

    assert await restart.result(looking()) == "51 funds"
    live, replayed = seen[0], seen[-1]
    assert len(seen) == 2
    assert live is not raised[0]
    assert (str(live), live.args, vars(live)) == (str(replayed), replayed.args, vars(replayed))


async def test_text_made_of_an_error_is_the_same_live_and_on_replay(restart: Restart) -> None:
    calls: list[list[Any]] = []
    raised[:] = [ValueError("plain")]

    @step
    async def report(text: str) -> None:
        calls.append([text])

    @workflow
    async def reporting() -> str:
        try:
            await raise_it()
        except ValueError as error:
            await report(f"{error!r} {traceback.format_exception_only(error)}")
            await restart.point()
        return "reported"

    assert await restart.result(reporting()) == "reported"
    assert len(calls) == 1


async def test_a_group_of_errors_keeps_its_tree(open_app: OpenApp) -> None:
    raised[:] = [group()]
    async with open_app() as app:
        back = await failure(await app.start(failing()))
    assert isinstance(back, ExceptionGroup)
    assert back.message == "several"
    first, inner = back.exceptions
    assert (type(first), str(first)) == (ValueError, "a")
    assert isinstance(inner, ExceptionGroup)
    declined = inner.exceptions[1]
    assert isinstance(declined, CardDeclined)
    assert (declined.code, declined.reason) == (7, "c")


async def test_errors_of_several_tasks_come_back_as_a_group(open_app: OpenApp) -> None:
    @step
    async def fail(n: int) -> None:
        raise ValueError(n)

    @workflow
    async def grouped() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail(1))

    async with open_app() as app:
        back = await failure(await app.start(grouped()))
    assert isinstance(back, ExceptionGroup)
    assert back.exceptions[0].args == (1,)


async def test_an_error_of_a_local_class_comes_back_as_step_error_with_its_name_and_text(open_app: OpenApp) -> None:
    class Local(Exception):
        pass

    raised[:] = [Local("only here")]
    async with open_app() as app:
        back = await failure(await app.start(failing()))
    assert isinstance(back, StepError)
    assert "Local" in back.type_name
    assert back.text == "only here"
    assert "only here" in str(back)


async def test_an_attribute_that_cannot_be_stored_does_not_hide_the_error(open_app: OpenApp) -> None:
    raised[:] = [Unready()]
    async with open_app() as app:
        back = await failure(await app.start(failing()))
    assert isinstance(back, Unready)
    assert str(back) == "unready"
    assert isinstance(back.callback, str)


async def test_an_error_whose_text_cannot_be_made_is_still_recorded(open_app: OpenApp) -> None:
    raised[:] = [Unspeakable()]
    async with open_app() as app:
        back = await failure(await app.start(failing()))
    assert "Unspeakable" in f"{type(back).__name__} {back.args} {getattr(back, 'type_name', '')}"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize("error", [StopIteration("end"), StopAsyncIteration("end"), GeneratorExit("end")])
@pytest.mark.parametrize("blocking", [False, True], ids=["async", "thread"])
async def test_an_error_that_python_gives_a_meaning_fails_the_run_and_nothing_else(
    open_app: OpenApp, error: BaseException, blocking: bool
) -> None:
    raised[:] = [error]
    async with open_app() as app:
        run = await app.start(failing(blocking))
        assert type(error).__name__ in repr(await failure(run)) or "StopIteration" in str(await failure(run))
        assert await run.status() == "failed"


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "thread"])
async def test_a_step_that_cancels_itself_fails(open_app: OpenApp, blocking: bool) -> None:
    raised[:] = [asyncio.CancelledError("me")]
    async with open_app() as app:
        run = await app.start(failing(blocking))
        back = await failure(run)
        assert isinstance(back, StepError)
        assert "cancelled itself" in str(back)
        assert await run.status() == "failed"


async def test_a_workflow_that_cancels_itself_fails(open_app: OpenApp) -> None:
    @workflow
    async def cancelling() -> None:
        raise asyncio.CancelledError

    async with open_app() as app:
        run = await app.start(cancelling())
        assert "nobody cancelled its run" in str(await failure(run))
        assert await run.status() == "failed"


async def test_an_error_can_be_caught_in_the_body_and_the_run_goes_on(open_app: OpenApp) -> None:
    raised[:] = [ValueError("plain")]
    async with open_app() as app:
        name, text, lines = await (await app.start(catching())).result()
    assert (name, text, lines) == ("ValueError", "plain", ["ValueError: plain\n"])


async def test_the_run_fails_with_an_error_raised_in_the_body_itself(open_app: OpenApp) -> None:
    @workflow
    async def broken(kind: str) -> Any:
        if kind == "raise":
            raise CardDeclined(1, reason="body")
        return [object()]

    async with open_app() as app:
        back = await failure(await app.start(broken("raise")))
        assert isinstance(back, CardDeclined)
        assert back.reason == "body"
        refused = await failure(await app.start(broken("return"), id="one"))
        assert isinstance(refused, outlast.EncodingError)
        assert "run one returned what cannot be stored: $[0]" in str(refused)


async def test_the_cause_of_an_error_is_shown(open_app: OpenApp) -> None:
    @workflow
    async def chained() -> None:
        try:
            await raise_it()
        except ValueError as error:
            raise LookupError("outer") from error

    raised[:] = [ValueError("inner")]
    async with open_app() as app:
        back = await failure(await app.start(chained()))
    assert isinstance(back, LookupError)
    assert "inner" in "".join(traceback.format_exception(back))


async def test_notes_of_an_error_are_kept(open_app: OpenApp) -> None:
    error = ValueError("noted")
    error.add_note("seen at 5")
    raised[:] = [error]
    async with open_app() as app:
        back = await failure(await app.start(failing()))
    assert back.__notes__[0] == "seen at 5"


async def test_the_error_of_a_run_is_shown_in_its_listing_and_its_steps(open_app: OpenApp) -> None:
    raised[:] = [CardDeclined(51, reason="funds")]
    async with open_app() as app:
        run = await app.start(failing())
        await failure(run)
        info, steps = await run.info(), await run.steps()
    assert info.error == "CardDeclined: declined: funds"
    assert info.culprit == "main/raise_it#1"
    assert [(s.state, s.error, s.attempts) for s in steps] == [("failed", "CardDeclined: declined: funds", 1)]
