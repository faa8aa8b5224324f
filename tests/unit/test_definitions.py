"""Steps, workflows and Calls by themselves: what they look like to others, and what a Call is to asyncio."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any

import pytest

from outlast.core.definitions import AsyncStep, Call, Step, SyncStep
from outlast.core.effects import InStep
from outlast.core.errors import LostRun, WrongUse
from outlast.core.functions import is_async
from outlast.core.identity import here, placed
from outlast.core.records import Effect
from outlast.core.retry import NO_RETRY, Retry
from outlast.core.settings import ONCE_TIMEOUT_S, Settings
from outlast.core.workflows import Workflow
from tests.support.rig import Rig


def step(fn: Callable[..., Any], **settings: Any) -> Any:
    kind = AsyncStep if is_async(fn) else SyncStep
    made: Step[..., Any] = kind(fn, None, Settings().with_(**settings))
    return made


async def double(x: int, *, plus: int = 0) -> int:
    """Double it."""
    return 2 * x + plus


def triple(x: int) -> int:
    return 3 * x


class Tool:
    """An object of the user's with steps among its methods."""

    def __init__(self, unit: str = "m") -> None:
        self.unit = unit

    async def measure(self, x: int) -> str:
        return f"{x} {self.unit}"

    def name(self, x: int) -> str:
        return f"{self.unit} {x}"

    async def __call__(self, x: int) -> str:
        return f"called with {x}"

    measure_step = step(measure)
    name_step = step(name)


ASYNC: dict[str, Any] = {
    "step": step(double),
    "method": Tool().measure_step,
    "unbound method": Tool.measure_step,
    "partial": step(functools.partial(double, plus=1)),
    "partial of a partial": step(functools.partial(functools.partial(double, plus=1), 5)),
    "callable object": step(Tool()),
    "bound method": step(Tool().measure),
    "workflow": Workflow(double, None),
    "with other options": step(double).options(timeout=5),
}


# -- what they look like -------------------------------------------------------------


@pytest.mark.parametrize("name", ASYNC)
def test_what_is_async_says_so_to_everyone_who_asks(name: str) -> None:
    assert ASYNC[name].is_async
    assert inspect.iscoroutinefunction(ASYNC[name])
    assert asyncio.iscoroutinefunction(ASYNC[name])


@pytest.mark.parametrize("plain", [step(triple), Tool().name_step, step(functools.partial(triple, 1)), step(len)])
def test_what_is_sync_says_so_too(plain: Any) -> None:
    assert not plain.is_async
    assert not inspect.iscoroutinefunction(plain)
    assert not asyncio.iscoroutinefunction(plain)


def test_a_step_has_the_face_of_its_function() -> None:
    made = step(double)
    assert (made.name, made.__name__, made.__doc__, made.__module__) == ("double", "double", "Double it.", __name__)
    assert inspect.signature(made) == inspect.signature(double)
    assert made.fn is double


def test_a_method_shows_its_signature_without_self() -> None:
    """Frameworks make of it what a model is told of a tool."""
    assert list(inspect.signature(Tool().measure_step).parameters) == ["x"]
    assert list(inspect.signature(Tool().name_step).parameters) == ["x"]
    assert list(inspect.signature(step(Tool())).parameters) == ["x"]
    assert list(inspect.signature(step(functools.partial(double, 5))).parameters) == ["plus"]


def test_a_definition_stands_where_its_function_stands_however_it_is_reached() -> None:
    assert Tool().name_step.definition == f"{__name__}:Tool.name"
    assert Tool.name_step.definition == f"{__name__}:Tool.name"
    assert step(functools.partial(double, plus=1)).definition == f"{__name__}:double"
    assert Workflow(double, "renamed").definition == f"{__name__}:double"


def test_a_method_step_is_bound_to_its_object() -> None:
    async def use() -> list[str]:
        feet = Tool("ft")
        return [await feet.measure_step(3), await feet.measure_step.options(key="k")(4), feet.name_step(5)]

    assert asyncio.run(use()) == ["3 ft", "4 ft", "ft 5"]


def test_what_yields_cannot_be_a_step_nor_a_workflow() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    async def pages() -> AsyncIterator[int]:
        yield 1

    for fn in (numbers, pages, functools.partial(numbers)):
        with pytest.raises(WrongUse, match="yields, and a step returns one value"):
            step(fn)
    with pytest.raises(WrongUse, match="pages yields, and a workflow returns one value"):
        Workflow(pages, None)


def test_a_static_method_is_made_of_a_step_and_not_the_other_way_round() -> None:
    with pytest.raises(WrongUse, match="@staticmethod belongs above"):
        step(staticmethod(double))

    class Holder:
        twice = staticmethod(step(double))

    assert asyncio.run(_await(Holder().twice(4))) == 8


# -- settings ----------------------------------------------------------------------------


def test_options_change_a_copy() -> None:
    original = step(double, retry=Retry(attempts=5))
    changed = original.options(key="k", timeout=3)
    assert (changed.settings.key, changed.settings.timeout, changed.settings.retry.attempts) == ("k", 3, 5)
    assert (original.settings.key, original.settings.timeout) == (None, None)
    assert original.options(retry=None).settings.retry is NO_RETRY


