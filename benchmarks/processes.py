"""Starting processes that are measured: each repeat gets a fresh one, and inherits no heap and no caches."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 900.0


class ChildFailed(Exception):
    """A process that measures ended with an error; the text is what it said last."""


def call(function: Callable[..., Any] | str, **arguments: Any) -> Any:
    """Call a function of this package in a fresh process and return its (JSON) result. Raises ChildFailed."""
    return finish(start(function, **arguments))


def start(function: Callable[..., Any] | str, **arguments: Any) -> subprocess.Popen[str]:
    """Start a process that calls a function, given itself or as `module:name`; its lines can be read."""
    place = function if isinstance(function, str) else f"{function.__module__}:{function.__name__}"
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.child", place, json.dumps(arguments)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> Any:
    """Wait for the end of a process and return its result. Raises ChildFailed."""
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise ChildFailed(f"{process.args!r} did not end within {PATIENCE_S:.0f} s") from None
    if process.returncode:
        raise ChildFailed(f"{process.args!r} ended with {process.returncode}: {err.strip()[-2000:]}")
    return json.loads(out.splitlines()[-1])
