"""What a step can ask about itself, and that each attempt gets its own answers."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import threading
from typing import Any

import pytest

import outlast
from outlast import Retry, step, workflow
from tests.behaviour.stage import Door, OpenApp, Restart, failure


@step
async def who() -> tuple[str | None, str | None, str | None, int, int]:
    current = outlast.current
    return current.run_id, current.workflow, current.step_id, outlast.attempt(), outlast.fence()


@step
async def key() -> str:
    return outlast.idempotency_key()


@workflow
async def asking() -> Any:
    return await who()


async def test_a_step_knows_where_it_is(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(asking(), id="one")
        assert await run.result() == ("one", "asking", "main/who#1", 1, 1)


async def test_a_body_knows_where_it_is(open_app: OpenApp) -> None:
    @workflow
    async def looking() -> list[Any]:
        return [outlast.current.run_id, outlast.current.workflow, outlast.current.step_id]

    async with open_app() as app:
        assert await (await app.start(looking(), id="one")).result() == ["one", "looking", None]


async def test_the_fence_grows_with_each_claim_of_the_run(restart: Restart) -> None:
    @workflow
    async def fenced() -> list[int]:
        first = (await who())[-1]
        await restart.point()
        return [first, (await who())[-1]]

    first, second = await restart.result(fenced())
    assert (first, second) == (1, 2)


async def test_idempotency_keys_are_different_for_each_call_and_each_run(open_app: OpenApp) -> None:
    @workflow
    async def keys() -> list[str]:
        return list(await asyncio.gather(key(), key(), key.options(key="x")()))

    async with open_app() as app:
        first = await (await app.start(keys())).result()
        second = await (await app.start(keys())).result()
    assert len({*first, *second}) == 6


async def test_parallel_steps_know_each_its_own_identity(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def look(n: int) -> list[str | None]:
        before = outlast.current.step_id
        await door.passed()
        await asyncio.sleep(0)
        return [before, outlast.current.step_id]

    @workflow
    async def looking() -> list[Any]:
        tasks = [asyncio.create_task(look(n)) for n in range(5)]
        return [await task for task in tasks]

    async with open_app() as app:
        run = await app.start(looking())
        await door.reached(5)
        door.open()
        assert await run.result() == [[f"main/look#{n}"] * 2 for n in range(1, 6)]


async def test_parallel_blocking_steps_each_have_a_thread_and_an_identity(open_app: OpenApp) -> None:
    together = threading.Barrier(10, timeout=10)

    @step
    def look(n: int) -> tuple[int, str | None, str]:
        together.wait()  # passes only when all ten are in their threads at once
        return n, outlast.current.step_id, outlast.idempotency_key()

    @workflow
    async def looking() -> list[Any]:
        return list(await asyncio.gather(*(look.call(n) for n in range(10))))

    async with open_app() as app:
        run = await app.start(looking())
        seen = await run.result()
        assert [s.id for s in sorted(await run.steps(), key=lambda s: int(s.id.split("#")[1]))] == [
            f"main/look#{n}" for n in range(1, 11)
        ]
    assert [(n, step_id) for n, step_id, _ in seen] == [(n, f"main/look#{n + 1}") for n in range(10)]
    assert len({token for _, _, token in seen}) == 10


async def test_blocking_steps_run_beside_async_ones_and_do_not_hold_the_loop(open_app: OpenApp) -> None:
    door = Door()

    @step
    def blocking() -> str:
        door.pass_in_thread()
        return "blocking"

    @step
    async def opening() -> str:
        await door.reached()
        door.open()
        return "opening"

    @workflow
    async def both() -> list[str]:
        return list(await asyncio.gather(blocking.call(), opening()))

    async with open_app() as app:
        assert await (await app.start(both())).result() == ["blocking", "opening"]


async def test_context_of_the_caller_does_not_leak_into_steps_and_back(open_app: OpenApp) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    @step
    async def look() -> str:
        seen = variable.get()
        variable.set("step")
        return seen

    @workflow
    async def looking() -> list[str]:
        variable.set("body")
        return [await look(), variable.get(), await look()]

    variable.set("request 1")  # a worker that is opened inside a request must not carry it on
    async with open_app() as app:
        assert await (await app.start(looking())).result() == ["unset", "body", "unset"]


async def test_context_of_who_opened_the_app_reaches_no_code_of_a_run(open_app: OpenApp) -> None:
    """Nor does that of who started the run, nor what one step leaves in its thread."""
    request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")
    seen: list[str] = []

    def look() -> None:
        seen.append(request.get())
        request.set("left behind")

    def happened(_: Any) -> outlast.Happened:
        look()
        return outlast.Happened(None)

    @step(retry=outlast.Retry(attempts=2, initial=0))
    def in_a_thread() -> None:
        look()
        if outlast.attempt() == 1:
            raise ConnectionError

    @step(effect="once", confirm=happened)
    async def in_doubt() -> None:
        look()
        raise ConnectionError

    @workflow
    def in_a_sync_body() -> None:
        look()
        in_a_thread()

    @workflow
    async def flow() -> None:
        await in_a_thread.call()
        await in_doubt()
        await asyncio.sleep(0.05)
        await in_a_sync_body()
        seen.append(request.get())

    request.set("request 1")
    async with open_app(max_threads=1) as app:
        first = await app.start(flow())
        request.set("request 2")
        second = await app.start(flow())
        await asyncio.gather(first.result(), second.result())
    assert set(seen) == {"none"}


async def test_annotations_stand_in_the_record(open_app: OpenApp) -> None:
    @step
    async def model() -> str:
        outlast.annotate(tokens=512, model="small")
        outlast.annotate(tokens=600, odd=float("nan"), text="\ud800", thing=object)
        return "x"

    @workflow
    async def flow() -> str:
        return await model()

    async with open_app() as app:
        run = await app.start(flow())
        await run.result()
        note = json.loads((await run.steps())[0].note)
    assert (note["tokens"], note["model"]) == (600, "small")
    assert note["odd"] == "nan"
    assert "object" in note["thing"]


async def test_a_heartbeat_in_good_time_does_nothing(open_app: OpenApp) -> None:
    @step
    async def beating() -> str:
        outlast.heartbeat()
        outlast.heartbeat()
        return "alive"

    @workflow
    async def flow() -> str:
        return await beating()

    async with open_app() as app:
        assert await (await app.start(flow())).result() == "alive"


async def test_a_heartbeat_of_a_step_that_was_given_up_stops_it(open_app: OpenApp) -> None:
    stopped: list[str] = []
    door = Door()

    @step
    async def stubborn() -> None:
        try:
            await door.passed()
        except asyncio.CancelledError:
            try:
                outlast.heartbeat()
            except asyncio.CancelledError as given_up:
                stopped.append(str(given_up))
                raise

    @workflow
    async def flow() -> None:
        await stubborn()

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        await door.reached()
        await run.cancel()
        await failure(run)
    assert stopped == ["step main/stubborn#1 of run one was given up; its result will not be used"]


async def test_log_lines_name_the_run_and_the_step(open_app: OpenApp, caplog: pytest.LogCaptureFixture) -> None:
    @step
    async def speak() -> None:
        outlast.current.logger.info("in the step")

    @workflow
    async def speaking() -> None:
        outlast.current.logger.info("in the body")
        await speak()

    with caplog.at_level(logging.INFO, "outlast.run"):
        async with open_app() as app:
            await (await app.start(speaking(), id="one")).result()
    lines = [(r.getMessage(), r.run_id, r.step_id) for r in caplog.records if r.name == "outlast.run"]  # type: ignore[attr-defined]
    assert lines == [("in the body", "one", None), ("in the step", "one", "main/speak#1")]


async def test_the_logger_of_a_body_is_silent_while_it_is_replayed(
    restart: Restart, caplog: pytest.LogCaptureFixture
) -> None:
    @workflow
    async def speaking() -> None:
        outlast.current.logger.info("before")
        await who()
        outlast.current.logger.info("between")
        await restart.point()
        outlast.current.logger.info("after")

    with caplog.at_level(logging.INFO, "outlast.run"):
        await restart.result(speaking())
    assert [r.getMessage() for r in caplog.records if r.name == "outlast.run"] == ["before", "between", "after"]


@pytest.mark.parametrize("effect", ["pure", "idempotent", "once"])
async def test_the_attempt_is_counted_from_one(open_app: OpenApp, effect: Any) -> None:
    seen: list[int] = []

    @step(effect=effect, retry=Retry(attempts=3, initial=0, on=ConnectionError))
    async def work() -> None:
        seen.append(outlast.attempt())
        if len(seen) < 3:
            raise ConnectionError

    @workflow
    async def flow() -> None:
        await work()

    async with open_app() as app:
        await (await app.start(flow())).result()
    assert seen == [1, 2, 3]
