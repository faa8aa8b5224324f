"""A worker is killed while another one lives."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks import processes, programs
from benchmarks.bench import Bench
from benchmarks.figures import Row, Samples, at_most
from outlast import App

BEATS_BEFORE = 5  # steps that the run has done before its worker is killed


async def stand_by(url: str) -> None:
    """Be the worker that lives: until its input ends."""
    async with App(url):
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def start_and_die(url: str) -> None:
    """Be the worker that is killed in the middle of its run."""
    async with App(url) as app:
        await (await app.start(programs.until_taken_over(os.getpid()))).result()


def takeover(bench: Bench) -> Iterator[Row]:
    """`kill -9` to a worker at a random moment of a step: seconds to the first new step on another worker."""
    rounds = bench.size(max(bench.ground.kills, bench.repeats), 3)
    url = bench.ground.store()
    with _started(processes.start(stand_by, url=url)) as standby:
        _line(standby, "ready")
        taken = [_kill_one(url, standby) for _ in range(rounds)]
    name, bound = "kill -9 to first new step elsewhere", at_most(0.5, "s")
    yield Row(f"{name}, median of {rounds}", Samples(taken, "s"), None, bound)
    worst = at_most(bench.ground.worst_takeover_s, "s")
    yield Row(f"{name}, worst of {rounds}", Samples([max(taken)], "s"), None, worst)


def _kill_one(url: str, standby: subprocess.Popen[str]) -> float:
    with _started(processes.start(start_and_die, url=url)) as victim:
        for _ in range(BEATS_BEFORE):
            _line(victim, "beat")
        time.sleep(random.uniform(0, programs.BEAT_S))
        killed = time.monotonic()
        victim.kill()
        return _line(standby, "beat") - killed


@contextlib.contextmanager
def _started(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _line(process: subprocess.Popen[str], word: str) -> float:
    """Wait for a line that begins with a word, and return the number after it (the same clock in all processes)."""
    assert process.stdout is not None
    for line in process.stdout:
        first, _, rest = line.partition(" ")
        if first.strip() == word:
            return float(rest or 0)
    said = process.communicate()[1].strip()[-2000:]
    raise processes.ChildFailed(f"the process ended before it said {word!r}: {said}")
