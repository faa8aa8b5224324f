"""`outlast approvals`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from outlast.cli.asked import approve_command, facts_of
from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, Url
from outlast.cli.output import print_json, print_note, print_table
from outlast.cli.plain import plain
from outlast.cli.wording import CUT, ago, clock_time, iso_time, visible
from outlast.runtime.app import App
from outlast.runtime.infos import ApprovalInfo

COLUMNS = ("id", "asked", "expires", "to", "run", "question", "answer")
SHORT = 300


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
    full: Annotated[bool, typer.Option("--full", help="Do not shorten data and forms.")] = False,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """List what runs ask people for, oldest first.

    Below a question stands the data that its run gives to decide by, and
    where it takes a form, the form's fields with their types, and what to type.

    \b
    outlast approvals
    outlast approvals --to desk --json
    outlast approvals --run order-55 --status all
    """
    wanted = None if status == "all" else status

    async def read(app: App) -> tuple[list[ApprovalInfo], float]:
        found = await app.approvals(status=wanted, run=run, to=to, limit=limit + 1, after=after)
        return [plainly(app, approval) for approval in found], app.store.now()

    where = Where(url, app_name)
    found, now = with_store(where, read)
    page = found[:limit]
    if as_json:
        print_json([approval_json(approval) for approval in page])
        return
    below = [_below(approval, where, None if full else SHORT) for approval in page]
    print_table(COLUMNS, [_row(approval, now) for approval in page], below)
    if any(line.endswith(CUT) for lines in below for line in lines):
        print_note("what ends with … is shortened: --full shows it whole")
    if len(found) > limit:
        print_note(f"there are more: --after {page[-1].id}")


def _row(asked: ApprovalInfo, now: float) -> tuple[str, ...]:
    expires = ago(asked.due, now) if asked.due is not None and asked.status == "open" else ""
    answer = "" if asked.status == "open" else f"{asked.status} {f'by {asked.by}' if asked.by else ''}".strip()
    answer = "; ".join(part for part in (answer, asked.note, asked.problem) if part)
    return (asked.id, clock_time(asked.created), expires, asked.to, asked.run, asked.question, answer)


def _below(asked: ApprovalInfo, where: Where, length: int | None) -> list[str]:
    """Return the lines below a question."""
    lines = [f"{name:<5} {visible(text)}" for name, text in facts_of(asked, length)]
    if asked.form is not None and asked.status == "open":
        lines.append(f"{'':<5} {visible(approve_command(asked, where))}")
    return lines


def plainly(app: App, asked: ApprovalInfo) -> ApprovalInfo:
    """Return an approval whose values are plain JSON."""
    values = {name: plain(app.codec.encode(getattr(asked, name))) for name in ("data", "value")}
    return replace(asked, **values)


def approval_json(asked: ApprovalInfo) -> dict[str, Any]:
    """Return an approval for JSON: its fields, with times as ISO text."""
    times = {name: iso_time(getattr(asked, name)) for name in ("created", "due", "answered")}
    return asdict(asked) | times
