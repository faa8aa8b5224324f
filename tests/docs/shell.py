"""A shell in which a page's commands are typed, one after the other."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

LONGEST_COMMAND_S = 60.0

_KILLED = re.compile(r"^bash: line \d+: +\d+ Killed.*\n", re.MULTILINE)  # what bash says of a job, at any later time


class Shell:
    """One bash in a session of its own. Whatever it has started ends with it."""

    def __init__(self, folder: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OUTLAST", "PYTEST"))}
        environment |= {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TERM": "dumb",
            "PYTHONWARNINGS": "error",
        }
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._count = 0

    def type(self, command: str) -> tuple[str, int]:
        """Run a command; return what it printed and its exit code."""
        assert self._bash.stdin is not None
        self._count += 1
        mark = f"<<done {self._count} "
        self._bash.stdin.write(f"{command}\nprintf '\\n{mark}%d>>\\n' $?\n".encode())
        self._bash.stdin.flush()
        text = self._read_until(mark, command)
        printed, code = re.split(rf"\n{re.escape(mark)}(\d+)>>\n", text, maxsplit=1)[:2]
        return _KILLED.sub("", printed), int(code)

    def _read_until(self, mark: str, command: str) -> str:
        assert self._bash.stdout is not None
        got, end = b"", time.monotonic() + LONGEST_COMMAND_S
        while not re.search(rf"\n{re.escape(mark)}\d+>>\n".encode(), got):
            ready, _, _ = select.select([self._bash.stdout], [], [], max(0.0, end - time.monotonic()))
            more = os.read(self._bash.stdout.fileno(), 65536) if ready else b""
            if not more:
                raise TimeoutError(f"{command!r} did not end; it printed:\n{got.decode(errors='replace')}")
            got += more
        return got.decode()

    def close(self) -> None:
        """End the shell and all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()
        for stream in (self._bash.stdin, self._bash.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def matches(expected: str, printed: str) -> bool:
    """Tell whether a page's output is what was printed: `...` is anything within a line, or any lines."""
    pattern = ""
    for line in _plain(expected):
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += r"[^\n]*?".join(re.escape(part) for part in line.split("...")) + "\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _plain(printed))) is not None


def _plain(text: str) -> list[str]:
    """Return the lines of a text; the spaces between columns count as one."""
    lines = [re.sub(r"(?<=\S) +", " ", line).rstrip() for line in text.strip("\n").splitlines()]
    return [line for line in lines if line]
