"""What `outlast approve` and `outlast reject` have in common."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from outlast.cli.approvals import approval_json, plainly
from outlast.cli.arguments import json_value
from outlast.cli.opening import Where, with_store
from outlast.cli.output import print_json, print_line
from outlast.cli.people import this_user
from outlast.cli.waiting import tell_unless_ended
from outlast.runtime.app import App
from outlast.runtime.infos import ApprovalInfo

ApprovalId = Annotated[str, typer.Argument(metavar="ID", help="As `outlast approvals` lists it.", show_default=False)]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who answers. Default: you.")]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Added to the answer.")]
Form = Annotated[
    str | None, typer.Option("--form", metavar="JSON", help="What is filled in, where the run asks for a form.")
]


def answer(
    verb: Literal["approve", "reject"],
    approval: str,
    by: str | None,
    note: str,
    form: str | None,
    url: str | None,
    app_name: str | None,
    *,
    as_json: bool,
) -> None:
    """Answer an approval and say so."""
    filled_in = None if form is None else json_value(form, "--form")

    where = Where(url, app_name)

    async def ask(app: App) -> ApprovalInfo:
        give = app.approve if verb == "approve" else app.reject
        told = await give(approval, by=by if by is not None else this_user(), note=note, form=filled_in)
        if not as_json:
            await tell_unless_ended(app, told.run, where)
        return plainly(app, told)

    told = with_store(where, ask)
    if as_json:
        print_json(approval_json(told))
    else:
        print_line(f"{told.status}: {told.question} (run {told.run})")
