"""Finding the points: a worker passes all of them undisturbed and reports their names."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from tests.crash.harness.scene import Scene, Zygote
from tests.crash.harness.verdict import judge

RUNS = (("errand", "one"), ("letter", "one"), ("chore", "one"), ("native", "one"))
STAYING = {"park_after": 5.0}  # no run rests, so that the one worker which claimed them passes all points itself
RESTING = {"park_after": 0.0}  # every wait is a rest


def record(zygote: Zygote, folder: Path, **config: float) -> list[str]:
    """Return the names of all points that a worker passes around its writes and in its steps, from first to last."""
    scene = Scene(zygote, folder, **config)
    scene.start(*RUNS)
    worker = scene.worker("recorder", recording=True)
    assert judge(scene) == []
    worker.signal(signal.SIGTERM)
    worker.wait("left")
    names = [event.name for event in worker.events("point")]
    scene.close()
    return [name for name in names if not name.startswith("read ") and not name.endswith(" migration")]


def moments(points: list[str]) -> list[str]:
    """Return one point of each kind: the same side of the same verb, record and step, wherever it first comes."""
    kinds = {re.sub(r"main/|#\d+| of .*| (?=\w+-one)\S+", "", p): p for p in reversed(points)}
    return list(reversed(kinds.values()))
