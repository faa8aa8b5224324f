"""What the demo's child processes have in common: they report on stdout and end with their parent.

The parent holds the other end of each child's stdin. However the parent ends, the kernel closes that end, the child
reads the end of its stdin, and goes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

_one_line = threading.Lock()


def tell(event: str, **facts: Any) -> None:
    """Report to the parent: one line of JSON, with the time on the clock that all processes of a machine share."""
    line = json.dumps({"event": event, "at": time.monotonic(), **facts}, default=str)
    with _one_line:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


Obey = Callable[[dict[str, Any]], None]


def follow_parent(obey: Obey | None = None, leave: Callable[[], None] | None = None) -> None:
    """Give each command of the parent to `obey`; when the parent is gone, call `leave` or else end at once."""

    def listen() -> None:
        for line in sys.stdin:
            if obey is not None:
                obey(json.loads(line))
        if leave is None:
            os._exit(0)
        leave()

    threading.Thread(target=listen, name="lifeline", daemon=True).start()
