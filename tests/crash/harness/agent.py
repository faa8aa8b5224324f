"""The agent under test: steps of every effect, in runs that use everything a run can wait for.

Each step writes a line into the ledger: that is its effect on the world. `think` answers
otherwise each time it is asked, as a model does, so that an effect that rests on a thought which was
then forgotten leaves a trace: its line says something else than the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import secrets
import time

import msgspec

import outlast
from outlast import DidNotHappen, Happened, Retry, Unknown, step, workflow
from outlast.core.native_scopes import replayed
from outlast.sync import sleep
from tests.crash.harness import ledger
from tests.crash.harness.ledger import REFUSED, Line
from tests.crash.harness.points import gate, plain, point, whole


class Setting(msgspec.Struct):
    """What the agent of this process has to know of its scene."""

    ledger: str = ""
    folder: str = ""
    pace_s: float = 0.0  # how long a step takes before its effect, and again after it


here = Setting()


class Busy(Exception):
    """A service asks to be asked again."""


async def _linger() -> None:
    if here.pace_s:
        await asyncio.sleep(here.pace_s)


def _line(name: str, effect: str, arg: str) -> Line:
    return Line(
        run=outlast.current.run_id or "",
        step=outlast.current.step_id or "",
        name=name,
        effect=effect,
        key=outlast.idempotency_key(),
        attempt=outlast.attempt(),
        fence=outlast.fence(),
        pid=os.getpid(),
        at=time.time(),
        arg=arg,
    )


def _do(name: str, effect: str, arg: str) -> None:
    """Do what the step does to the world, with a point on either side."""
    where = _where()
    point(f"enter {where}")
    ledger.append(here.ledger, _line(name, effect, arg))
    point(f"leave {where}")


def _where() -> str:
    return f"{outlast.current.step_id} of {plain(outlast.current.run_id or '')}"


# -- steps -------------------------------------------------------------------------


@step(effect="pure")
async def think(about: str) -> str:
    """Ask a model: another answer each time."""
    thought = f"{about}:{secrets.token_hex(4)}"
    await _linger()
    _do("think", "pure", about)
    await _linger()
    return thought


@step
async def put(what: str) -> str:
    """Store something under the step's key."""
    await _linger()
    _do("put", "idempotent", what)
    await _linger()
    return f"stored {what}"


def find_payment(key: str, what: str, cents: int) -> Happened | DidNotHappen | Unknown:
    """Look for a payment in the bank's books."""
    point(f"confirm {_where()}")
    if any(line.key == key and line.effect == "once" for line in ledger.read(here.ledger)):
        return Happened(f"paid {cents} for {what}")
    return DidNotHappen()


@step(effect="once", confirm=find_payment, settle=0.1, timeout=1.0)
async def pay(what: str, cents: int) -> str:
    """Pay, at most once. The bank refuses a worker that was replaced, as one that is told `outlast.fence()` can."""
    await _linger()
    where = _where()
    point(f"enter {where}")
    with whole:
        fences = [line.fence for line in ledger.read(here.ledger) if line.run == outlast.current.run_id]
        refused = outlast.fence() < max(fences, default=0)
        ledger.append(here.ledger, _line("pay", REFUSED if refused else "once", what))
    await _linger()
    if refused:
        raise Busy(f"fence {outlast.fence()} is behind {max(fences)}")
    point(f"leave {where}")
    return f"paid {cents} for {what}"


@step(effect="once", timeout=3.0, settle=0.1)
async def mail(what: str) -> str:
    """Send a letter; nobody can tell afterwards whether it went out."""
    await _linger()
    _do("mail", "once", what)
    await _linger()
    return f"mailed {what.partition(':')[0]}"


@step(retry=Retry(attempts=5, initial=0.01))
async def flaky(what: str) -> str:
    """Fail at first."""
    await _linger()
    _do("flaky", "idempotent", what)
    await _linger()
    if outlast.attempt() == 1:
        raise Busy("not now")
    return f"finally {what}"


@step
def crunch(what: str) -> str:
    """Work in a thread."""
    time.sleep(here.pace_s)
    _do("crunch", "idempotent", what)
    time.sleep(here.pace_s)
    return f"crunched {what}"


@step
async def doze(what: str, seconds: float) -> str:
    """Take a while."""
    _do("doze", "idempotent", what)
    await asyncio.sleep(seconds)
    return f"dozed {what}"


@step
async def pass_gate(name: str) -> str:
    """Wait until the test opens a gate."""
    _do("pass_gate", "idempotent", name)
    while not gate(here.folder, name).exists():  # noqa: ASYNC110 - the gate is a file of another process
        await asyncio.sleep(0.005)
    return f"passed {name}"


# -- workflows ---------------------------------------------------------------------


@workflow
async def errand(what: str) -> list[str]:
    """One of everything that comes to a certain end by itself."""
    thought = await think(what)
    said = [thought, await put(thought), await pay(what, 100), await flaky(what), await crunch.call(what)]
    said += await asyncio.gather(put("left"), think("right"), crunch.call("third"))
    said.append(await parcel(what))
    await asyncio.sleep(0.06)
    said.append(await put("last"))
    return said


@workflow
async def parcel(what: str) -> str:
    """A child."""
    return await put(f"parcel of {what}")


@workflow(loop="native")
async def native(what: str) -> list[str]:
    """Steps among real I/O, in threads, and in a part that is started again."""
    thought = await think(what)
    said = [thought, *await asyncio.gather(_aside(thought), asyncio.to_thread(crunch, what), pay(what, 100))]
    with contextlib.suppress(asyncio.CancelledError):
        await _part(what, cancelled=True)
    said.append(await _part(what))
    said.append(await parcel(what))
    await outlast.sleep_until(outlast.now() + dt.timedelta(seconds=0.06))
    return [*said, await put("last")]


async def _aside(thought: str) -> str:
    await (await asyncio.create_subprocess_exec("true")).wait()
    return await put.options(key="aside")(thought)  # a key that is the same in each execution


async def _part(what: str, cancelled: bool = False) -> str:
    with replayed("part"):
        stored = await put(f"{what}: part")
        if cancelled:
            raise asyncio.CancelledError
        return stored


@workflow
async def letter(what: str) -> list[str]:
    """A step whose doubt only a person can settle."""
    thought = await think(what)
    sent = await mail(thought)
    return [thought, sent, await put(sent)]


@workflow
def chore(what: str) -> list[str]:
    """A sync workflow, in a thread of its own."""
    said = [crunch(what), pay.call(what, 5).result()]
    sleep(0.06)
    return [*said, crunch("again")]


@workflow
async def vigil(what: str, seconds: float) -> list[str]:
    """A step that outlives a few beats of its worker's lease."""
    thought = await think(what)
    return [thought, await doze(thought, seconds), await put("awake")]


@workflow
async def waiter(what: str, seconds: float) -> list[str]:
    """A run that mostly waits for a timer."""
    thought = await think(what)
    await asyncio.sleep(seconds)
    return [thought, await put("after the wait")]


@workflow
async def gated(what: str) -> list[str]:
    """A run that the test holds in its hand."""
    thought = await think(what)
    return [thought, await pass_gate(what), await put(thought), await pay(what, 7)]
