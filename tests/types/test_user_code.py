"""User code is checked as its authors see it: by a strict type checker that knows their own signatures."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

SNIPPETS = Path(__file__).parent / "snippets"
ERROR = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)$")


@cache
def errors() -> dict[str, dict[int, str]]:
    """Return what mypy says of the snippets, by file and line."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-pretty", "--config-file="]
    command += ["--enable-error-code", "unused-awaitable"]  # as the page on calling says
    paths = [str(path) for path in sorted(SNIPPETS.glob("*.py"))]
    said = subprocess.run([*command, *paths], capture_output=True, text=True, check=False, cwd=SNIPPETS)
    found: dict[str, dict[int, str]] = {Path(path).name: {} for path in paths}
    for line in said.stdout.splitlines() + said.stderr.splitlines():
        match = ERROR.match(line)
        if match is not None and Path(match["file"]).name in found:
            lines = found[Path(match["file"]).name]
            lines[int(match["line"])] = lines.get(int(match["line"]), "") + match["text"] + "\n"
        elif ": note: " not in line:
            raise AssertionError(f"mypy says of something else: {line}")
    return found


def test_typical_programs_have_no_errors() -> None:
    assert errors()["good.py"] == {}


def test_typical_mistakes_are_found_and_nothing_else_is() -> None:
    found = errors()["bad.py"]
    wanted = {}
    for number, line in enumerate((SNIPPETS / "bad.py").read_text().splitlines(), 1):
        _, marker, text = line.partition("# E: ")
        if marker and "text`" not in text:
            wanted[number] = text
    missed = {number: text for number, text in wanted.items() if text not in found.get(number, "")}
    surplus = {number: text for number, text in found.items() if number not in wanted}
    assert not missed, "\n".join(
        f"{number}: wanted {text!r}, got {found.get(number)!r}" for number, text in missed.items()
    )
    assert not surplus
