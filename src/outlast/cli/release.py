"""`outlast release`."""

from __future__ import annotations

from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, SomeRun, Url, VersionName, WorkflowName
from outlast.cli.output import print_json, print_line
from outlast.cli.wording import counted


def release(
    run: SomeRun = None,
    version: VersionName = None,
    workflow: WorkflowName = None,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Give runs free that were held back.

    Whichever worker serves them goes on with them, under its version of the
    code.

    \b
    outlast release --version v41
    outlast release order-55
    """
    free = with_store(Where(url, app_name), lambda app: app.release(run, workflow=workflow, version=version))
    if as_json:
        print_json({"released": free})
    else:
        print_line(f"{counted(free, 'run')} free again")
