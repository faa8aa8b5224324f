"""Whatever becomes of one answer, every verb that was committed gets its own."""

from __future__ import annotations

import asyncio
from typing import Any

from outlast.core.errors import StoreError
from outlast.runtime.clock import SystemClock
from outlast.runtime.notices import Notices
from outlast.runtime.writer import Writer
from outlast.stores.memory import MemoryStore
from outlast.stores.verbs import Answer, Started, StartRun
from tests.conformance.world import run_row


def test_a_fault_in_what_hears_one_answer_keeps_no_answer_from_the_others() -> None:
    asyncio.run(four_answers_of_which_two_meet_a_fault())


async def four_answers_of_which_two_meet_a_fault() -> None:
    loop, told = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: told.append(str(context.get("exception"))))
    clock = SystemClock()
    writer = Writer(MemoryStore(clock), clock, Notices())
    heard: asyncio.Queue[Answer | StoreError] = asyncio.Queue()

    def fails(answer: Answer | StoreError) -> None:
        raise ZeroDivisionError("of the first")

    listeners: list[Any] = [fails, heard.put_nowait, fails, heard.put_nowait]
    for n, done in enumerate(listeners):
        writer.submit(StartRun(run=run_row(f"run-{n}")), done)
    writer.start()
    try:
        answers = [await heard.get() for _ in range(2)]
    finally:
        await writer.stop()
    assert [isinstance(answer, Started) and answer.run.id for answer in answers] == ["run-1", "run-3"]
    assert told == ["of the first"] * 2
    assert writer.depth == 0
