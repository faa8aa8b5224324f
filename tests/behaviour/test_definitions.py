"""Decorating: a definition keeps the face of its function; what it could not be found by again is refused at once."""

from __future__ import annotations

import asyncio
import collections.abc
import functools
import importlib
import inspect
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast import Call, Retry, WrongUse, step, workflow
from tests.behaviour.stage import OpenApp


@step
async def fetch(what: str, *, times: int = 1) -> str:
    """Fetch it."""
    return what * times


@step
def add(a: int, b: int = 1) -> int:
    return a + b


@workflow
async def flow(what: str) -> str:
    """Flow."""
    return await fetch(what)


# -- the function's face --------------------------------------------------------------------


def test_a_definition_keeps_name_docstring_and_signature_of_its_function() -> None:
    assert (fetch.__name__, fetch.__doc__, fetch.__module__) == ("fetch", "Fetch it.", __name__)
    assert list(inspect.signature(fetch).parameters) == ["what", "times"]
    assert inspect.signature(flow) == inspect.signature(flow.fn)
    assert fetch.__wrapped__ is fetch.fn  # type: ignore[attr-defined]
    assert inspect.get_annotations(fetch)["what"] == "str"


def test_frameworks_that_ask_whether_to_await_get_the_right_answer() -> None:
    for definition, is_async in ((fetch, True), (flow, True), (add, False)):
        assert inspect.iscoroutinefunction(definition) is is_async
        assert asyncio.iscoroutinefunction(definition) is is_async
    assert callable(fetch)


async def test_a_call_is_a_coroutine() -> None:
    call = fetch("a")
    assert isinstance(call, collections.abc.Coroutine)
    assert isinstance(call, Call)
    assert await asyncio.create_task(call) == "a"
    assert await asyncio.gather(fetch("a"), fetch("b")) == ["a", "b"]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(fetch("c"))
    assert task.result() == "c"
    assert await asyncio.wait_for(fetch("d"), 5) == "d"
    assert [await first for first in asyncio.as_completed([fetch("e")])] == ["e"]


async def test_options_give_one_call_other_settings_and_leave_the_step_as_it_is(open_app: OpenApp) -> None:
    attempts: list[int] = []

    @step
    async def flaky() -> int:
        attempts.append(outlast.attempt())
        if outlast.attempt() < 2:
            raise ConnectionError
        return outlast.attempt()

    again = flaky.options(retry=Retry(attempts=2, initial=0))
    assert again is not flaky
    assert again.name == "flaky"

    @workflow
    async def calling() -> int:
        value = await again()
        try:
            await flaky()
        except ConnectionError:
            return value
        return -1

    async with open_app() as app:
        run = await app.start(calling())
        assert await run.result() == 2
        assert [s.id for s in await run.steps()] == ["main/flaky#1", "main/flaky#2"]
    assert attempts == [1, 2, 1]


async def test_options_are_refused_for_a_run_of_a_single_step_where_a_later_worker_would_not_know_them(
    open_app: OpenApp,
) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse, match=r"step fetch was given options.*Put them in @step"):
            await app.start(fetch.options(retry=Retry(attempts=3))("x"))
        assert await (await app.start(fetch.options(timeout=None)("x"))).result() == "x"  # these are its own


async def test_a_method_can_be_a_step(open_app: OpenApp) -> None:
    class Shop:
        def __init__(self) -> None:
            self.sold: list[str] = []

        @step
        async def sell(self, what: str) -> str:
            self.sold.append(what)
            return f"sold {what}"

        @step
        def count(self) -> int:
            return len(self.sold)

    shop = Shop()

    @workflow
    async def selling() -> tuple[str, int]:
        return await shop.sell("tea"), await shop.count.call()

    async with open_app() as app:
        assert await (await app.start(selling())).result() == ("sold tea", 1)
    assert shop.sold == ["tea"]


async def test_what_is_taken_over_is_no_method_for_its_object_would_be_missing(open_app: OpenApp) -> None:
    class Shop:
        @step
        async def sell(self, what: str) -> str:
            return what

        @workflow
        async def open(self, day: str) -> str:
            return day

        @staticmethod
        @workflow
        async def close(day: str) -> str:
            return f"closed on {day}"

    async with open_app() as app:
        with pytest.raises(WrongUse, match="step sell is a method, and its object would be missing"):
            await app.start(Shop().sell("tea"))
        with pytest.raises(WrongUse, match="workflow open cannot be a method"):
            await app.start(Shop().open("Monday"))
        assert await (await app.start(Shop.close("Monday"))).result() == "closed on Monday"
        assert await (await app.start(Shop().close("Sunday"))).result() == "closed on Sunday"


