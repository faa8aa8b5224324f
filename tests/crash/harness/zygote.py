"""The process that all others of a test session are forked from: it has imported everything and opened nothing.

It reads one JSON configuration a line and forks a process for each. All of them write their
events to the one pipe that is its standard output; when the zygote dies, so do they.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
import traceback
from pathlib import Path

import msgspec

import outlast.stores.postgres  # noqa: F401 - which the processes of a fleet would all import
from tests.crash.harness import worker

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Fork until the standard input is closed."""
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    names: dict[int, str] = {}
    buffer = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        while names:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            _tell(names.pop(pid), "ended", pid=pid, code=os.waitstatus_to_exitcode(status))
        if 0 in ready:
            data = os.read(0, 1 << 16)
            if not data:
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                config = msgspec.json.decode(line, type=worker.Config)
                pid = os.fork()
                if not pid:
                    _child(config)
                names[pid] = config.name
                _tell(config.name, "forked", pid=pid)


def _tell(who: str, event: str, **data: int) -> None:
    os.write(1, msgspec.json.encode({"who": who, "event": event, "at": time.monotonic(), **data}) + b"\n")


def _child(config: worker.Config) -> None:
    code = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(Path(config.folder) / f"{config.name}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(log, 2)
        worker.run(config)
        code = 0
    except BaseException:  # noqa: BLE001 - the end of this process
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
