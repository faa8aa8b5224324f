"""Waiting for the end of a run, and telling how it ended."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from outlast.cli.exits import ExitCode
from outlast.cli.failures import Told, tell
from outlast.cli.opening import Where, workers_of
from outlast.cli.output import print_note, progress
from outlast.cli.plain import plain, plain_error, readable_run
from outlast.core.errors import OutlastError, RunNotFound
from outlast.core.records import RunRow
from outlast.core.transitions import ENDED, Status
from outlast.runtime.app import App
from outlast.runtime.awaited import detail_of
from outlast.runtime.held_up import queue_states, why_held_up
from outlast.runtime.seen import standing, start_one, why_idle

LOOK_AGAIN_S = 0.25
HINT_AFTER_S = 2.0


async def run_row(app: App, id: str) -> RunRow:
    """Return a run as it stands in the store. Raises RunNotFound."""
    await app.get(id)  # raises what names the run and what to do
    row: RunRow | None = await asyncio.to_thread(app.store.run, id)
    if row is None:
        raise RunNotFound(f"run {id} was pruned just now")
    return row


async def wait_for_end(app: App, id: str, timeout: float | None, *, as_json: bool, where: Where) -> RunRow:
    """Return a run's row once it has ended or is stuck; ends the command when `timeout` seconds were not enough."""
    run = await app.get(id)
    meanwhile = asyncio.create_task(_tell_meanwhile(app, id, where, hint=not as_json))
    error: Exception | None = None
    try:
        await run.result(timeout)
    except TimeoutError:
        pass  # of the waiting, or the run's own: its row tells
    except Exception as raised:  # noqa: BLE001 - the run's own, which its row has too, or raised again below
        error = raised
    finally:
        meanwhile.cancel()
    row = await run_row(app, id)
    if row.status in ENDED or row.status is Status.STUCK:
        return readable_run(row, app.codec)
    if error is not None:
        raise error
    says = standing(row, await workers_of(app), where.worker_for(row), await _held_up(app, row))
    message = f"run {row.id} ({row.workflow}) has not ended within {timeout or 0:g} s; it is {says}"
    tell(message, "TimeoutError", as_json=as_json, run=row.id, status=row.status.value)
    raise Told(ExitCode.TIMED_OUT)


async def _tell_meanwhile(app: App, id: str, where: Where, *, hint: bool) -> None:
    """Say on a terminal how the run stands, and in any case when nobody is there to execute it."""
    waited = 0.0
    with contextlib.suppress(OutlastError), progress(f"run {id}") as say:
        while True:
            await asyncio.sleep(LOOK_AGAIN_S)
            waited += LOOK_AGAIN_S
            row = await asyncio.to_thread(app.store.run, id)
            if row is None:
                return
            say(f"run {id} is {row.status.value}" + (f": {detail}" if (detail := detail_of(row)) else ""))
            if hint and waited >= HINT_AFTER_S:
                waited = 0.0
                hint = not await tell_if_nobody(app, row, where.worker_for(row))


async def hint_if_nobody(app: App, id: str, where: Where) -> None:
    """Say once, while somebody waits for what a run writes, that nobody is there to execute it."""
    with contextlib.suppress(OutlastError):
        while True:
            await asyncio.sleep(HINT_AFTER_S)
            row = await asyncio.to_thread(app.store.run, id)
            if row is None or await tell_if_nobody(app, row, where.worker_for(row)):
                return


async def tell_unless_ended(app: App, id: str, where: Where) -> None:
    """Say so where nobody will see what was asked of a run, or sent to it, as things stand."""
    row = await asyncio.to_thread(app.store.run, id)
    if row is not None and row.status not in ENDED and row.status is not Status.STUCK:
        await tell_if_nobody(app, row, where.worker_for(row))


async def tell_if_nobody(app: App, run: RunRow, command: str) -> bool:
    """Say beside the output why nobody executes a run as things stand, and what to type; tell whether that is so."""
    if held_up := await _held_up(app, run):
        print_note(f"run {run.id} waits: {held_up}")
    workers = await workers_of(app)
    why = why_idle(run, workers, await asyncio.to_thread(app.store.now))
    if why:
        print_note(f"run {run.id} waits for a worker: {why}; {start_one(run, workers, command)}")
    return bool(why or held_up)


async def _held_up(app: App, run: RunRow) -> str:
    """Return why nobody may begin a run now, whoever is free for it; nothing where somebody may."""
    return await asyncio.to_thread(lambda: why_held_up(run, queue_states(app.store, [run]), app.store.now()))


def tell_end(row: RunRow, *, as_json: bool) -> Any:
    """Return the plain result of a run that succeeded; tell of any other end and end the command."""
    if row.status is Status.SUCCEEDED:
        return plain(row.result)
    more = {"run": row.id, "status": row.status.value}
    match row.status:
        case Status.CANCELLED:
            tell(f"run {row.id} ({row.workflow}) was cancelled", "RunCancelled", as_json=as_json, **more)
        case Status.STUCK:
            reason = row.reason.value if row.reason is not None else ""
            message = f"run {row.id} ({row.workflow}) is stuck: {reason}: {row.detail}"
            tell(message, "RunStuck", as_json=as_json, reason=reason, **more)
        case _:
            error = plain_error(row.error)
            message = error.text if as_json else f"run {row.id} ({row.workflow}) failed: {error.line()}"
            tell(message, error.name, as_json=as_json, where=error.where, **more)
    raise Told(ExitCode.FAILED)
