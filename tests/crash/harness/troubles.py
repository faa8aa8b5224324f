"""More workflows: steps that block, hold the interpreter, kill their process, or take longer than they may."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time

import apsw

from outlast import Retry, StepTimeout, step, workflow
from outlast.sync import sleep
from tests.crash.harness import agent
from tests.crash.harness.agent import _do, put, think
from tests.crash.harness.points import gate


@step
async def block_loop(what: str, seconds: float) -> str:
    """Block the worker's event loop."""
    _do("block_loop", "idempotent", what)
    time.sleep(seconds)  # noqa: ASYNC251 - that is the trouble
    return f"blocked {what}"


@step
def hold_interpreter(what: str, seconds: float) -> str:
    """Call into C code that keeps the interpreter's lock: no thread of this process runs meanwhile."""
    _do("hold_interpreter", "idempotent", what)
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    return f"held {what}"


@step(retry=Retry(attempts=3, initial=0.01, on=StepTimeout), timeout=0.3)
def overrun(what: str) -> str:
    """Take longer than it may, the first time: a thread cannot be stopped, so it ends beside its successor."""
    _do("overrun", "idempotent", what)
    number = agent.outlast.attempt()
    if number == 1:
        _wait_for_gate("overrun")
    return f"attempt {number} of {what}"


@step
def wait_in_thread(what: str) -> str:
    """Keep a thread of the pool until the test opens its gate."""
    _do("wait_in_thread", "idempotent", what)
    _wait_for_gate(what)
    return f"waited {what}"


@step(effect="once", timeout=0.8, settle=0.1, confirm=agent.find_payment)
def pay_in_thread(what: str, cents: int) -> str:
    """Pay, in a thread, at a bank that knows nothing of fences."""
    _do("pay_in_thread", "once", what)
    return f"paid {cents} for {what}"


@step(effect="once", timeout=0.4, settle=0.1, confirm=agent.find_payment)
def pay_late(what: str, cents: int) -> str:
    """Pay, the first attempt only when the test opens a gate, long after its time."""
    if agent.outlast.attempt() == 1:
        _wait_for_gate("late")
    _do("pay_late", "once", what)
    return f"paid {cents} for {what}"


@step(effect="once", timeout=0.4, settle=0.1)
def mail_late(what: str) -> str:
    """Send a letter, the first attempt only when the test opens a gate. Nobody can tell whether it went out."""
    if agent.outlast.attempt() == 1:
        _wait_for_gate("late")
    _do("mail_late", "once", what)
    return f"mailed {what}"


@step
async def die(what: str) -> str:
    """End the process that does this."""
    _do("die", "idempotent", what)
    os.kill(os.getpid(), signal.SIGKILL)
    return "still alive"


@step(retry=Retry(attempts=2, initial=0.01))
async def use_own_database(what: str) -> str:
    """Fail with an error of the user's own database."""
    _do("use_own_database", "idempotent", what)
    raise apsw.BusyError("database is locked")


def _wait_for_gate(name: str) -> None:
    while not gate(agent.here.folder, name).exists():
        time.sleep(0.005)


@workflow
async def blocker(what: str, seconds: float) -> list[str]:
    """One step that blocks the loop."""
    return [await block_loop(what, seconds), await put("after")]


@workflow
async def holder(what: str, seconds: float) -> list[str]:
    """One step that holds the interpreter."""
    return [await hold_interpreter.call(what, seconds), await put("after")]


@workflow
async def overrunner(what: str) -> list[str]:
    """One step that overruns its time."""
    return [await overrun.call(what), await put("after")]


@workflow
async def gated_in_thread(what: str) -> list[str]:
    """A run that the test holds in its hand, in a thread."""
    return [await wait_in_thread.call(what)]


@workflow
async def queue_up(what: str) -> list[str]:
    """More sync steps at once than there are threads."""
    return await asyncio.gather(wait_in_thread.call(what), pay_in_thread.call(what, 9))


@workflow
async def late_payment(what: str) -> list[str]:
    """A payment in a thread, beside something else."""
    return await asyncio.gather(pay_late.call(what, 3), agent.pass_gate(what))


@workflow
async def late_letter(what: str) -> list[str]:
    """A letter that is sent in a thread."""
    return [await mail_late.call(what)]


@workflow
def two_children(what: str) -> list[str]:
    """A sync workflow whose children may end at the same moment."""
    calls = [agent.parcel.call(f"{what}{n}") for n in range(6)]
    said = [call.result() for call in calls]
    sleep(0.5)
    return said


@workflow
async def cleaner(what: str) -> list[str]:
    """Clean up with a step when cancelled."""
    try:
        return [await agent.pass_gate(what)]
    finally:
        await put("cleaned up")


@workflow
async def many_threads(what: str) -> list[str]:
    """A sync step after an async one."""
    return [await think(what), await agent.crunch.call(what)]


@workflow
async def poison(what: str) -> str:
    """End whatever process takes this run up."""
    return await die(what)


@workflow
async def own_fault(what: str) -> str:
    """Fail with an error that looks like one of the store."""
    return await use_own_database(what)


@workflow
async def march(what: str, steps: int, seconds: float) -> list[str]:
    """Many short steps."""
    return [await agent.doze(f"{what}{n}", seconds) for n in range(steps)]


@workflow
async def impatient(what: str) -> str:
    """Wait for a letter, but not for long."""
    try:
        async with asyncio.timeout(0.2):
            return await agent.mail(what)
    except TimeoutError:
        return await put("gave up")
