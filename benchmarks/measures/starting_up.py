"""What a user waits for before anything happens."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import processes
from benchmarks.bench import Bench
from benchmarks.figures import Row, Samples, at_most, interleaved


def starting_up(bench: Bench) -> Iterator[Row]:
    """Whole processes, start to end: `import outlast` and `outlast --help`, beside a Python that does nothing."""
    rounds = bench.size(max(10, bench.repeats), 3)
    beside = Path(sys.executable).with_name("outlast")
    command = [str(beside)] if beside.exists() else [sys.executable, "-m", "outlast"]
    nothing, importing, helping = interleaved(
        rounds,
        _timed(sys.executable, "-c", "pass"),
        _timed(sys.executable, "-c", "import outlast"),
        _timed(*command, "--help"),
    )
    bare = Samples(nothing, "s", "python -c pass")
    yield Row("import outlast", Samples(importing, "s"), bare, at_most(0.12, "s"))
    yield Row("outlast --help", Samples(helping, "s"), bare, at_most(0.35, "s"))


def _timed(*command: str) -> Callable[[], float]:
    def once() -> float:
        began = time.perf_counter()
        done = subprocess.run(command, cwd=processes.ROOT, capture_output=True, text=True, check=False)
        taken = time.perf_counter() - began
        if done.returncode:
            said = done.stderr.strip()[-2000:]
            raise processes.ChildFailed(f"{' '.join(command)} ended with {done.returncode}: {said}")
        return taken

    once()  # writes the bytecode of what is imported for the first time
    return once
