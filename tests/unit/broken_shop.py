"""A shop whose code fails in every way that a person mends, driven by the command line."""

from __future__ import annotations

import time
from collections.abc import Callable

from outlast.cli.exits import ExitCode
from tests.unit.outlast_command import Outlast

CODE = """
import asyncio
import outlast
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Receipt:
    id: str


@outlast.step(effect="pure")
async def plan() -> str:
    Path("planned").open("a").write("x")
    return "plan"


@outlast.step(effect="once", settle=0)
async def charge(cents: int) -> Receipt:
    Path("charged").open("a").write("x")
    if not Path("works").exists():
        raise ConnectionError("read timeout")
    return Receipt("ch_1")


@outlast.step
async def ship() -> str:
    if not Path("works").exists():
        raise OSError("no ship")
    return "shipped"


@outlast.workflow
async def pay() -> str:
    await plan()
    receipt = await charge(100)
    return receipt.id


@outlast.workflow
async def deliver() -> str:
    await plan()
    return await ship()


@outlast.step
async def refund() -> None:
    Path("refunded").touch()


@outlast.workflow
async def tidy(wait: float = 0, again: bool = False) -> str:
    try:
        await asyncio.sleep(wait)
        return await (charge(100) if again else ship())
    finally:
        await refund()


@outlast.workflow
async def tidies() -> str:
    return await tidy(3600)


@outlast.workflow
async def buggy() -> str:
    await plan()
    raise LookupError("a bug")


@outlast.workflow
async def family() -> str:
    await asyncio.sleep(0.001)
    return await deliver()


@outlast.workflow
async def chain() -> str:
    return await pay()


@outlast.workflow
async def careful() -> str:
    try:
        receipt = await charge(100)
        return receipt.id
    except outlast.InDoubt as error:
        return f"in doubt: {error}"
"""


def execute(command: Outlast, workflow: str, code: ExitCode) -> None:
    """Execute a workflow of the shop as run `r`, to an end with this exit code."""
    result = command("start", f"shop.py:{workflow}", "--here", "--id", "r")
    assert result.returncode == code, result.stderr


def finish(command: Outlast, run: str = "r") -> str:
    """Have a worker execute a run to its end; return the result that the command line shows."""
    with command.process("worker", "shop.py"):
        return str(command.here("result", run, "--timeout", "60").stdout)


def marks(command: Outlast, name: str) -> int:
    """Return how often a step has left its mark."""
    return len((command.folder / name).read_text())


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what is in the store, which gives no signal."""
    while not condition():
        time.sleep(0.02)
