"""How the demo speaks: with colour on a terminal, in plain lines in a pipe, not at all for `--json`."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

MAX_WIDTH = 110
QUOTED = " " * 6


class Narrator:
    """See the top of this file."""

    def __init__(self, *, silent: bool = False) -> None:
        self._console = Console(quiet=silent, highlight=False)
        columns = shutil.get_terminal_size().columns if self._console.is_terminal else MAX_WIDTH
        self._width = max(40, min(MAX_WIDTH, columns))

    def heading(self, text: str) -> None:
        """Begin an act."""
        self._print("")
        self._print(self._fill(text), "bold")

    def say(self, text: str, style: str = "") -> None:
        """Tell what happens: a paragraph."""
        self._print(self._fill(text, "  ", "  "), style)

    def well(self, text: str) -> None:
        """Tell a good end."""
        self.say(text, "green")

    def badly(self, text: str) -> None:
        """Tell a bad end."""
        self.say(text, "red")

    def quote(self, lines: Iterable[str]) -> None:
        """Show what a person would see or type; not wrapped, so that it can be copied."""
        for line in lines:
            self._print(f"{QUOTED}{line}", "cyan")

    def quote_prose(self, text: str) -> None:
        """Show what a person would read."""
        self._print(self._fill(text, QUOTED, QUOTED), "cyan")

    def table(self, rows: dict[str, str]) -> None:
        """Show names, and what there is to say of each."""
        column = max(map(len, rows)) + 4
        for name, text in rows.items():
            first, rest = f"  {name}".ljust(column), " " * column
            self._print(self._fill(text, first, rest), "bold")

    def _fill(self, text: str, first: str = "", rest: str = "") -> str:
        """Wrap a paragraph, but no option like --did-not-happen."""
        return textwrap.fill(text, self._width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style), soft_wrap=True)
