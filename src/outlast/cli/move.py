"""`outlast move`."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, Url, VersionName
from outlast.cli.output import print_json, print_line
from outlast.cli.wording import counted


def move(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="The name that they have.", show_default=False)],
    to: Annotated[str, typer.Argument(metavar="TO", help="The name of the workflow to go on as.", show_default=False)],
    version: VersionName = None,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Have the runs of a workflow executed as another one.

    For a workflow that was renamed or replaced: those that have not ended
    and that no worker has in memory. Where the other does something else
    than their journals say, they get stuck as diverged; move them back then,
    and resume them.

    \b
    outlast move fulfil fulfil_order
    outlast move fulfil fulfil_order --version v41
    """
    moved = with_store(Where(url, app_name), lambda app: app.move(workflow, to, version=version))
    if as_json:
        print_json({"moved": moved})
    else:
        print_line(f"{counted(moved, 'run')} moved from {workflow} to {to}")
