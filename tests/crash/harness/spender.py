"""A worker whose agent calls a model, and then waits to be killed: `python -m ... URL LEDGER`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import outlast
from outlast import App, Retry, step, workflow

ledger = Path()


def wrote(line: str) -> int:
    """Add a line to the ledger; return how many such lines there are."""
    with ledger.open("a") as file:
        file.write(f"{line} {os.getpid()}\n")
    return sum(each.split()[0] == line for each in ledger.read_text().splitlines())


@step(effect="pure", retry=Retry(attempts=3, initial=0.001))
async def ask(name: str, tokens: int, fails: int = 0) -> str:
    wrote(f"ask-{name}")
    outlast.record_usage(model="m", input_tokens=tokens)
    if outlast.attempt() <= fails:
        raise ConnectionError(name)
    return name


@step
async def hang(name: str, times: int) -> None:
    """Hang, in the first so many executions. It begins when what was recorded before is committed."""
    if wrote(f"hang-{name}") <= times:
        await asyncio.Event().wait()


@workflow(max_tokens=1_000)
async def agent(deaths: int) -> list[str]:
    said = [await ask("a", 300, 1)]
    await hang("first", deaths)
    said.append(await ask("b", 400))
    await hang("second", 1)
    try:
        await ask("c", 1)
    except outlast.BudgetExceeded as error:
        said.append(f"{error.spent} of {error.limit}")
    return said


async def main(url: str) -> None:
    async with App(url, lease=2.0, max_crashes=100):
        await asyncio.Event().wait()


if __name__ == "__main__":
    from tests.crash.harness import spender  # the same module under its own name, where runs find their workflow

    spender.ledger = Path(sys.argv[2])
    asyncio.run(spender.main(sys.argv[1]))
