"""The pages of the documentation as the tests see them: blocks of code, links, tables.

Conventions, which `CONTRIBUTING.md` tells writers:

- The blocks of a page run in their order, in one folder and one namespace, like the cells of a notebook. A block with a
  bare `await` runs in an event loop of its own.
- A `python` block whose first line is `# name.py` is a file: it is written there, and a command runs it.
- A `console` block is typed into the page's shell: lines that begin with `$ ` are commands, the others what they print.
- An `output` block is what the block before it prints. In both, `...` stands for anything within a line, and a line
  that is only `...` for any lines.
- `<!-- not run: why -->` above a block says why it is not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```(\w*)$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_FILE = re.compile(r"^# ([\w/]+\.py)$")
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
_INLINE_CODE = re.compile(r"`[^`\n]+`")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. `line` is that of its first line of text, counted from 1."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str = ""

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str:
        """The name of the file that the block is, or nothing."""
        found = _FILE.match(self.text.partition("\n")[0])
        return found[1] if found and self.language == "python" else ""


def all_pages() -> list[Path]:
    """Return the pages that people read: the README and all under docs/."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@cache
def text_of(page: Path) -> str:
    """Return a page's text."""
    return page.read_text(encoding="utf-8")


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in their order."""
    return list(_blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    lines = text_of(page).splitlines()
    at, not_run = 0, ""
    while at < len(lines):
        fence, mark = _FENCE.match(lines[at]), _NOT_RUN.match(lines[at])
        at += 1
        if fence:
            end = lines.index("```", at)
            yield Block(page, at + 1, fence[1], "\n".join(lines[at:end]) + "\n", not_run)
            at, not_run = end + 1, ""
        elif mark:
            not_run = mark[1]
        elif lines[at - 1].strip():
            not_run = ""


def prose_of(page: Path) -> str:
    """Return a page's text with its blocks and its inline code left out, line for line."""
    kept, inside = [], False
    for line in text_of(page).splitlines():
        if line.startswith("```"):
            inside = not inside
            kept.append("")
        else:
            kept.append("" if inside else _INLINE_CODE.sub("``", line))
    return "\n".join(kept)


def links_of(page: Path) -> list[tuple[int, str]]:
    """Return the links of a page, each with its line."""
    found = []
    for number, line in enumerate(prose_of(page).splitlines(), 1):
        found += [(number, target) for target in _LINK.findall(line)]
    return found


def anchors_of(page: Path) -> set[str]:
    """Return the names that a link can give after `#`, as GitHub makes them of the headings."""
    inside, counts = False, dict[str, int]()
    anchors = set()
    for line in text_of(page).splitlines():
        inside ^= line.startswith("```")
        if line.startswith("#") and not inside:
            heading = line.lstrip("#").strip().lower()
            slug = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
            counts[slug] = counts.get(slug, 0) + 1
            anchors.add(slug if counts[slug] == 1 else f"{slug}-{counts[slug] - 1}")
    return anchors


def section_of(page: Path, heading: str) -> str:
    """Return the text under a heading, up to the next of the same or a higher level."""
    level = len(heading) - len(heading.lstrip("#"))
    lines = text_of(page).splitlines()
    start = lines.index(heading) + 1
    inside = False
    for at in range(start, len(lines)):
        inside ^= lines[at].startswith("```")
        if not inside and re.match(rf"#{{1,{level}}} ", lines[at]):
            return "\n".join(lines[start:at])
    return "\n".join(lines[start:])


def table_of(text: str) -> list[list[str]]:
    """Return the rows of the first table in a text, without its head, each as its cells."""
    lines = text.splitlines()
    rule = next((at for at, line in enumerate(lines) if re.fullmatch(r"\|(?: *:?-+:? *\|)+", line)), None)
    if rule is None:
        return []
    rows = []
    for line in lines[rule + 1 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])])
    return rows
