"""`outlast stream`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, RunId, Url
from outlast.cli.output import json_line, print_line, print_note
from outlast.cli.plain import plain, readable
from outlast.cli.wording import visible_lines
from outlast.core.arguments import check_name
from outlast.runtime.app import App
from outlast.runtime.following import StreamReset, follow


def stream(
    run: RunId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The stream.", show_default=False)],
    following: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more until the run has ended or is stuck.")
    ] = False,
    after: Annotated[int, typer.Option("--after", metavar="N", min=0, help="Only what stands after position N.")] = 0,
    final: Annotated[
        bool, typer.Option("--final", help="Only what can no longer change: no items of a step without an outcome.")
    ] = False,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Print what a run has written to a stream: an item a line, text as it is and all else as JSON.

    Where a step is tried again, what it had written is dropped: a line on
    stderr says after which position, and with --json an object on stdout.
    `outlast show` names the streams of a run.

    \b
    outlast stream order-55 tokens --follow
    outlast stream order-55 tokens --after 600 --json | jq .value
    """
    check_name(name, "name a stream")

    async def read(app: App) -> None:
        row = await app._row(run)
        decode = lambda data, _: plain(readable(data, app.codec))  # noqa: E731
        async for item in follow(app, row, name, after, decode, final=final, wait=following):
            if not isinstance(item, StreamReset):
                value = item.value
                text = visible_lines(value) if isinstance(value, str) else json_line(value)
                print_line(json_line({"position": item.position, "value": value}) if as_json else text)
            elif as_json:
                print_line(json_line({"reset": item.position}))
            else:
                print_note(f"drop what came after position {item.position}: a step is tried again, or was given up")

        known = [each.name for each in await asyncio.to_thread(app.store.streams, row.pk)]
        if name not in known:
            has = f"it has: {', '.join(known)}" if known else "it has written to none"
            print_note(f"run {run} has no stream {name!r}; {has}")

    with_store(Where(url, app_name), read)
