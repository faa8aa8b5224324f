"""`outlast runs`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, Prefix, ReasonName, Statuses, Url, VersionName, WorkflowName
from outlast.cli.output import print_json, print_note, print_table, status_text
from outlast.cli.wording import ago, clock_time, iso_time, lasted, with_where
from outlast.runtime.app import App
from outlast.runtime.infos import RunInfo

DETAIL_LENGTH = 120
COLUMNS = ("run", "workflow", "status", "created", "took", "detail")


def runs(
    status: Statuses = None,
    reason: ReasonName = None,
    workflow: WorkflowName = None,
    version: VersionName = None,
    prefix: Prefix = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    before: Annotated[
        str | None, typer.Option("--before", metavar="ID", help="The page that follows this run, the last of a page.")
    ] = None,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """List runs, newest first.

    Statuses: pending, running, waiting, succeeded, failed, cancelled, stuck.
    Reasons of stuck runs: in_doubt, diverged, crash_loop, undecodable.

    \b
    outlast runs --status stuck --status failed
    outlast runs --workflow fulfil --prefix order- --limit 10
    outlast runs --version v41 --status waiting
    outlast runs --json | jq -r '.[].id'
    """

    async def read(app: App) -> tuple[list[RunInfo], float]:
        found = await app.runs(
            status=status or None,
            reason=reason,
            workflow=workflow,
            version=version,
            id_prefix=prefix,
            limit=limit + 1,
            before=before,
        )
        return found, app.store.now()

    found, now = with_store(Where(url, app_name), read)
    page = found[:limit]
    if as_json:
        print_json([run_json(run) for run in page])
        return
    print_table(COLUMNS, [_row(run, now) for run in page])
    if len(found) > limit:
        print_note(f"there are more: --before {page[-1].id}")


def _row(run: RunInfo, now: float) -> tuple[str | Text, ...]:
    took = ""
    if run.started is not None:
        took = lasted((run.ended if run.ended is not None else now) - run.started)
    due = f"due {ago(run.due, now)}" if run.due is not None and run.status == "waiting" else ""
    detail = " ".join((run.error or run.detail).split())
    status, shown = status_text(run.status, run.reason), with_where(detail, run.where or due, DETAIL_LENGTH).lstrip()
    return (run.id, run.workflow, status, clock_time(run.created), took, shown)


def run_json(run: RunInfo) -> dict[str, Any]:
    """Return a run for JSON: its fields, with times as ISO text."""
    times = {name: iso_time(getattr(run, name)) for name in ("created", "started", "ended", "due")}
    return asdict(run) | times | {"parent": run.parent or None}
