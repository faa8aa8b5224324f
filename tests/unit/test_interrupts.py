"""Ctrl-C in a script: the first lets steps in flight end, the second ends the process at once."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from outlast.cli.exits import ExitCode
from tests.unit.outlast_command import Outlast, Process

SCRIPT = """
import asyncio
import sys
import threading
import time
from pathlib import Path

import outlast.sync
from outlast import App, step, workflow


def main_waits() -> bool:
    # Python drops a Ctrl-C that meets a destructor, of which a blocking start that just returns has some.
    frame, names = sys._current_frames()[threading.main_thread().ident], set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return FACE in ("asyncio", "run") or "result" in names or Path("go").exists()


@step
def hold() -> str:
    while not main_waits():
        time.sleep(0.001)
    print("step began", flush=True)
    while not Path("go").exists():
        time.sleep(0.01)
    print("step ended", flush=True)
    return "held"


@step
async def hold_async() -> str:
    while not main_waits():
        await asyncio.sleep(0.001)
    print("step began", flush=True)
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    print("step ended", flush=True)
    return "held"


@workflow
async def holding(in_thread: bool) -> str:
    return await (hold.call() if in_thread else hold_async())


def heard(notice) -> None:
    if notice.name in ("worker.draining", "worker.stopped"):
        print(notice.name, flush=True)


async def main() -> None:
    async with App("outlast.db", on_event=heard, grace=GRACE) as app:
        await (await app.start(holding(IN_THREAD), id="r")).result()


if __name__ == "__main__":
    if FACE == "asyncio":
        asyncio.run(main())
    elif FACE == "run":
        App("outlast.db", on_event=heard, grace=GRACE).run(holding(IN_THREAD), id="r")
    elif FACE == "sync-run":
        with outlast.sync.App("outlast.db", on_event=heard, grace=GRACE) as app:
            app.run(holding(IN_THREAD), id="r")
    else:
        with outlast.sync.App("outlast.db", on_event=heard, grace=GRACE) as app:
            app.start(holding(IN_THREAD), id="r").result()
"""

FACES = pytest.mark.parametrize("face", ["asyncio", "run", "sync"])
BODIES = pytest.mark.parametrize("in_thread", [True, False], ids=["sync-step", "async-step"])


@contextmanager
def script(command: Outlast, face: str, in_thread: bool, grace: float = 600.0) -> Iterator[Process]:
    settings = f"FACE, IN_THREAD, GRACE = {face!r}, {in_thread}, {grace}\n"
    command.write("script.py", settings + SCRIPT)
    process = Process([sys.executable, "script.py"], command.folder, command.env)
    try:
        process.wait_for("step began")
        yield process
    finally:
        process.end()


@FACES
@BODIES
def test_the_first_ctrl_c_lets_the_step_in_flight_end(command: Outlast, face: str, in_thread: bool) -> None:
    with script(command, face, in_thread) as process:
        process.signal(signal.SIGINT)
        process.wait_for("worker.draining")
        (command.folder / "go").touch()
        assert process.exit_code() in (-signal.SIGINT, ExitCode.INTERRUPTED)
        assert "step ended" in process.lines
    (step,) = command.json("show", "r")["steps"]
    assert (step["state"], step["value"]) == ("done", "held")


@FACES
@BODIES
def test_the_second_ctrl_c_ends_the_process_at_once(command: Outlast, face: str, in_thread: bool) -> None:
    with script(command, face, in_thread) as process:
        process.signal(signal.SIGINT)
        process.wait_for("worker.draining")
        process.signal(signal.SIGINT)
        assert process.exit_code() in (-signal.SIGINT, ExitCode.INTERRUPTED)
        assert "step ended" not in process.lines
        assert "worker.stopped" in process.lines
    assert command.json("show", "r")["run"]["status"] == "pending"


@pytest.mark.parametrize("face", ["run", "sync-run"])
def test_a_script_that_is_interrupted_says_which_run_goes_on_and_by_what(command: Outlast, face: str) -> None:
    with script(command, face, in_thread=False, grace=0.0) as process:
        process.signal(signal.SIGINT)
        assert process.exit_code() in (-signal.SIGINT, ExitCode.INTERRUPTED)
        (line,) = [line for line in process.lines if "interrupted" in line]
    assert line.startswith("interrupted, and run r (holding) has not ended: the next worker on its store takes it up")
    assert line.endswith("or outlast worker script --url outlast.db")
    if face == "run":
        assert not any("asyncio/" in line for line in process.lines)
    (command.folder / "go").touch()
    with command.process("worker", "script") as worker:
        worker.wait_for("run r (holding) succeeded")


def test_a_step_in_a_thread_is_not_waited_for_longer_than_the_grace_period(command: Outlast) -> None:
    with script(command, "asyncio", in_thread=True, grace=0.1) as process:
        process.signal(signal.SIGINT)
        assert process.exit_code() in (-signal.SIGINT, ExitCode.INTERRUPTED)
        assert "step ended" not in process.lines


MET = """
import asyncio
import signal
from pathlib import Path

from outlast import App, Happened, step, workflow


def ctrl_c() -> None:
    if not Path("go").exists():
        print("met", flush=True)
        for _ in range(SIGNALS):
            signal.raise_signal(signal.SIGINT)


@step
async def waiting() -> str:
    if WHERE == "step":
        ctrl_c()
    return "done"


async def confirm(key: str) -> Happened:
    if WHERE == "confirm":
        ctrl_c()
    return Happened(None)


@step(effect="once", confirm=confirm, settle=0)
async def paying() -> None:
    raise ConnectionResetError


@workflow
async def met() -> str:
    if WHERE == "body":
        ctrl_c()
    if WHERE == "confirm":
        await paying()
    return await waiting()


if __name__ == "__main__":
    if SIGNALS == 2:
        App("outlast.db", grace=600).run(met(), id="r")
    else:
        loop = asyncio.new_event_loop()
        app = App("outlast.db", grace=600)
        loop.run_until_complete(app.__aenter__())
        loop.run_until_complete(loop.run_until_complete(app.start(met(), id="r")).result())
"""


@pytest.mark.parametrize("signals", [2, 1], ids=["asyncio-run", "bare-loop"])
@pytest.mark.parametrize("where", ["step", "body", "confirm"])
def test_code_that_is_met_by_ctrl_c_has_not_failed(command: Outlast, where: str, signals: int) -> None:
    command.write("script.py", f"SIGNALS, WHERE = {signals}, {where!r}\n" + MET)
    process = Process([sys.executable, "script.py"], command.folder, command.env)
    try:
        process.wait_for("met")
        assert process.exit_code() in (-signal.SIGINT, ExitCode.INTERRUPTED)
    finally:
        process.end()
    (command.folder / "go").touch()
    with command.process("worker", "script") as worker:
        worker.wait_for("run r (met) succeeded")
