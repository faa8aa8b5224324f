"""What a body can see of an outcome it sees again on each replay: a step is told all; its arguments would differ."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

import outlast
from outlast import App, Run, step, workflow
from tests.behaviour.flows import note
from tests.behaviour.stage import Door, OpenApp, eventually, unless_it_ends
from tests.behaviour.test_approvals import Refund, open_ones


class Refusal(Exception):
    """An error with a field of its own."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text, code)
        self.code = code


@step(retry=outlast.Retry(attempts=2, initial=0))
async def refuses(n: int) -> int:
    error = Refusal(f"no {n}", n)
    error.add_note("a note on it")
    raise error from ValueError("its cause")


@step
def refuses_in_thread() -> None:
    raise KeyError(("a", 1))


@step
async def deals(n: int) -> Any:
    return {"n": n, "set": frozenset({1, 2}), "tuple": (1, Decimal("2.50")), "refund": Refund(n)}


@workflow
async def child(n: int) -> Any:
    return await (refuses if n < 0 else deals)(n)


@workflow
async def asking_child() -> Any:
    return await outlast.approve("child?")


def seen(value: Any) -> Any:
    """Return all that code can see of a value, as plain data."""
    if isinstance(value, BaseExceptionGroup):
        return [type(value).__name__, str(value), [seen(error) for error in value.exceptions]]
    if isinstance(value, BaseException):
        fields = {name: seen(field) for name, field in vars(value).items() if not name.startswith("__")}
        return [type(value).__name__, str(value), repr(value.args), fields, seen(value.__cause__)]
    if dataclasses.is_dataclass(value):
        fields = {field.name: seen(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return [type(value).__name__, fields]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(seen, value)]
    return [type(value).__name__, repr(value)]


async def outcome(awaitable: Awaitable[Any]) -> Any:
    """Return what comes of it, be it an error."""
    try:
        return await awaitable
    except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at
        return error


async def approved() -> list[Any]:
    answers = [await outlast.approve(f"{n}?", form=Refund, to="desk", data={"n": n}) for n in range(2)]
    return [*answers, *await asyncio.gather(outlast.approve("left?"), outlast.approve("right?", key="right"))]


async def expired() -> Any:
    return await outcome(outlast.approve("late?", timeout=0.01))


async def received() -> list[Any]:
    plain = await outlast.receive("paid")
    typed = await outlast.receive("paid", type=Refund)
    wrong = await outcome(outlast.receive("paid", type=int))
    return [plain, typed, wrong, await outcome(outlast.receive("never", timeout=0.01))]


async def of_steps() -> list[Any]:
    return [await deals(1), await outcome(refuses(2)), await outcome(refuses_in_thread.call())]


async def of_children() -> list[Any]:
    handle = await outlast.start(child(3))
    return [await child(1), await outcome(child(-1)), handle.id, await handle.result(), await asking_child()]


async def of_maps() -> list[Any]:
    some = await outlast.map(child, [1, -1, 2], min_successful=1)
    return [some, await outcome(outlast.map(refuses, [1, 2], min_successful=1)), await outlast.map(deals, [1, 2])]


async def of_the_run() -> list[Any]:
    """Each is drawn at a different place."""
    found: list[Any] = []
    for n in range(2):
        await note(n)
        found += [outlast.now(), outlast.uuid4(), outlast.random(), outlast.random.gauss(0, 1), outlast.patched("new")]
        found += [outlast.current.workflow, asyncio.get_running_loop().time()]
    return found


async def of_emits() -> list[Any]:
    said = [outlast.publish("seen", 1), outlast.stream("items").write({"n": 1})]
    return [*said, await outcome(_refused()), await outlast.send("nobody", "early", 1, early=True)]


async def _refused() -> None:
    outlast.stream("items").write(object())


async def of_time() -> list[Any]:
    over = await outcome(asyncio.wait_for(asyncio.sleep(60), 0.01))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.01) as limit:
            await asyncio.sleep(60)
    done, pending = await asyncio.wait([asyncio.ensure_future(deals(n)) for n in range(3)])
    return [over, limit.expired(), limit.when(), [sorted(t.result()["n"] for t in done), len(pending)], outlast.now()]


STORIES: dict[str, Callable[[], Awaitable[Any]]] = {
    story.__name__: story
    for story in (approved, expired, received, of_steps, of_children, of_maps, of_the_run, of_emits, of_time)
}
NAMES_THE_RUN = {"of_children", "of_emits"}
"""A fork is another run: its children have other ids, and errors say its own."""
ends = Door()


@step
async def tell(what: Any) -> Any:
    return what


@step
async def last() -> None:
    await ends.passed()


@workflow
async def telling(story: str) -> Any:
    saw = await tell(seen(await STORIES[story]()))
    await outlast.receive("go on")  # here it rests, and is replayed when it wakes
    await last()
    return saw


async def told(app: App, story: str) -> Run[Any]:
    """Start a story, and be the people and the programs that it asks, until it rests at its end."""
    for value in ({"cents": 1}, {"cents": 2}, "no number"):
        await app.send("one", "paid", value, early=True)
    run = await app.start(telling(story), id="one")

    async def at_its_end() -> bool:
        for asked in await app.approvals():
            with contextlib.suppress(outlast.AlreadyAnswered):
                form = {"cents": 7} if asked.form else None
                await app.approve(asked.id, by="bob", note="fine", form=form)
        info = await run.info()
        assert info.status in ("pending", "running", "waiting"), info
        return info.status == "waiting" and "'go on'" in info.detail

    await eventually(at_its_end)
    await run.send("go on")
    return run


@pytest.mark.parametrize("story", STORIES)
async def test_what_a_body_saw_it_sees_again_when_it_has_rested_and_when_another_takes_it_over(
    open_app: OpenApp, story: str
) -> None:
    ends.shut()
    reached = ends.arrived
    async with open_app() as app:
        run = await told(app, story)
        await unless_it_ends(run, ends.reached(reached + 1))
        (saw,) = [info.value for info in await run.steps() if info.name == "tell"]
    ends.open()
    async with open_app() as app:
        assert await (await app.get("one")).result() == saw


@pytest.mark.parametrize("story", [story for story in STORIES if story not in NAMES_THE_RUN])
async def test_what_a_body_saw_its_fork_sees(open_app: OpenApp, story: str) -> None:
    ends.open()
    async with open_app() as app:
        run = await told(app, story)
        saw = await run.result()
        assert await (await app.fork("one", "last")).result() == saw


async def test_an_approval_has_the_id_by_which_it_was_answered(open_app: OpenApp) -> None:
    @workflow
    async def asking() -> list[str]:
        ids = [(await outlast.approve(f"{n}?")).id for n in range(2)]
        await outlast.receive("go on")
        return ids

    async with open_app() as app:
        run = await app.start(asking())
        answered = []
        for _ in range(2):
            (asked,) = await open_ones(app)
            await app.approve(asked.id)
            answered.append(asked.id)
        await run.send("go on")
        assert await run.result() == answered
