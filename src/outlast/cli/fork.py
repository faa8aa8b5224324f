"""`outlast fork`."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, RunId, StepName, Url
from outlast.cli.output import print_json, print_line


def fork(
    run: RunId,
    step: StepName,
    id: Annotated[
        str | None, typer.Option("--id", metavar="NEW", help="The new run's id. Default: made from the old.")
    ] = None,
    repeat_once: Annotated[
        bool,
        typer.Option(
            "--repeat-once",
            help="Yes, do `once` steps, and start children, again that the original began after the step, or comes to.",
        ),
    ] = False,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Start a new run with what a run had recorded before a step, a timer or a child.

    Prints the new run's id. The original is left alone. What has no record
    yet, such as a step under way, cannot be forked at.

    \b
    outlast fork order-55 main/plan#2
    outlast fork order-55 main/charge#1 --id order-55-again --repeat-once
    """
    made = with_store(Where(url, app_name), lambda app: app.fork(run, step, new_id=id, repeat_once=repeat_once))
    if as_json:
        print_json({"id": made.id, "workflow": made.workflow, "forked_from": run, "step": step})
    else:
        print_line(made.id)
