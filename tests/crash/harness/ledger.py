"""The world outside of the store: a file with one line for each effect, written at once and for good."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

REFUSED = "refused"  # a note of a step that was told not to do what it was about to do


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One effect: which attempt of which step did it, when, in which process, and with what."""

    run: str
    step: str  # its identity, `main/put#1`
    name: str
    effect: str  # pure, idempotent, once; or REFUSED
    key: str
    attempt: int
    fence: int
    pid: int
    at: float  # wall time
    arg: str


def append(path: str, line: Line) -> None:
    """Add a line. One write call and a sync: it is there whole or not at all, and survives this process."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, msgspec.json.encode(line) + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)


def read(path: str | Path) -> list[Line]:
    """Return all lines, in order; of a file that is not there yet, none."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        return []
    return [msgspec.json.decode(line, type=Line) for line in data.splitlines()]