async def test_partials_and_callable_objects_can_be_decorated(open_app: OpenApp) -> None:
    class Fetcher:
        async def __call__(self, what: str) -> str:
            return f"called {what}"

    partial = step(functools.partial(fetch.fn, "x"))
    called = step(Fetcher())

    @workflow
    async def flow_of_both() -> list[str]:
        return [await partial(times=2), await called("y")]

    async with open_app() as app:
        run = await app.start(flow_of_both())
        assert await run.result() == ["xx", "called y"]
        assert [s.name for s in await run.steps()] == ["fetch", "Fetcher"]


async def test_partials_of_one_function_are_told_apart_by_their_names(open_app: OpenApp) -> None:
    async def greet(greeting: str, name: str) -> str:
        return f"{greeting} {name}"

    hello, bye = (workflow(name=word)(functools.partial(greet, word)) for word in ("hello", "bye"))
    async with open_app() as app:
        runs = [await app.start(made("Ann")) for made in (hello, bye)]
        assert [await run.result() for run in runs] == ["hello Ann", "bye Ann"]
    workflow(functools.partial(greet, "hi"))
    with pytest.raises(WrongUse, match="two workflows named 'greet' are made of one function"):
        workflow(functools.partial(greet, "hey"))


async def test_a_partial_of_a_step_does_not_take_its_place(open_app: OpenApp) -> None:
    @step
    async def echo(what: str, times: int = 1) -> str:
        return what * times

    twice = step(functools.partial(echo.fn, times=2))
    async with open_app() as app:
        assert await (await app.start(echo("x"))).result() == "x"
        with pytest.raises(WrongUse, match="two steps named 'echo' are made of one function"):
            await app.start(twice("x"))


def test_a_definition_shows_what_it_is() -> None:
    assert repr(fetch) == "<step fetch>"
    assert repr(flow) == "<workflow flow>"


def test_notices_of_the_library_can_be_pickled() -> None:
    notice = outlast.Notice("run.ended", {"run": "x"})
    assert pickle.loads(pickle.dumps(notice)) == notice


# -- names that are taken ---------------------------------------------------------------------


def imported(folder: Path, name: str, text: str) -> Any:
    (folder / f"{name}.py").write_text(f"from outlast import step, workflow\n\n{text}")
    return importlib.import_module(name)


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


F = "@workflow\nasync def f() -> int:\n    return 1\n\n\n"
G_NAMED_F = "@workflow(name='f')\nasync def g() -> int:\n    return 2\n"


@pytest.mark.parametrize("text", [F + F, F + G_NAMED_F, F.replace("workflow", "step") * 2])
def test_two_of_one_name_in_one_file_are_refused_with_both_lines(modules: Path, text: str) -> None:
    name = f"twice_{abs(hash(text))}"
    with pytest.raises(WrongUse, match=rf"two (workflow|step)s named 'f' are in .*{name}.py, at lines 3 \(f\) and"):
        imported(modules, name, text)


async def test_a_module_may_be_loaded_again_with_its_functions_elsewhere(modules: Path, open_app: OpenApp) -> None:
    module = imported(modules, "reloaded", F)
    (modules / "reloaded.py").write_text("\n\nfrom outlast import step, workflow\n\n" + G_NAMED_F)
    importlib.invalidate_caches()
    module = importlib.reload(module)
    async with open_app() as app:
        assert await (await app.start(module.g())).result() == 2
    assert module.f is not module.g


def test_what_functions_make_and_steps_of_other_names_may_come_again(modules: Path) -> None:
    text = "def make(n):\n    @workflow\n    async def f() -> int:\n        return n\n    return f\n\n\n"
    imported(modules, "made_twice", text + "one, two = make(1), make(2)\n")
    imported(modules, "steps_of_one_name", (F + G_NAMED_F).replace("workflow", "step"))


def test_what_is_decorated_already_is_refused_and_its_function_named() -> None:
    for decorated, what in ((fetch, "fetch is a step"), (add, "add is a step"), (flow, "flow is a workflow")):
        for decorator in (step, workflow, step(effect="pure"), workflow(name="other")):
            for thing in (decorated, functools.partial(decorated, "x")):
                with pytest.raises(WrongUse, match=rf"{what} already, .* {decorated.name}\.fn"):
                    decorator(thing)  # type: ignore[operator]


def test_a_class_is_refused() -> None:
    class Shop: ...

    for decorator, noun in ((step, "step"), (workflow, "workflow")):
        with pytest.raises(WrongUse, match=f"@outlast.{noun} decorates a function, and Shop is a class"):
            decorator(Shop)


@pytest.mark.parametrize("thing", [None, 5, "fetch"])
def test_only_functions_can_be_decorated(thing: Any) -> None:
    with pytest.raises((WrongUse, TypeError)):
        workflow()(thing)
