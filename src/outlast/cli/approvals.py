"""`outlast approvals`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, Url
from outlast.cli.output import print_json, print_note, print_table
from outlast.cli.plain import plain
from outlast.cli.wording import ago, clock_time, iso_time
from outlast.runtime.app import App
from outlast.runtime.infos import ApprovalInfo

COLUMNS = ("id", "asked", "expires", "to", "run", "question", "answer")


def approvals(
    status: Annotated[
        str | None, typer.Option("--status", "-s", help="open, approved, rejected, expired, withdrawn, or all.")
    ] = "open",
    run: Annotated[str | None, typer.Option("--run", metavar="ID", help="Those of one run.")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="NAME", help="Those for this person or group.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="The page that follows this approval.")
    ] = None,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """List what runs ask people for, oldest first.

    \b
    outlast approvals
    outlast approvals --to desk --json
    outlast approvals --run order-55 --status all
    """
    wanted = None if status == "all" else status

    async def read(app: App) -> tuple[list[ApprovalInfo], float]:
        found = await app.approvals(status=wanted, run=run, to=to, limit=limit + 1, after=after)
        return [plainly(app, approval) for approval in found], app.store.now()

    found, now = with_store(Where(url, app_name), read)
    page = found[:limit]
    if as_json:
        print_json([approval_json(approval) for approval in page])
        return
    print_table(COLUMNS, [_row(approval, now) for approval in page])
    if len(found) > limit:
        print_note(f"there are more: --after {page[-1].id}")


def _row(asked: ApprovalInfo, now: float) -> tuple[str, ...]:
    expires = ago(asked.due, now) if asked.due is not None and asked.status == "open" else ""
    answer = "" if asked.status == "open" else f"{asked.status} {f'by {asked.by}' if asked.by else ''}".strip()
    answer = "; ".join(part for part in (answer, asked.note, asked.problem) if part)
    return (asked.id, clock_time(asked.created), expires, asked.to, asked.run, asked.question, answer)


def plainly(app: App, asked: ApprovalInfo) -> ApprovalInfo:
    """Return an approval whose values are plain JSON."""
    values = {name: plain(app.codec.encode(getattr(asked, name))) for name in ("data", "value")}
    return replace(asked, **values)


def approval_json(asked: ApprovalInfo) -> dict[str, Any]:
    """Return an approval for JSON: its fields, with times as ISO text."""
    times = {name: iso_time(getattr(asked, name)) for name in ("created", "due", "answered")}
    return asdict(asked) | times
