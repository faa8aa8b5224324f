"""An error says where in the user's code it was raised, and is told in one way wherever it is shown."""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
from typing import Any

import pytest

import outlast
from outlast import Retry, step, workflow
from outlast.codec import JsonCodec
from tests.behaviour.stage import Ears, OpenApp, Restart, failure

FILE = "test_where_errors_come_from.py"


def deep(table: dict[str, int]) -> int:
    return table["missing"]


@step
async def look() -> int:
    return deep({})


@step(retry=Retry(attempts=2, initial=0))
def look_in_a_thread() -> int:
    return deep({})


@step(timeout=0.01)
async def too_slow() -> None:
    await asyncio.sleep(60)


@workflow
async def looking() -> int:
    return await look()


@workflow
async def in_a_thread() -> int:
    return await look_in_a_thread.call()


@workflow
async def by_itself() -> int:
    return deep({})


@workflow
def blocking() -> int:
    return deep({})


@workflow
async def slow() -> None:
    await too_slow()


@workflow
async def to_nobody() -> None:
    await outlast.send("nobody", "hello")


@workflow
async def parent() -> int:
    return await looking()


def at(function: Any) -> str:
    """Return where the last line of a function stands."""
    lines, first = inspect.getsourcelines(inspect.unwrap(function))
    return f"{FILE}:{first + len(lines) - 1} in {function.__name__}"


@pytest.mark.parametrize("flow", [looking, in_a_thread, by_itself, blocking, parent], ids=lambda flow: flow.name)
async def test_a_run_its_steps_and_what_is_raised_say_where(open_app: OpenApp, flow: Any) -> None:
    async with open_app() as app:
        run = await app.start(flow())
        error = await failure(run)
        info, steps = await run.info(), await run.steps()
    assert isinstance(error, KeyError)
    assert info.error == "KeyError: 'missing'"
    assert info.where.endswith(at(deep))
    assert all(shown.where.endswith(at(deep)) for shown in steps)
    (note,) = error.__notes__
    assert f"{at(deep)} (run {run.id} of {flow.name}" in note
    assert note in "".join(traceback.format_exception(error))