def test_a_once_step_always_has_a_timeout() -> None:
    assert step(double, effect="once").settings.timeout == ONCE_TIMEOUT_S
    assert step(double, effect="once", timeout=5).settings.timeout == 5
    assert step(double).options(effect="once").settings.timeout == ONCE_TIMEOUT_S
    assert step(double, effect="once").options(effect="pure").settings.timeout is None
    assert step(double, effect="once", timeout=5).options(effect="pure").settings.timeout == 5


def test_errors_that_are_an_answer_may_be_given_in_any_shape() -> None:
    for definite in (ValueError, (ValueError,), [ValueError], {ValueError}):
        assert step(double, effect="once", definite=definite).settings.definite == (ValueError,)
    assert step(double).settings.effect is Effect.IDEMPOTENT


# -- Calls ----------------------------------------------------------------------------------


def test_a_call_is_what_asyncio_takes_for_a_coroutine() -> None:
    call = step(double)(2)
    assert isinstance(call, Coroutine)
    assert isinstance(call, Awaitable)
    assert asyncio.iscoroutine(call)
    assert inspect.isawaitable(call)
    assert call.__name__ == "double"
    call.close()


def test_outside_of_a_run_a_call_goes_wherever_a_coroutine_goes() -> None:
    made = step(double)

    async def use() -> list[int]:
        async with asyncio.TaskGroup() as group:
            in_group = group.create_task(made(1))
        return [
            in_group.result(),
            await made(2),
            *await asyncio.gather(made(3), made(4)),
            await asyncio.create_task(made(5)),
            await asyncio.wait_for(made(6), 5),
            await asyncio.shield(made(7)),
            *sorted([await each for each in asyncio.as_completed([made(8), made(9)])]),
            await step(triple).call(10),
        ]

    assert asyncio.run(use()) == [2, 4, 6, 8, 10, 12, 14, 16, 18, 30]


def test_a_call_is_awaited_once() -> None:
    async def use() -> None:
        call = step(double)(1)
        await call
        with pytest.raises(RuntimeError, match="awaited before; call double again for a new call"):
            await call

    asyncio.run(use())


def test_in_a_run_a_call_is_awaited_once_too() -> None:
    async def body() -> str:
        call = made(1)
        task = asyncio.create_task(call)
        await task
        try:
            await call
        except RuntimeError as error:
            return str(error)
        return "twice"

    made = step(double)
    rig = Rig(body).begin()
    rig.finish("main/double#1")
    assert "awaited before" in rig.result


def test_a_call_that_is_never_awaited_warns_with_its_name() -> None:
    for made, what in ((step(double), "step double"), (Workflow(double, None), "workflow double")):
        calls = [made(1)]
        with pytest.warns(RuntimeWarning, match=f"{what} was called but its Call was never awaited"):
            calls.clear()


def test_a_call_that_was_closed_cancelled_or_refused_does_not_warn() -> None:
    async def use() -> None:
        step(double)(1).close()
        task = asyncio.create_task(step(double)(1))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(ValueError, match="thrown in"):
            step(double)(1).throw(ValueError("thrown in"))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(use())
        gc.collect()


# -- where they are called ------------------------------------------------------------------------


def _in_a_step(act: Callable[[], Any]) -> Any:
    with placed(InStep("run-1", "flow", "main/outer#1", "outer", 1, "key", 1)):
        return act()


def test_a_once_step_is_refused_wherever_no_journal_would_see_it() -> None:
    for made in (step(double, effect="once"), step(triple, effect="once")):
        for where, act in (
            ("outside of any run", lambda made=made: _finish(made.call(1))),
            ("inside step main/outer#1 of run run-1", lambda made=made: _in_a_step(lambda: _finish(made.call(1)))),
        ):
            with pytest.raises(WrongUse, match=f"was called {where}.*{made.name}.fn"):
                act()
    with pytest.raises(WrongUse, match=r"triple\.fn"):
        step(triple, effect="once")(1)


def test_in_a_step_another_step_is_the_plain_function() -> None:
    assert _in_a_step(lambda: step(triple)(2)) == 6
    assert _in_a_step(lambda: _finish(step(double)(2))) == 4


def test_a_workflow_awaited_where_it_cannot_be_a_run_says_how_to_start_it() -> None:
    for where, act in (
        ("outside of a run", lambda: _finish(Workflow(double, None)(1))),
        ("inside step main/outer#1", lambda: _in_a_step(lambda: _finish(Workflow(double, None)(1)))),
    ):
        with pytest.raises(WrongUse, match=rf"{where}.*run = await app.start\(double\(...\)\)"):
            act()


def test_a_call_made_in_a_body_is_refused_in_a_step_of_it() -> None:
    calls: list[Call[int]] = []

    async def body() -> None:
        calls.append(step(double)(1))
        await step(double)(2)

    rig = Rig(body).begin()
    with pytest.raises(LostRun, match="used outside of its workflow body"):
        _in_a_step(lambda: _finish(calls[0]))
    assert rig.waiting == ["main/double#2"]


def test_a_call_made_outside_of_the_run_is_refused_in_its_body() -> None:
    made_outside = step(double)(1)

    async def body() -> int:
        return int(await made_outside)

    with pytest.raises(LostRun, match="in a context that has lost its run"):
        _ = Rig(body).begin().result


def test_a_place_is_left_as_it_was_found() -> None:
    _in_a_step(lambda: None)
    assert here.get() is None


def _finish(call: Any) -> Any:
    """Run a call that waits for nothing, without a loop, as far as it goes."""
    try:
        call.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")


async def _await(call: Any) -> Any:
    return await call
