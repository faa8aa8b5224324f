"""`outlast cancel`."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.exits import ExitCode
from outlast.cli.failures import Told
from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, RunId, Timeout, Url
from outlast.cli.output import print_json, print_line, print_note
from outlast.cli.waiting import run_row, tell_unless_ended, wait_for_end
from outlast.core.errors import WrongUse
from outlast.core.records import RunRow
from outlast.core.transitions import Status
from outlast.runtime.app import App


def cancel(
    run: RunId,
    force: Annotated[bool, typer.Option("--force", help="End it at once, without any clean-up.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")] = False,
    timeout: Timeout = None,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Ask a run to end.

    Its code gets CancelledError where it waits, and cleans up first. A
    `once` step that has begun runs to its outcome before that. Asking again
    changes nothing.

    With --force it ends at once, whoever executes it: nothing of it is cleaned
    up or compensated, and what a step under way has begun may still happen.
    `once` steps of which that is true are named.

    \b
    outlast cancel order-55
    outlast cancel order-55 --force
    outlast cancel order-55 --wait --timeout 30
    """
    if timeout is not None and not wait:
        raise WrongUse("--timeout limits the waiting, so it goes with --wait")

    where = Where(url, app_name)

    in_doubt: list[str] = []

    async def ask(app: App) -> RunRow:
        in_doubt.extend(await app.cancel(run, force=force))
        if wait:
            return await wait_for_end(app, run, timeout, as_json=as_json, where=where)
        if not as_json:
            await tell_unless_ended(app, run, where)
        return await run_row(app, run)

    row = with_store(where, ask)
    status = row.status.value
    if as_json:
        print_json({"id": row.id, "status": status, "in_doubt": in_doubt})
    elif row.status is Status.CANCELLED:
        print_line(f"run {row.id} is cancelled")
    elif wait:
        print_line(f"run {row.id} ended as {status} all the same")
    else:
        print_line(f"run {row.id} was asked to end; it is {status}")
    for step in in_doubt:
        print_note(f"whether {step} took place is not known, and nobody will find out any more: it has effect 'once'")
    if wait and row.status in (Status.FAILED, Status.STUCK):
        raise Told(ExitCode.FAILED)
