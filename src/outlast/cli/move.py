"""`outlast move`."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.exits import ExitCode
from outlast.cli.failures import Told, tell
from outlast.cli.opening import Where, with_store, workers_of
from outlast.cli.options import AppName, Json, Url, VersionName
from outlast.cli.output import print_json, print_line, print_note
from outlast.cli.waiting import run_row
from outlast.cli.wording import counted
from outlast.core.errors import WrongUse
from outlast.runtime.app import App
from outlast.runtime.seen import why_nobody


def move(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="The name that they have.", show_default=False)],
    to: Annotated[str, typer.Argument(metavar="TO", help="The name of the workflow to go on as.", show_default=False)],
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Only this run; may be given again for more.")
    ] = None,
    version: VersionName = None,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Have the runs of a workflow executed as another one.

    For a workflow that was renamed or replaced: those that have not ended
    and that no worker has in memory. Where the other does something else
    than their journals say, they get stuck as diverged; move them back then,
    by their ids if the other has runs of its own, and resume them.

    \b
    outlast move fulfil fulfil_order
    outlast move fulfil fulfil_order --version v41
    outlast move fulfil_order fulfil --id order-55 --id order-56
    """
    if ids and version is not None:
        raise WrongUse("--version chooses among the runs of WORKFLOW, and ids were given")

    async def carry(app: App) -> tuple[int, list[str], str]:
        if not ids:
            moved = await app.move(workflow, to, version=version)
            return moved, [], why_nobody(await workers_of(app), to) if moved else ""
        left, chosen = [], list(dict.fromkeys(ids))
        for each in chosen:
            if not await app.move(workflow, to, id=each):
                row = await run_row(app, each)
                held_by = f" on worker {row.owner}" if row.owner else ""
                left.append(f"run {each} was not moved: it is {row.status.value}{held_by}, a run of {row.workflow}")
        moved = len(chosen) - len(left)
        return moved, left, why_nobody(await workers_of(app), to) if moved else ""

    where = Where(url, app_name)
    moved, left, nobody = with_store(where, carry)
    if as_json:
        print_json({"moved": moved})
    else:
        print_line(f"{counted(moved, 'run')} moved from {workflow} to {to}")
    if nobody:
        back = where.command("move", to, workflow, *(word for each in ids or () for word in ("--id", each)))
        print_note(f"{nobody}, so nobody executes what was moved; to move it back: {back}")
    for text in left:
        tell(text, "WrongUse", as_json=as_json)
    if left:
        raise Told(ExitCode.WRONG_USE)
