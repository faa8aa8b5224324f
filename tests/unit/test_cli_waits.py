"""`outlast runs`, `show` and `result` of a run that rests: all that it waits for is named, as people know it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

import outlast
from outlast import App, Retry, RunInfo
from outlast.cli.exits import ExitCode
from outlast.runtime.resting import MOST_CHARACTERS
from tests.unit.outlast_command import Outlast


@outlast.workflow(name="wait_child")
async def child() -> None:
    await outlast.receive("never")


@outlast.workflow(name="wait_in_time")
async def in_time() -> None:
    await outlast.receive("paid", timeout=100)


@outlast.workflow(name="wait_under_timeout")
async def under_timeout() -> None:
    async with asyncio.timeout(100):
        await outlast.receive("paid")


@outlast.workflow(name="wait_for_many")
async def for_many() -> None:
    await asyncio.gather(
        asyncio.sleep(500), child(), asyncio.create_task(nested()), outlast.approve("Refund ada?", timeout=50)
    )


async def nested() -> None:
    await outlast.receive("paid")


@outlast.workflow(name="wait_for_lots")
async def for_lots() -> None:
    await asyncio.gather(*(outlast.receive(f"part-{n}") for n in range(30)))


@outlast.workflow(name="wait_for_words")
async def for_words() -> None:
    await outlast.approve("why? " * 1000)


@outlast.step(name="wait_broken", retry=Retry(attempts=5, initial=100))
async def broken() -> None:
    raise ConnectionError("away")


@outlast.workflow(name="wait_retry")
async def retrying() -> None:
    await broken()


@outlast.workflow(name="wait_then_fail")
async def fails_meanwhile() -> None:
    trying = asyncio.create_task(broken.call())
    try:
        await outlast.receive("go on")
    finally:
        trying.cancel()
    raise LookupError("no such order")


@outlast.workflow(name="wait_asked")
async def asked(timeout: float | None = None) -> bool:
    try:
        return bool(await outlast.approve("Refund ada?", timeout=timeout))
    except TimeoutError:
        return False


def rests(command: Outlast, call: outlast.Call[Any]) -> RunInfo:
    """Start a run, return what is said of it once it rests."""

    async def main() -> RunInfo:
        parked = asyncio.Event()

        def hear(notice: outlast.Notice) -> None:
            if notice.name == "run.parked" and notice.data["run"] == "r":
                parked.set()

        async with App(command.store, park_after=0.05, on_event=hear) as app:
            run = await app.start(call, id="r")
            await parked.wait()
            return await run.info()

    return asyncio.run(main())


def tree(command: Outlast, id: str = "r") -> dict[str, str]:
    """Return the lines of a run's tree by the names in them."""
    text = command.here("show", id).stdout
    lines = text[text.index("\nmain") :].splitlines()
    return {line.lstrip("│├└─ ✓✗?·↻!").partition("  ")[0]: line for line in lines}


@pytest.mark.parametrize("call", [in_time(), under_timeout()])
def test_a_wait_with_a_timeout_is_told_by_its_message(command: Outlast, call: outlast.Call[Any]) -> None:
    info = rests(command, call)
    assert info.detail.startswith("a message 'paid'")
    assert "!" not in info.detail
    (line,) = command.here("runs").stdout.splitlines()[1:]
    assert "a message 'paid'" in line
    assert re.search(r"\(due in 1 min \d+ s\)$", line)
    assert re.search(r"waits for +a message 'paid'", command.here("show", "r").stdout)
    late = command.here("result", "r", "--timeout", "0")
    assert late.exit_code == ExitCode.TIMED_OUT
    assert "it is waiting: a message 'paid'" in late.stderr


def test_a_wait_says_when_its_time_is_over(command: Outlast) -> None:
    info = rests(command, in_time())
    assert re.fullmatch(r"a message 'paid' \(until 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ\)", info.detail)
    assert re.search(r"· receive\[paid\]  until 20\d\d-\S+ \S+  waiting$", tree(command)["receive[paid]"])


