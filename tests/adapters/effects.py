"""What the tests' tools do to the world, and the point at which their process kills itself (see `scene`)."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import outlast


@dataclass
class Setting:
    """What this process was told: where effects are written, and at which point it dies."""

    effects: Path = Path()
    kill: str = ""


SETTING = Setting()


def die(point: str) -> None:
    """End the process, if this is the point."""
    if point == SETTING.kill:
        os.kill(os.getpid(), signal.SIGKILL)


def effect(tool: str, **what: Any) -> None:
    """Act on the world: a line in a file that outlives the process."""
    die(f"begins {tool}")
    line = json.dumps({"tool": tool, "key": outlast.idempotency_key()} | what)
    with SETTING.effects.open("a") as file:
        file.write(line + "\n")
    die(f"did {tool}")


def find(key: str, cents: int) -> outlast.Happened | outlast.DidNotHappen:
    """Tell from the file whether a payment was made."""
    lines = SETTING.effects.read_text().splitlines() if SETTING.effects.exists() else []
    made = any(json.loads(line)["key"] == key for line in lines)
    return outlast.Happened(f"paid {cents}") if made else outlast.DidNotHappen()
