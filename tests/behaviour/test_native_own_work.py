"""What a native body does by itself, between its steps: it takes time, it fails, it exits, and the run goes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast import StepError, WrongUse, step, workflow
from outlast.core import native_engine
from outlast.runtime import setbacks
from tests.behaviour.flows import executed
from tests.behaviour.stage import Door, Ears, OpenApp, Restart, stuck


@step(effect="pure")
async def ask(what: Any) -> Any:
    executed.append(f"ask {what}")
    return f"answer to {what}"


async def test_a_body_that_takes_its_time_again_has_not_diverged(
    restart: Restart, monkeypatch: pytest.MonkeyPatch, open_app: OpenApp
) -> None:
    monkeypatch.setattr(native_engine, "HELD_AT_MOST_S", 0.1)

    @workflow(loop="native")
    async def native() -> list[Any]:
        first = await ask(1)
        await asyncio.sleep(0.6)  # so much longer than a call may be held
        second = await ask(2)
        await restart.point()
        return [first, second]

    async with open_app() as app:
        run = await app.get(await restart.run(native()))
        assert await run.result() == ["answer to 1", "answer to 2"]
    assert executed == ["ask 1", "ask 2"]


async def test_a_limit_that_the_body_sets_itself_ends_a_wait_for_people(open_app: OpenApp) -> None:
    @workflow(loop="native")
    async def native() -> str:
        try:
            async with asyncio.timeout(0.5):
                await outlast.approve("ok?")
        except TimeoutError:
            return "nobody answered"
        return "answered"

    async with open_app() as app:
        assert await (await app.start(native())).result() == "nobody answered"
        assert await app.approvals() == []


async def test_what_else_the_body_does_goes_on_while_it_waits_for_people(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, ears: Ears
) -> None:
    monkeypatch.setattr(native_engine, "LOOK_AGAIN_S", 0.1)
    reminded = Door()

    async def remind() -> None:
        await asyncio.sleep(0.5)
        await ask("reminder")
        reminded.open()

    @workflow(loop="native")
    async def native() -> bool:
        reminding = asyncio.create_task(remind())
        approval = await outlast.approve("ok?")
        await reminding
        return approval.approved

    async with open_app(on_event=ears) as app:
        run = await app.start(native())
        await reminded.passed()
        await ears.hear("run.parked", run=run.id)  # now there is nothing but the wait
        (asked,) = await app.approvals()
        await app.approve(asked.id)
        assert await run.result() is True
    assert executed == ["ask reminder"]


async def test_a_server_that_is_down_for_a_moment_is_tried_again(
    restart: Restart, monkeypatch: pytest.MonkeyPatch, open_app: OpenApp
) -> None:
    monkeypatch.setattr(setbacks, "DELAYS_S", (0.05,) * 3)
    connections: list[int] = []

    async def connect() -> None:
        connections.append(1)
        if len(connections) in (2, 3):
            try:
                raise ConnectionRefusedError("nobody listens")
            except OSError as error:
                raise ExceptionGroup("in a task", [RuntimeError("no session")]) from error

    @workflow(loop="native")
    async def native() -> Any:
        await connect()
        first = await ask(1)
        await restart.point()
        return first

    async with open_app() as app:
        run = await app.get(await restart.run(native()))
        assert await run.result() == "answer to 1"
    assert len(connections) == 4
    assert executed == ["ask 1"]


async def test_a_server_that_stays_down_leaves_the_run_stuck_with_the_error(
    restart: Restart, monkeypatch: pytest.MonkeyPatch, open_app: OpenApp
) -> None:
    monkeypatch.setattr(setbacks, "DELAYS_S", (0.05,) * 3)
    connections: list[int] = []

    @workflow(loop="native")
    async def native() -> Any:
        connections.append(1)
        if len(connections) > 1:
            raise ConnectionRefusedError("nobody listens")
        await ask(1)
        await restart.point()

    async with open_app() as app:
        info = await stuck(await app.get(await restart.run(native())))
    assert "ConnectionRefusedError: nobody listens" in info.detail
    assert len(connections) == 5  # and three tries more


async def leave() -> None:
    await asyncio.sleep(0)
    raise SystemExit(3)


@step
async def asks_to_exit() -> None:
    await asyncio.create_task(leave())


@pytest.mark.parametrize("where", ["step", "body", "thread"])
async def test_an_exit_in_a_task_of_a_runs_code_is_its_error_and_ends_no_worker(open_app: OpenApp, where: str) -> None:
    def in_thread() -> None:
        raise SystemExit(3)

    @workflow(loop="native")
    async def native() -> None:
        if where == "step":
            await asks_to_exit()
        elif where == "body":
            await asyncio.gather(leave(), asyncio.sleep(10))
        else:
            await asyncio.create_task(asyncio.to_thread(in_thread))  # type: ignore[arg-type]

    @workflow
    async def beside_an_exit() -> str:
        return "well"

    async with open_app() as app:
        with pytest.raises(StepError, match=r"asked the process to exit \(SystemExit: 3\)"):
            await (await app.start(native())).result()
        assert await (await app.start(beside_an_exit())).result() == "well"


PROGRAM = """
import asyncio, sys
from outlast import App, workflow

