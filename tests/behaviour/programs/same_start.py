"""Starts one run by its id, says so, and prints its result.

Arguments: the store's URL, a file that gets a letter for each execution, a file that the step waits for.
"""

import asyncio
import sys
from pathlib import Path

from outlast import App, step, workflow


@step
async def work(executions: str, gate: str) -> int:
    with Path(executions).open("a") as file:  # noqa: ASYNC230
        file.write("x")
    while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240 - the event comes from another process
        await asyncio.sleep(0.005)
    return 7


@workflow
async def slow(executions: str, gate: str) -> int:
    return await work(executions, gate)


async def main(url: str, executions: str, gate: str) -> None:
    async with App(url) as app:
        run = await app.start(slow(executions, gate), id="same")
        sys.stdout.write("started\n")
        sys.stdout.flush()
        sys.stdout.write(f"{await run.result()}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