async def test_an_error_that_no_line_raised_names_the_function(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(slow())
        await failure(run)
        info = await run.info()
    assert info.where.endswith(" in too_slow")


async def test_an_error_of_outlasts_own_step_names_the_users_line_that_awaited_it(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(to_nobody())
        assert isinstance(await failure(run), outlast.RunNotFound)
        info, (sending,) = await run.info(), await run.steps()
    assert info.where.endswith(at(to_nobody))
    assert sending.where == ""


async def test_notices_carry_the_traceback_without_the_lines_of_outlast(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears) as app:
        await failure(await app.start(in_a_thread()))
        await failure(await app.start(by_itself()))
    told = [*ears.heard("step.failed"), *ears.heard("step.ended"), *ears.heard("run.ended")]
    assert len(told) == 4
    for notice in told:
        assert notice.data["where"].endswith(at(deep))
        assert "outlast/runtime" not in notice.data["traceback"]
        assert "outlast/core" not in notice.data["traceback"]
        assert notice.data["traceback"].endswith("KeyError: 'missing'")
        assert "\n" not in str(notice)
    assert all('return table["missing"]' in notice.data["traceback"] for notice in told[:2])


async def test_the_body_sees_the_same_error_live_and_in_replay(restart: Restart) -> None:
    seen: list[bytes] = []
    codec = JsonCodec()

    @step(name="compare_error")
    async def compare(error: Exception) -> str:
        return str(error)

    @workflow(name="caught_then_restarted")
    async def caught() -> str:
        try:
            await look()
        except KeyError as error:
            seen.append(codec.encode_error(error) + repr(vars(error)).encode())
            await compare(error)  # its bytes are compared: no line number is in them
        await restart.point()
        return "gone on"

    assert await restart.result(caught()) == "gone on"
    assert len(set(seen)) == 1


async def test_a_moved_line_is_no_divergence(open_app: OpenApp) -> None:
    codec = JsonCodec()

    def make(lines: str) -> Exception:
        namespace: dict[str, Any] = {}
        exec(compile(f"{lines}def f():\n    raise KeyError('x')", "moved.py", "exec"), namespace)
        with pytest.raises(KeyError) as caught:
            namespace["f"]()
        return caught.value

    first, second = make(""), make("\n\n")
    assert codec.encode(first) == codec.encode(second)
    assert codec.encode_error(first) != codec.encode_error(second)


async def test_a_group_is_told_by_its_members_and_an_error_with_its_cause(open_app: OpenApp) -> None:
    @workflow(name="grouped")
    async def grouped() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(print))

    @workflow(name="two_at_once")
    async def two_at_once() -> None:
        raise ExceptionGroup("the order", [ValueError("a\nb"), ExceptionGroup("the order", [KeyError("c")])])

    @workflow(name="chained")
    async def chained() -> None:
        try:
            await look()
        except KeyError as error:
            raise RuntimeError("no price") from error

    async with open_app() as app:
        told = []
        for flow in (grouped, two_at_once, chained):
            run = await app.start(flow())
            await failure(run)
            told.append((await run.info()).error)
    assert told[0].startswith("ExceptionGroup: NotDeterministic: threads and executors cannot be used")
    assert told[1] == "ExceptionGroup: the order: ValueError: a b; KeyError: 'c'"
    assert told[2] == "RuntimeError: no price (from KeyError: 'missing')"


async def test_an_error_of_an_unknown_class_is_told_by_its_own_name(open_app: OpenApp) -> None:
    class Declined(Exception):
        pass

    @workflow(name="declining_child")
    async def child() -> None:
        raise Declined("no funds")

    @workflow(name="declined_parent")
    async def above() -> None:
        await child()

    async with open_app() as app:
        run = await app.start(above())
        await failure(run)
        assert (await run.info()).error == "Declined: no funds"
        (shown,) = await run.steps()
        assert shown.error == "Declined: no funds"


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
async def test_a_body_and_a_step_that_exit_are_named(open_app: OpenApp, sync: bool) -> None:
    def leave() -> None:
        sys.exit(4)

    async def leave_async() -> None:
        sys.exit(4)

    body = workflow(name=f"leaving_{sync}")(leave if sync else leave_async)
    part = step(name=f"leaving_step_{sync}")(leave if sync else leave_async)
    async with open_app() as app:
        error = await failure(await app.start(body.call(), id="one"))
        assert isinstance(error, outlast.StepError)
        assert str(error) == f"run one: the workflow leaving_{sync} asked the process to exit (SystemExit: 4)"
        assert error.type_name == "builtins:SystemExit"
        error = await failure(await app.start(part.call(), id="two"))
        assert isinstance(error, outlast.StepError)
        assert "of run two asked the process to exit (SystemExit: 4)" in str(error)


def library(name: str) -> dict[str, Any]:
    """Return what stands in a module as if that were installed beside the user's code."""
    module: dict[str, Any] = {"deep": deep}
    exec(compile(LIBRARY, f"/venv/lib/python3/site-packages/{name}/calls.py", "exec"), module)
    return module


LIBRARY = """
def call(function):
    return function()

def refuse():
    raise ConnectionError("away")

def tell_of_the_tool():
    try:
        return deep({})
    except KeyError as error:
        raise RuntimeError("the tool failed") from error

def gather():
    errors = []
    for function in (refuse, lambda: deep({})):
        try:
            function()
        except Exception as error:
            errors.append(error)
    raise ExceptionGroup("both", errors)
"""
framework, client = library("framework"), library("client")


def asks() -> None:
    client["refuse"]()


@step
def through_a_framework() -> None:
    framework["call"](asks)


FRAMEWORKS = {name: step(framework[name]) for name in ("refuse", "tell_of_the_tool", "gather")}


@workflow
async def framed(name: str) -> None:
    await FRAMEWORKS[name].call()


async def test_the_users_line_is_named_and_not_that_of_a_library_it_calls(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(through_a_framework.call())
        await failure(run)
        assert (await run.info()).where.endswith(at(asks))


@pytest.mark.parametrize("name", ["tell_of_the_tool", "gather"])
async def test_what_a_framework_makes_of_an_error_names_the_users_line(open_app: OpenApp, name: str) -> None:
    async with open_app() as app:
        run = await app.start(framed(name))
        await failure(run)
        (shown,) = await run.steps()
        assert shown.where.endswith(at(deep))
        assert (await run.info()).where.endswith(at(deep))


async def test_a_step_of_a_framework_names_its_own_line_and_the_run_the_users(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(framed("refuse"))
        await failure(run)
        (shown,) = await run.steps()
        assert shown.where == "site-packages/framework/calls.py:6 in refuse"
        assert (await run.info()).where.endswith(at(framed))