def test_all_that_a_run_waits_for_is_told_people_and_messages_first(command: Outlast) -> None:
    told = rests(command, for_many()).detail.split("; ")
    assert [words.split()[0] for words in told] == ["a", "approval", "child", "timer"]
    assert told[0] == "a message 'paid'"
    assert re.fullmatch(r"approval \w{16}: Refund ada\? \(until .*Z\)", told[1])
    assert told[2:] == ["child main/wait_child#1", "timer main.sleep#1/timer#1"]


def test_show_draws_waits_where_the_code_waits(command: Outlast) -> None:
    rests(command, for_many())
    lines = tree(command)
    assert list(lines).index("nested#1") + 1 == list(lines).index("receive[paid]")
    assert "waiting" in lines["timer#1"]
    assert "until 20" in lines["timer#1"]
    assert "wait_child#1" in lines
    approval = next(line for name, line in lines.items() if name.startswith("approve"))
    assert "Refund ada?" in approval
    assert "until 20" in approval
    steps = command.json("show", "r")["steps"]
    assert {step["kind"] for step in steps} == {"approval", "child", "message", "timer"}
    assert {step["state"] for step in steps if step["kind"] != "child"} == {"waiting"}


def test_what_is_waited_for_is_bounded(command: Outlast) -> None:
    info = rests(command, for_lots())
    assert info.detail.endswith("; 20 more")


def test_a_long_question_is_cut(command: Outlast) -> None:
    assert len(rests(command, for_words()).detail) == MOST_CHARACTERS


def test_the_next_attempt_of_a_step_is_what_is_waited_for(command: Outlast) -> None:
    assert rests(command, retrying()).detail == "the next attempt of main/wait_broken#1"
    assert "retrying" in tree(command)["wait_broken#1"]


def test_a_held_run_is_told_as_held_wherever_it_is_waited_for(command: Outlast) -> None:
    rests(command, in_time())
    assert command.here("hold", "r").exit_code == 0
    assert "it is waiting: held back (a message 'paid'" in command.here("result", "r", "--timeout", "0").stderr


def test_what_a_failed_run_was_about_to_try_is_given_up(command: Outlast) -> None:
    async def main() -> None:
        tried = asyncio.Event()

        def hear(notice: outlast.Notice) -> None:
            if notice.name == "step.failed":
                tried.set()

        async with App(command.store, on_event=hear) as app:
            run = await app.start(fails_meanwhile(), id="r")
            await tried.wait()
            await run.send("go on")
            with pytest.raises(LookupError):
                await run.result()

    asyncio.run(main())
    line = tree(command)["wait_broken#1"]
    assert "given up" in line
    assert "next" not in line


def test_an_answer_is_told_in_words(command: Outlast) -> None:
    async def main() -> None:
        async with App(command.store) as app:
            run = await app.start(asked(), id="r")
            while not (found := await run.approvals()):  # noqa: ASYNC110 - a client hears of no question
                await asyncio.sleep(0.01)
            await app.approve(found[0].id, by="ann", note="as agreed")
            assert await run.result()

    asyncio.run(main())
    (line,) = (line for name, line in tree(command).items() if name.startswith("approve"))
    assert re.search(r"approved by ann: as agreed$", line)
    (step,) = command.json("show", "r")["steps"]
    assert (step["value"]["approved"], step["value"]["by"], step["value"]["note"]) == (True, "ann", "as agreed")


def test_an_approval_that_expired_is_told_from_when_it_was_asked(command: Outlast) -> None:
    async def main() -> None:
        async with App(command.store) as app:
            run = await app.start(asked(timeout=0.5), id="r")
            assert not await run.result()
            (step,) = await run.steps()
            assert step.kind == "approval"
            assert step.ended - step.started >= 0.4

    asyncio.run(main())
