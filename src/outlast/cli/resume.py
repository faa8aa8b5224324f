"""`outlast resume`."""

from __future__ import annotations

from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, RunId, Url
from outlast.cli.output import print_json, print_line


def resume(run: RunId, url: Url = None, app_name: AppName = None, as_json: Json = False) -> None:
    """Take a failed, cancelled or stuck run up again.

    What is recorded stays and is not done again: only the end is dropped,
    and the failed step that caused it, which is then tried anew. Where the
    workflow's own code raised the error, it comes again until that code is
    changed. Where an effect was recorded after the failed step or the
    cancellation it is refused; see `outlast fork`. A run that is in doubt
    needs a decision instead; see `outlast resolve`.

    \b
    outlast resume order-55
    """
    taken_up = with_store(Where(url, app_name), lambda app: app.resume(run))
    if as_json:
        print_json({"id": taken_up.id, "workflow": taken_up.workflow, "status": "pending"})
    else:
        print_line(f"run {taken_up.id} is pending again; a worker takes it up")
