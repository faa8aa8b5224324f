"""Where commands write: rich on a terminal, plain lines of any length into a pipe or file."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from outlast.cli.failures import OutputLost
from outlast.cli.streams import write_out
from outlast.cli.wording import visible

_ANY_WIDTH = 1_000_000
_GAP = 2
_LEAST_WIDTH = 12


def print_line(text: str) -> None:
    """Write a line to stdout."""
    _write(f"{text}\n")


def print_text(text: str) -> None:
    """Write to stdout what need be no whole line."""
    _write(text)


def _write(text: str) -> None:
    """Write to stdout; end the command where that cannot be done."""
    try:
        write_out(text)
    except OSError as fault:
        raise OutputLost(fault) from None


def print_json(value: Any) -> None:
    """Write a value to stdout as one JSON document."""
    print_line(json.dumps(value, ensure_ascii=False, indent=2))


def json_line(value: Any) -> str:
    """Return a value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False)


def print_note(text: str) -> None:
    """Write a line to stderr, beside the output."""
    with contextlib.suppress(OSError):
        print(visible(text), file=sys.stderr, flush=True)  # noqa: T201 - this is where a command line speaks


def show(renderable: RenderableType, *, least_width: int = 0) -> None:
    """Write something of rich's: with colour on a terminal, else as plain lines that are not cut to a width."""
    if sys.stdout.isatty():
        console = Console(highlight=False)
        console.width = max(console.width, least_width)
        console.print(renderable)
        return
    written = io.StringIO()
    encoding = (sys.stdout.encoding or "utf-8").lower()
    plain = Console(file=written, width=_ANY_WIDTH, color_system=None, highlight=False, legacy_windows=False)
    options = plain.options.update()
    options.encoding = encoding
    lines = plain.render_lines(renderable, options, pad=False)
    _write("".join("".join(part.text for part in line).rstrip() + "\n" for line in lines))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str | Text]], below: Sequence[Sequence[str]] = ()
) -> None:
    """Write a table without lines. On a terminal its last column is cut to what the others leave; nothing else is.

    `below` has for each row the lines that are to stand under it.
    """
    cells = [[cell.copy() if isinstance(cell, Text) else Text(visible(cell)) for cell in row] for row in rows]
    heads = [Text(column.upper(), style="bold") for column in columns]
    widths = [max(row[n].cell_len for row in (heads, *cells)) + _GAP for n in range(len(columns))]
    width = 0
    if sys.stdout.isatty():
        used = sum(widths[:-1])
        left = max(Console().width - used, _LEAST_WIDTH)
        for row in cells:
            row[-1].truncate(left, overflow="ellipsis")
        width = used + left  # wider than a narrow terminal, which then breaks the lines: an id stays whole
    lines = [_in_columns(heads, widths)]
    for n, row in enumerate(cells):
        lines.append(_in_columns(row, widths))
        lines += [Text(f"  {line}", style="dim") for line in (below[n] if below else ())]
    show(Group(*lines), least_width=width)


def _in_columns(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text()
    for cell, width in zip(cells[:-1], widths, strict=False):
        line.append_text(cell).append(" " * (width - cell.cell_len))
    return line.append_text(cells[-1])


STATUS_STYLE = {
    "pending": "cyan",
    "running": "blue",
    "waiting": "cyan",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "stuck": "bold red",
}


def status_text(status: str, reason: str = "") -> Text:
    """Return a status, and the reason of a stuck one, in its colour."""
    return Text(f"{status}: {reason}" if reason else status, style=STATUS_STYLE.get(status, ""))


@contextlib.contextmanager
def progress(text: str) -> Iterator[Any]:
    """Show on stderr that something is waited for, if that is a terminal; yields what to call with a new text."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    console = Console(stderr=True, highlight=False)
    with console.status(Text(visible(text))) as status:
        yield lambda text: status.update(Text(visible(text)))
