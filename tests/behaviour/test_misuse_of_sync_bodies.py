"""What does not belong in a sync body is refused, and says what to write instead."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import outlast
from outlast import WrongUse, workflow
from outlast.sync import sleep, start
from tests.behaviour.flows import add, add_async, executed, summing
from tests.behaviour.stage import OpenApp


async def test_a_call_in_another_thread_of_the_body_is_refused(open_app: OpenApp) -> None:
    found: list[BaseException] = []

    @workflow
    def flow() -> None:
        def elsewhere() -> None:
            try:
                add(1, 2)
            except BaseException as error:  # noqa: BLE001 - looked at below
                found.append(error)

        thread = threading.Thread(target=contextvars.copy_context().run, args=(elsewhere,))
        thread.start()
        thread.join()

    async with open_app() as app:
        run = await app.start(flow())
        await run.result()
        assert await run.steps() == []
    assert isinstance(found[0], WrongUse)
    assert executed == []


async def test_a_call_that_is_awaited_says_what_to_write_instead(open_app: OpenApp) -> None:
    async def helper() -> int:
        return await add_async(3, 4)

    async def gathered() -> list[int]:
        return await asyncio.gather(add_async(5, 6), add.call(7, 8))

    @workflow
    def flow() -> list[str]:
        texts = []
        for wrong in (lambda: add_async(1, 2), helper, gathered, lambda: summing(3)):
            try:
                asyncio.run(wrong())
            except WrongUse as refused:
                texts.append(str(refused))
        return texts

    async with open_app() as app:
        texts = await (await app.start(flow(), id="one")).result()
    assert len(texts) == 4
    assert all("was awaited in sync workflow flow (run one)" in text for text in texts)
    assert "write: add_async(...).result()" in texts[0]
    assert "write: summing(...).result()" in texts[3]


async def test_an_event_loop_in_the_body_may_do_what_needs_nothing_of_the_run(open_app: OpenApp) -> None:
    async def helper() -> int:
        await asyncio.sleep(0)
        return add(1, 2) + add_async(3, 4).result()

    @workflow
    def flow() -> int:
        return asyncio.run(helper())

    async with open_app() as app:
        assert await (await app.start(flow())).result() == 10


async def test_what_belongs_in_the_other_kind_of_workflow_is_refused_and_names_its_own(open_app: OpenApp) -> None:
    @workflow
    def blocking() -> str:
        try:
            outlast.start(summing(1))
        except WrongUse as refused:
            return str(refused)
        return ""

    @workflow
    async def flow() -> list[str]:
        texts = []
        for wrong in (lambda: sleep(1), lambda: start(summing(1))):
            try:
                wrong()
            except WrongUse as refused:
                texts.append(str(refused))
        return texts

    async with open_app() as app:
        assert "outlast.sync.start" in await (await app.start(blocking())).result()
        slept, started = await (await app.start(flow())).result()
    assert "await asyncio.sleep" in slept
    assert "await outlast.start" in started
