"""`outlast hold`."""

from __future__ import annotations

from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, SomeRun, Url, VersionName, WorkflowName
from outlast.cli.output import print_json, print_line
from outlast.cli.wording import counted


def hold(
    run: SomeRun = None,
    version: VersionName = None,
    workflow: WorkflowName = None,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Hold runs back: no worker claims them until `outlast release`.

    One run, or all that have not ended and fit what is given. A run in a
    worker's memory goes on there until it rests, or the worker is drained.

    \b
    outlast hold --version v41
    outlast hold order-55
    """
    held = with_store(Where(url, app_name), lambda app: app.hold(run, workflow=workflow, version=version))
    if as_json:
        print_json({"held": held})
    else:
        print_line(f"{counted(held, 'run')} held back")