began = asyncio.Event()

@workflow(loop="native")
async def native():
    began.set()
    if sys.argv[2] == "leave":
        await asyncio.Event().wait()
    return "well"

async def main():
    app = App(sys.argv[1])
    await app.__aenter__()
    if sys.argv[2] == "leave":
        await app.start(native(), id="r")
        await began.wait()
        raise SystemExit(3)
    print(await (await app.get("r")).result())
    await app.close()

asyncio.run(main())
"""


def test_a_run_whose_program_ends_without_closing_its_app_goes_on_in_the_next(tmp_path: Path) -> None:
    """Ending, the loop cancels all tasks on it, and the body's, too: that is no outcome."""
    program, url = tmp_path / "program.py", f"sqlite:///{tmp_path}/agent.db"
    program.write_text(PROGRAM)

    def run(how: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(program), url, how], capture_output=True, text=True, timeout=25, check=False
        )

    assert run("leave").returncode == 3
    assert run("go on").stdout == "well\n"


async def test_an_argument_may_be_named_self(open_app: OpenApp) -> None:
    @step
    async def tell(**said: Any) -> Any:
        return said

    @workflow
    async def flow(**said: Any) -> Any:
        return await tell(**said)

    async with open_app() as app:
        assert await (await app.start(flow(self=1, name=2))).result() == {"self": 1, "name": 2}


@step(effect="once")
async def pay(cents: int) -> str:
    await asyncio.sleep(0.01)
    return f"receipt of {outlast.idempotency_key()}"


async def test_equal_payments_at_once_are_refused_unless_each_has_a_key(open_app: OpenApp) -> None:
    """After a crash each would be told the outcome of whichever comes first then."""

    @workflow(loop="native")
    async def alike() -> Any:
        return await asyncio.gather(pay(5), pay(5))

    @workflow(loop="native")
    async def keyed() -> Any:
        return [*await asyncio.gather(pay.options(key="a")(5), pay.options(key="b")(5)), await pay(5), await pay(5)]

    async with open_app() as app:
        with pytest.raises(WrongUse, match="`once` step pay is called twice at once with the same arguments"):
            await (await app.start(alike())).result()
        assert len(set(await (await app.start(keyed())).result())) == 4


async def test_a_native_run_of_which_nothing_is_recorded_says_so(
    open_app: OpenApp, caplog: pytest.LogCaptureFixture
) -> None:
    """An agent that lacks the line which records its calls works, and is repeated as a whole after a crash."""

    @workflow(loop="native")
    async def forgot() -> str:
        return "done"

    @workflow(loop="native")
    async def recorded() -> str:
        return str(await ask("it"))

    async with open_app() as app:
        await (await app.start(forgot(), id="one")).result()
        await (await app.start(recorded(), id="two")).result()
    told = [record.getMessage() for record in caplog.records if "nothing of what it did was recorded" in record.message]
    assert len(told) == 1
    assert told[0].startswith("run one: the native workflow forgot ")
