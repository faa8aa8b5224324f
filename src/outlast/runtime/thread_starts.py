"""Notices which threads a workflow body starts, so that a step called there is not taken for the plain function.

Starting them is not refused: a library may start one out of a log call. `threading` has no hook for it, and Python's
audit events name it only from 3.12 on, with a hook that each import and each opened file would pay for. So
`Thread.start` is wrapped, once per process.
"""

from __future__ import annotations

import functools
import threading

from outlast.core.lost import mark_if_started_by_a_body

_noticing = False


def notice_threads() -> None:
    """Look at each thread that starts from now on. A second call does nothing."""
    global _noticing  # noqa: PLW0603 - as is the class that is changed here, it is the process's
    if _noticing:
        return
    _noticing = True
    start = threading.Thread.start

    @functools.wraps(start)
    def noticed_start(self: threading.Thread) -> None:
        mark_if_started_by_a_body(self)
        start(self)

    threading.Thread.start = noticed_start  # type: ignore[method-assign]
