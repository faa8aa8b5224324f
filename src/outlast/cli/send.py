"""`outlast send`."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.arguments import json_value
from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, RunId, Url
from outlast.cli.output import print_json, print_line
from outlast.cli.waiting import tell_unless_ended
from outlast.runtime.app import App


def send(
    run: RunId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What outlast.receive waits for.", show_default=False)],
    value: Annotated[
        str | None, typer.Argument(metavar="JSON", help="The message itself. Default: null.", show_default=False)
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="The message's id; sending it again changes nothing. Default: random.")
    ] = None,
    early: Annotated[
        bool, typer.Option("--early", help="Keep it for a run that is still to be started, where there is none.")
    ] = False,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Send a message to a run, and print the message's id.

    It is kept until the run takes it. Messages of one name are taken in the
    order in which they were sent.

    \b
    outlast send order-55 paid true
    outlast send order-55 address '{"street": "Main St 1"}' --id form-17
    """
    payload = None if value is None else json_value(value, "JSON")

    where = Where(url, app_name)

    async def ask(app: App) -> str:
        sent = await app.send(run, name, payload, id=id, early=early)
        if not as_json:
            await tell_unless_ended(app, run, where)
        return sent

    message_id = with_store(where, ask)
    if as_json:
        print_json({"run": run, "name": name, "id": message_id})
    else:
        print_line(message_id)
