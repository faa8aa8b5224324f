"""The event hook tells what the runtime does, by documented names; whoever listens can do no harm."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest

from outlast import App, Notice, Retry, WrongUse, step, workflow
from outlast.runtime import notices as notices_module
from tests.behaviour.stage import Ears, OpenApp, failure


@step(retry=Retry(attempts=2, initial=0))
async def flaky(fail: bool) -> str:
    if fail and not seen:
        seen.append(1)
        raise ConnectionError("down")
    return "up"


@step(effect="once")
async def pay() -> None:
    raise TimeoutError("slow")


@workflow
async def flow(fail: bool = False) -> str:
    return await flaky(fail)


@workflow
async def paying() -> None:
    await pay()


@workflow
async def failing() -> None:
    raise LookupError("gone")


@workflow
async def sleeping(seconds: float) -> None:
    await asyncio.sleep(seconds)


seen: list[int] = []


@pytest.fixture(autouse=True)
def unseen() -> None:
    seen.clear()


def told(ears: Ears, **data: Any) -> list[str]:
    """Return the names of what was told of a run."""
    return [n.name for n in ears.notices if data.items() <= n.data.items()]


async def test_the_life_of_a_run_is_told_in_order(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears) as app:
        await (await app.start(flow(), id="one")).result()
    assert told(ears, run="one") == ["run.started", "run.claimed", "step.started", "step.ended", "run.ended"]
    assert ears.notices[0].name == "worker.started"
    assert ears.notices[-1].name == "worker.stopped"


async def test_payloads_say_what_the_table_says(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears) as app:
        await (await app.start(flow(True), id="one")).result()
        await failure(await app.start(failing(), id="two"))
        await failure(await app.start(paying(), id="three"))
    (started,) = ears.heard("run.started", run="one")
    assert started.data == {"run": "one", "workflow": "flow"}
    (claimed,) = ears.heard("run.claimed", run="one")
    assert claimed.data == {"run": "one", "workflow": "flow", "claim": 1, "records": 0}
    (failed,) = ears.heard("step.failed")
    assert failed.data.pop("traceback").endswith('raise ConnectionError("down")\nConnectionError: down')
    assert failed.data.pop("where").endswith("test_notices.py:21 in flaky")
    assert failed.data == {
        "run": "one", "step": "main/flaky#1", "attempt": 1, "error": "ConnectionError: down", "retry_in": 0.0,
    }  # fmt: skip
    first, second = ears.heard("step.started", run="one")
    assert first.data == {"run": "one", "step": "main/flaky#1", "attempt": 1, "effect": "idempotent"}
    assert second.data["attempt"] == 2
    (ended,) = ears.heard("run.ended", run="two")
    assert (ended.data["status"], ended.data["workflow"]) == ("failed", "failing")
    assert "LookupError" in ended.data["error"]
    (doubt,) = ears.heard("step.in_doubt")
    assert (doubt.data["run"], doubt.data["step"], doubt.data["attempt"]) == ("three", "main/pay#1", 1)
    (stuck,) = ears.heard("run.stuck")
    assert (stuck.data["run"], stuck.data["reason"]) == ("three", "in_doubt")


async def test_every_notice_is_in_the_table(open_app: OpenApp, ears: Ears) -> None:
    table = set(re.findall(r"`([a-z]+\.[a-z_]+)`", notices_module.__doc__ or ""))
    async with open_app(on_event=ears, park_after=0) as app:
        await (await app.start(flow(True))).result()
        await failure(await app.start(failing()))
        await failure(await app.start(paying()))
        await (await app.start(sleeping(0.1))).result()
        resting = await app.start(sleeping(3600))
        await resting.cancel()
        await failure(resting)
    assert {n.name for n in ears.notices} <= table


async def test_a_notice_reads_as_a_line() -> None:
    assert str(Notice("run.ended", {"run": "one", "status": "failed"})) == "run.ended run=one status=failed"


async def test_several_listeners_hear_the_same(open_app: OpenApp, ears: Ears) -> None:
    others = Ears()
    async with open_app(on_event=[ears, others]) as app:
        await (await app.start(flow())).result()
    assert ears.notices == others.notices
    assert ears.notices


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, asyncio.CancelledError, GeneratorExit])
async def test_a_listener_that_raises_does_no_harm_and_is_logged(
    open_app: OpenApp, ears: Ears, caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    def broken(notice: Notice) -> None:
        raise error(notice.name)

    async with open_app(on_event=[broken, ears]) as app:
        assert await (await app.start(flow(), id="one")).result() == "up"
    assert "run.ended" in told(ears, run="one")
    assert "a listener failed on run.ended run=one" in caplog.text


async def test_a_listener_that_nobody_would_await_is_refused() -> None:
    async def listen(notice: Notice) -> None: ...

    class Listener:
        async def __call__(self, notice: Notice) -> None: ...

    for listener in (listen, Listener()):
        with pytest.raises(WrongUse, match="must be a plain function"):
            App("memory://", on_event=listener)  # type: ignore[arg-type]


async def test_what_a_person_should_see_is_logged(open_app: OpenApp, caplog: pytest.LogCaptureFixture) -> None:
    async with open_app() as app:
        await (await app.start(flow(True), id="one")).result()
        await failure(await app.start(paying(), id="two"))
    levels = {r.getMessage().split()[0]: r.levelno for r in caplog.records if r.name == "outlast"}
    assert levels["step.failed"] == logging.WARNING
    assert levels["step.in_doubt"] == logging.WARNING
    assert levels["run.stuck"] == logging.ERROR
    assert "run.claimed" not in levels


@pytest.mark.parametrize(("runs", "level"), [(0, logging.INFO), (2, logging.WARNING)])
def test_a_takeover_is_a_warning_only_where_there_was_something_to_take_over(
    runs: int, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "outlast")
    tell = notices_module.Notices()
    tell("worker.took_over", worker="w2", dead="w1", evidence="gone", runs=runs, stuck=0)
    (record,) = [r for r in caplog.records if "worker.took_over" in r.getMessage()]
    assert record.levelno == level


async def test_an_error_that_asyncio_would_only_log_is_told(open_app: OpenApp, ears: Ears) -> None:
    @workflow
    async def forgetful() -> str:
        async def failing_task() -> None:
            raise LookupError("nobody looks")

        task = asyncio.create_task(failing_task())
        await flaky(False)
        del task
        return "done"

    async with open_app(on_event=ears) as app:
        assert await (await app.start(forgetful(), id="one")).result() == "done"
        await flow_through(app)
    assert all(n.data["run"] == "one" for n in ears.heard("body.unhandled"))


async def flow_through(app: Any) -> None:
    await (await app.start(flow())).result()


async def test_workers_tell_of_themselves(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears):
        pass
    (started,), (stopped,) = ears.heard("worker.started"), ears.heard("worker.stopped")
    assert started.data == stopped.data
    async with open_app(worker=False, on_event=ears):
        pass
    assert len(ears.heard("worker.started")) == 1
