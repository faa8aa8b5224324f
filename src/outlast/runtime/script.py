"""`App.run`: a script that starts a run and waits for its result, and what it says when it is interrupted."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.core.definitions import Call
from outlast.core.errors import WrongUse
from outlast.runtime.notices import log

if TYPE_CHECKING:
    from outlast.runtime.app import App

R = TypeVar("R")


def run_to_its_end(app: App, call: Call[R], id: str | None) -> R:
    """Open the App, start a run, wait for its result, and close. Blocking."""
    if asyncio._get_running_loop() is not None:
        raise WrongUse(
            "app.run() blocks, so it cannot be used where an event loop runs; use `async with App(...)` and "
            "await app.start(...)"
        )

    async def main() -> R:
        async with app:
            started = id
            try:
                run = await app.start(call, id=id)
                started = run.id
                return await run.result()
            except asyncio.CancelledError:  # Ctrl-C: nobody else knows this task
                tell_interrupted(app.url, call, started)
                raise

    try:
        return asyncio.run(main())
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None  # where inside of asyncio it came says nothing to anybody


def tell_interrupted(url: str, call: Call[Any], id: str | None) -> None:
    """Log that a run is not over because somebody no longer waits for it, and what takes it up."""
    definition = call.definition
    code = definition.definition.partition(":")[0] or "CODE"
    which = f"run {id} ({definition.name})" if id is not None else f"a run of {definition.name}, if it was started,"
    if url.startswith("memory:"):
        says = "it is lost with its store, which lives inside this process"
    else:
        worker = shlex.join(["outlast", "worker", code, "--url", url])
        says = f"the next worker on its store takes it up: this program, started again, or {worker}"
    log.warning("interrupted, and %s has not ended: %s", which, says)
