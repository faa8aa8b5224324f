"""stdin, stdout and stderr as they may be found: closed, on a full disk, or with nobody at the other end.

What a command could not write is an exit code of its own and one line on stderr where there is one, never a traceback.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from pathlib import Path
from typing import IO

CLOSED = "it is closed"


class ClosedOutput(io.TextIOWrapper):
    """Stands for a stdout that was closed: what user code prints goes nowhere, and a command knows."""


def open_closed_streams() -> None:
    """Put something in the place of closed streams: files that are opened later would get their numbers."""
    nowhere = Path(os.devnull)
    if sys.stdin is None:
        sys.stdin = nowhere.open(encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = ClosedOutput(nowhere.open("wb"), encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = nowhere.open("w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a value may hold what the terminal's encoding lacks


def write_out(text: str) -> None:
    """Write to stdout, at once. Raises OSError."""
    if isinstance(sys.stdout, ClosedOutput):
        raise OSError(CLOSED)
    sys.stdout.write(text)
    sys.stdout.flush()


def output_fault() -> OSError | None:
    """Return what stands against writing to stdout, if something does."""
    try:
        sys.stdout.flush()
    except OSError as fault:
        return fault
    except ValueError:  # closed by the code that was imported
        return OSError(CLOSED)
    return None


def is_of_output(error: OSError) -> bool:
    """Tell whether an error came of writing to a stream: it names no file, as all others do."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EBADF, errno.EFBIG)


def let_go(stream: IO[str]) -> None:
    """Let what is left in a stream go nowhere: the interpreter flushes it once more at its end, and would complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def let_go_of_lost_words() -> None:
    """Do so with what could not be said on stderr: the exit code stays what it is."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        let_go(sys.stderr)
