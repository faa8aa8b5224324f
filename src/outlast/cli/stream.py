"""`outlast stream`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, RunId, Url
from outlast.cli.output import json_line, print_line, print_note, print_text
from outlast.cli.plain import plain, readable, readable_run
from outlast.cli.waiting import hint_if_nobody, run_row, tell_end
from outlast.cli.wording import visible_lines
from outlast.core.arguments import check_name
from outlast.core.errors import WrongUse
from outlast.core.records import RunRow
from outlast.runtime.app import App
from outlast.runtime.following import StreamItem, StreamReset, follow


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
    as_text: Annotated[
        bool, typer.Option("--text", help="Print one running text: no end of line after an item.")
    ] = False,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Print what a run has written to a stream: an item a line, text as it is and all else as JSON.

    Where a step is tried again, what it had written is dropped: a line on
    stderr says after which position, and with --json an object on stdout.
    `outlast show` names the streams of a run.

    With --follow, a run that fails, is cancelled or gets stuck is told on
    stderr, and the exit code is 1.

    \b
    outlast stream order-55 tokens --follow --text
    outlast stream order-55 tokens --after 600 --json | jq .value
    """
    check_name(name, "name a stream")
    if as_text and as_json:
        raise WrongUse("--text prints running text and --json a line for each item: give one of them")
    where = Where(url, app_name)
    written = _Items(as_text=as_text, as_json=as_json)

    async def read(app: App) -> RunRow:
        row = await app._row(run)
        decode = lambda data, _: plain(readable(data, app.codec))  # noqa: E731
        hint = asyncio.create_task(hint_if_nobody(app, run, where)) if following and not as_json else None
        try:
            async for item in follow(app, row, name, after, decode, final=final, wait=following):
                written.write(item)
        finally:
            written.end()
            if hint is not None:
                hint.cancel()
        known = [each.name for each in await asyncio.to_thread(app.store.streams, row.pk)]
        if name not in known:
            has = f"it has: {', '.join(known)}" if known else "it has written to none"
            print_note(f"run {run} has no stream {name!r}; {has}")
        return readable_run(await run_row(app, run), app.codec)

    row = with_store(where, read)
    if following:
        tell_end(row, as_json=as_json)


class _Items:
    """Writes what a stream gives, in the form that was asked for."""

    def __init__(self, *, as_text: bool, as_json: bool) -> None:
        self._as_text = as_text
        self._as_json = as_json
        self._in_line = False  # the running text has not come to the end of a line

    def write(self, item: StreamItem[Any] | StreamReset) -> None:
        """Write an item, or that some are to be dropped."""
        if isinstance(item, StreamReset):
            self.end()
            if self._as_json:
                print_line(json_line({"reset": item.position}))
            else:
                print_note(f"drop what came after position {item.position}: a step is tried again, or was given up")
            return
        if self._as_json:
            print_line(json_line({"position": item.position, "value": item.value}))
            return
        text = visible_lines(item.value) if isinstance(item.value, str) else json_line(item.value)
        if not self._as_text:
            print_line(text)
        elif text:
            print_text(text)
            self._in_line = not text.endswith("\n")

    def end(self) -> None:
        """Come to the end of the line."""
        if self._in_line:
            self._in_line = False
            print_text("\n")
