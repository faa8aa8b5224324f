"""Text that some databases cannot keep (NUL, half a surrogate pair) passes wherever a user's text may stand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import outlast
from outlast import step, workflow
from outlast.codec import JsonCodec
from tests.behaviour.stage import OpenApp, Restart, failure, stuck

ODD = {"nul": "a\0b", "half a pair": "a\ud800b", "right to left": "a\u202eb", "escape": "a\x1b[31mb", "lines": "a\nb\r"}


@pytest.fixture(params=ODD.values(), ids=ODD)
def odd(request: pytest.FixtureRequest) -> Any:
    """Return an odd text."""
    return request.param


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[str]]:
    """Return what is logged; pytest gets it spelled out, since its reports cannot be sent with half a pair in them."""
    kept: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        kept.append(record.getMessage())
        record.msg, record.args = kept[-1].encode("ascii", "backslashreplace").decode(), ()
        return True

    loggers = [logging.getLogger(name) for name in ("outlast", "outlast.run")]
    for logger in loggers:
        logger.addFilter(keep)
    yield kept
    for logger in loggers:
        logger.removeFilter(keep)


async def test_in_values_live_and_after_a_restart(restart: Restart, odd: str) -> None:
    seen: list[Any] = []

    @step
    async def echo(what: Any) -> Any:
        return what

    @workflow
    async def child(what: Any) -> Any:
        return [what]

    @workflow
    async def flow(what: str) -> Any:
        got = [what, await echo(odd), await echo({odd: odd}), await child(odd)]
        seen.append(got)
        await restart.point()
        return got

    assert await restart.result(flow(odd)) == [odd, odd, {odd: odd}, [odd]]
    assert seen[0] == seen[1]


async def test_in_errors_of_steps_and_runs(open_app: OpenApp, odd: str) -> None:
    @step
    async def fail() -> None:
        error = ValueError(odd)
        error.add_note(odd)
        raise error

    @workflow
    async def flow() -> None:
        await fail()

    async with open_app() as app:
        run = await app.start(flow())
        back = await failure(run)
        assert back.args == (odd,)
        assert back.__notes__[0] == odd
        assert await run.status() == "failed"
        line = f"ValueError: {' '.join(odd.split())}"
        assert (await run.info()).error == line
        assert [shown.error for shown in await run.steps()] == [line]


async def test_in_keys_scopes_task_names_and_annotations(open_app: OpenApp, odd: str) -> None:
    @step
    async def work() -> int:
        outlast.annotate(**{odd: odd})
        return 1

    @workflow
    async def flow() -> int:
        done = await work.options(key=odd)()
        with outlast.scope(odd):
            done += await work()
        return done + await asyncio.create_task(work(), name=odd)

    async with open_app() as app:
        run = await app.start(flow())
        assert await run.result() == 3
        assert len({shown.id for shown in await run.steps()}) == 3
        for shown in await run.steps():
            assert shown.id.isprintable()


async def test_in_doubts_and_what_is_said_of_them(open_app: OpenApp, odd: str) -> None:
    @step(effect="once")
    async def pay() -> str:
        raise ConnectionError(odd)

    @workflow
    async def flow() -> str:
        return await pay()

    async with open_app() as app:
        run = await app.start(flow())
        assert isinstance(await failure(run), outlast.RunStuck)
        assert (await run.info()).reason == "in_doubt"
        await app.resolve(run.id, "main/pay#1", outlast.Happened(odd), by=odd)
        assert await run.result() == odd


async def test_in_the_reason_why_a_run_cannot_be_begun(open_app: OpenApp, odd: str) -> None:
    class Rotated(JsonCodec):
        def decode(self, data: bytes, type: object = Any) -> Any:
            raise outlast.DecodingError(f"no key {odd}")

    @workflow
    async def flow(what: str) -> str:
        return what

    async with open_app(worker=False) as client:
        await client.start(flow("x"), id="one")
    async with open_app(codec=Rotated()) as app:
        info = await stuck(await app.get("one"))
        assert info.reason == "undecodable"
        assert "no key a" in info.detail


async def test_in_log_lines_and_notices(open_app: OpenApp, odd: str, lines: list[str]) -> None:
    heard: list[str] = []

    @step
    async def fail() -> None:
        outlast.current.logger.warning("said %s", odd)
        raise ValueError(odd)

    @workflow
    async def flow() -> None:
        await fail()

    async with open_app(on_event=lambda notice: heard.append(str(notice))) as app:
        await failure(await app.start(flow()))
    assert f"said {odd}" in lines
    assert any("failed" in line for line in heard)
