"""What a body or a step names, and no store could keep, is refused at the call: no run gets stuck by it later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import outlast
from outlast import EncodingError, WrongUse, step, workflow
from tests.behaviour.flows import double
from tests.behaviour.stage import OpenApp

ODD: dict[str, Any] = {
    "nul": "a\0b",
    "half a pair": "a\ud800b",
    "long": "x" * 300_000,
    "number": 5,
    "list": [],
    "bytes": b"x",
    "empty": "",
    "nothing": None,
}
SOON = 0.01
lane = outlast.queue("lane", concurrency=5)


@step(effect="once")
async def pay() -> int:
    return 1


@workflow
async def child() -> int:
    return 1


async def in_scope(key: Any, make: Callable[[], Any]) -> Any:
    with outlast.scope(key):
        return await make()


@step
async def emits(how: str, which: str) -> None:
    await IN_A_STEP[how](ODD[which])


async def publishing(name: Any) -> None:
    outlast.publish(name, 1)


async def streaming(name: Any) -> None:
    outlast.stream(name).write(1)


IN_A_STEP: dict[str, Callable[[Any], Any]] = {
    "publish": publishing,
    "stream": streaming,
    "send to": lambda v: outlast.send(v, "name", early=True),
    "send name": lambda v: outlast.send("later", v, early=True),
    "send id": lambda v: outlast.send("later", "name", id=v, early=True),
}
IN_A_BODY: dict[str, Callable[[Any], Any]] = IN_A_STEP | {
    "question": lambda v: outlast.approve(v, timeout=SOON),
    "to": lambda v: outlast.approve("?", to=v, timeout=SOON),
    "key of an approval": lambda v: outlast.approve("?", key=v, timeout=SOON),
    "scope of an approval": lambda v: in_scope(v, lambda: outlast.approve("?", timeout=SOON)),
    "key of a step": lambda v: double.options(key=v)(1),
    "key of a once step": lambda v: pay.options(key=v)(),
    "scope of a step": lambda v: in_scope(v, lambda: double(1)),
    "scope of a once step": lambda v: in_scope(v, pay),
    "scope of a timer": lambda v: in_scope(v, lambda: asyncio.sleep(0.001)),
    "scope of a child": lambda v: in_scope(v, child),
    "id of a child": lambda v: child.options(id=v)(),
    "id of a started child": lambda v: outlast.start(child(), id=v),
    "queue_key": lambda v: child.options(queue=lane, queue_key=v)(),
    "priority": lambda v: child.options(queue=lane, priority=v)(),
    "dedup": lambda v: child.options(dedup=v)(),
    "queue": lambda v: child.options(queue=outlast.queue(v))(),
    "rate": lambda v: double.options(rate=outlast.rate(v, 5))(1),
    "patched": lambda v: asyncio.sleep(0, outlast.patched(v)),
    "receive": lambda v: outlast.receive(v, timeout=SOON),
}


async def said(makes: Callable[[Any], Any], value: Any) -> str:
    try:
        await makes(value)
    except (WrongUse, EncodingError) as refused:
        return "refused" if len(str(refused)) < 1_000 else "refused at length"
    except TimeoutError:
        return "nobody answered"
    return "taken"


@workflow
async def trying(which: str) -> dict[str, str]:
    found = {how: await said(makes, ODD[which]) for how, makes in IN_A_BODY.items()}
    for how in IN_A_STEP:
        found[f"{how} in a step"] = await said(lambda _, how=how: emits(how, which), None)
    await outlast.receive("go on")  # here it rests, and is replayed when it wakes
    return found


@pytest.mark.parametrize("which", ODD)
async def test_it_is_refused_in_the_body_or_kept_whole(open_app: OpenApp, which: str) -> None:
    async with open_app() as app:
        await app.send("one", "go on", early=True)
        run = await app.start(trying(which), id="one")
        found = await run.result()
        assert found["receive"] == "refused"
        if which == "long":
            assert {how for how, word in found.items() if word != "refused"} == set()
        if which in ("nul", "half a pair"):
            assert {
                how for how, word in found.items() if word == "taken" and "key" not in how and "scope" not in how
            } == set()


async def test_a_child_or_an_approval_is_not_nested_deeper_than_an_index_can_hold(open_app: OpenApp) -> None:
    @workflow
    async def nesting(depth: int) -> list[str]:
        async def nest(depth: int) -> list[str]:
            if depth:
                return await asyncio.create_task(nest(depth - 1))
            return [await said(lambda _: child(), None), await said(lambda _: outlast.approve("?", timeout=SOON), None)]

        return await nest(depth)

    async with open_app() as app:
        assert await (await app.start(nesting(20))).result() == ["taken", "nobody answered"]
        assert await (await app.start(nesting(400))).result() == ["refused", "refused"]


def test_the_name_of_a_step_or_workflow_has_an_end() -> None:
    with pytest.raises(WrongUse, match="the name of a step has at most 255 characters"):
        step(name="x" * 300)(pay.fn)
    with pytest.raises(WrongUse, match="the name of a workflow has at most 255 characters"):
        workflow(name="x" * 300)(child.fn)
