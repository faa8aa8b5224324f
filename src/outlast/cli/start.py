"""`outlast start`."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import typer

from outlast.cli.arguments import arguments_for
from outlast.cli.loading import find_definition
from outlast.cli.logs import Talker
from outlast.cli.opening import Where, refuse_memory, with_app
from outlast.cli.options import AppName, Json, Timeout, Url
from outlast.cli.output import print_json, print_line, print_note
from outlast.cli.plain import plain
from outlast.cli.waiting import run_row, tell_end, tell_if_nobody, wait_for_end
from outlast.core.definitions import Call
from outlast.core.errors import WrongUse
from outlast.core.records import RunRow
from outlast.core.transitions import Status
from outlast.runtime import registry
from outlast.runtime.app import App


def start(
    target: Annotated[
        str,
        typer.Argument(
            metavar="CODE:WORKFLOW", help="agent.py:fulfil or shop.agent:fulfil; a step works too.", show_default=False
        ),
    ],
    arguments: Annotated[
        str | None,
        typer.Argument(metavar="ARGS", help="A JSON array of arguments or object of named ones.", show_default=False),
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="The run's id; starting it again gives the same run. Default: random.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end, print the result as JSON.")] = False,
    timeout: Timeout = None,
    here: Annotated[bool, typer.Option("--here", help="Be a worker for it in this process, and wait.")] = False,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Start a run of a workflow, or of a single step, and print its id.

    Arguments are converted by the workflow's annotations. A worker
    executes the run, see `outlast worker`; when none is there for it, a
    line on stderr says so.

    \b
    outlast start agent.py:fulfil '["order 55"]' --id order-55
    outlast start shop.agent:fulfil '{"order": "order 55"}' --wait
    outlast start agent.py:fulfil '["order 55"]' --here
    """
    if timeout is not None and not (wait or here):
        raise WrongUse("--timeout limits the waiting, so it goes with --wait or --here")
    definition = find_definition(target)
    args, kwargs = arguments_for(definition, arguments)
    call: Call[Any] = definition.call(*args, **kwargs)
    where = Where(url, app_name)
    app = where.make(worker=here, on_event=Talker(as_json=as_json, level=logging.WARNING))
    if not here:
        refuse_memory(app.url)

    async def begin(app: App) -> RunRow:
        run = await app.start(call, id=id)
        if not (wait or here):
            row = await run_row(app, run.id)
            if not as_json and row.status is Status.PENDING:
                await tell_if_nobody(app, row, where.command("worker", target.rpartition(":")[0]))
            return row
        if not as_json:
            print_note(f"run {run.id}")
        return await wait_for_end(app, run.id, timeout, as_json=as_json, where=where)

    try:
        row = with_app(app, begin)
    finally:
        call.take()  # refused before it was started: no need to warn that it was never awaited
    _print(row, ended=wait or here, as_json=as_json)


def _print(row: RunRow, *, ended: bool, as_json: bool) -> None:
    result = tell_end(row, as_json=as_json) if ended else None
    if as_json:
        workflow = row.workflow.removeprefix(registry.STEP_PREFIX)
        found = {"id": row.id, "workflow": workflow, "status": row.status.value}
        print_json({**found, "result": result} if ended else found)
    elif ended:
        print_json(plain(row.result))
    else:
        print_line(row.id)
