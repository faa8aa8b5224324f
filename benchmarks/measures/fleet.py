"""Workers of several processes on one PostgreSQL: what they do together, how soon a run begins, what idle ones cost."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Iterator
from statistics import median, quantiles

from benchmarks import processes, programs
from benchmarks.bench import Bench
from benchmarks.figures import Row, Samples, at_least, at_most, interleaved
from benchmarks.grounds import Postgres
from benchmarks.measures.many_runs import STEPS, WARM_RUNS
from outlast import App

SETTLE_S = 3.0
FINISHED, PARKED = 1_000_000, 200_000


async def work(url: str) -> None:
    """Be a worker of another process than the client, until killed."""
    async with App(url):
        print("ready", flush=True)
        await asyncio.sleep(programs.DAY_S)


async def have_done(url: str, runs: int) -> float:
    """Return the seconds in which the workers of other processes do so many runs of 5 steps, started together."""
    async with App(url, worker=False) as app:

        async def one() -> None:
            await (await app.start(programs.in_a_row("idempotent", STEPS))).result()

        await asyncio.gather(*[one() for _ in range(WARM_RUNS)])
        began = time.perf_counter()
        await asyncio.gather(*[one() for _ in range(runs)])
        return time.perf_counter() - began


async def time_to_first_step(url: str, runs: int) -> list[float]:
    """Return the seconds from a client's `start` to the run's first step in a worker of another process, run by run."""
    taken = []
    async with App(url, worker=False) as app:
        for _ in range(WARM_RUNS + runs):
            began = time.monotonic()
            taken.append(await (await app.start(programs.tell_time())).result() - began)
    return taken[WARM_RUNS:]


def workers_together(bench: Bench) -> Iterator[Row]:
    """Runs of 5 idempotent steps per second that 1, 2 and 4 worker processes do for a client in another one."""
    runs = bench.size(2_000, 300)

    def rate(number: int) -> float:
        url = bench.ground.store()
        with workers(url, number):
            return runs / float(processes.call(have_done, url=url, runs=runs))

    one, two, four = interleaved(min(bench.repeats, 3), lambda: rate(1), lambda: rate(2), lambda: rate(4))
    for number, found in ((2, two), (4, four)):
        yardstick = Samples(one, "runs/s", "by 1")
        yield Row(
            f"{runs:,} runs of {STEPS} steps by {number} workers", Samples(found, "runs/s"), yardstick, at_least(1)
        )


def dispatch(bench: Bench) -> Iterator[Row]:
    """From `start` in a client to the run's first step in an idle worker of another process."""
    runs, middle, late = bench.size(300, 50), [], []
    for _ in range(min(bench.repeats, 3)):
        url = bench.ground.store()
        with workers(url, 1):
            taken = processes.call(time_to_first_step, url=url, runs=runs)
        middle.append(median(taken))
        late.append(quantiles(taken, n=100)[98])
    yield Row("start to first step elsewhere: p50", Samples(middle, "s"), None, at_most(0.01, "s"))
    yield Row("start to first step elsewhere: p99", Samples(late, "s"), None, at_most(0.04, "s"))


def idle_fleet(bench: Bench) -> Iterator[Row]:
    """The share of one core that the server needs while ten workers have nothing to do."""
    assert isinstance(bench.ground, Postgres)
    seconds, shares = bench.size(20, 3), []
    with workers(bench.ground.store(), 10):
        for _ in range(min(bench.repeats, 3)):
            time.sleep(SETTLE_S)
            began, used = time.perf_counter(), bench.ground.cpu_seconds()
            time.sleep(seconds)
            shares.append(100 * (bench.ground.cpu_seconds() - used) / (time.perf_counter() - began))
    yield Row("the server's CPU beside 10 idle workers", Samples(shares, "%"), None, at_most(1, "%"))


def claims_in_a_crowd(bench: Bench) -> Iterator[Row]:
    """From `start` to the first step elsewhere, beside 1,000,000 finished and 200,000 parked runs."""
    assert isinstance(bench.ground, Postgres)
    finished, parked = bench.size(FINISHED, 10_000), bench.size(PARKED, 2_000)
    runs = bench.size(200, 30)
    empty, crowded = bench.ground.store(), bench.ground.store()
    for url in (empty, crowded):
        processes.call(time_to_first_step_here, url=url)
    columns = "incarnation, workflow, definition, is_step, options, parent_key, forks, created, python, version, input"
    alike = f"SELECT {columns} FROM runs WHERE id = 'example'"
    bench.ground.execute(
        crowded,
        f"INSERT INTO runs (id, status, started, ended, result, {columns}) SELECT 'finished-' || i, 'succeeded', "
        f"created, created, '1', {columns} FROM ({alike}) AS example, generate_series(1, {finished}) AS i",
        f"INSERT INTO runs (id, status, due, {columns}) SELECT 'parked-' || i, 'waiting', "
        f"created + {programs.DAY_S} + i, {columns} FROM ({alike}) AS example, generate_series(1, {parked}) AS i",
        "ANALYZE",
    )

    def claim(url: str) -> float:
        with workers(url, 1):
            return median(processes.call(time_to_first_step, url=url, runs=runs))

    among, alone = interleaved(bench.repeats, lambda: claim(crowded), lambda: claim(empty))
    name = f"start to first step elsewhere, beside {finished:,} finished and {parked:,} parked runs"
    yield Row(name, Samples(among, "s"), Samples(alone, "s", "in an empty store"), at_most(1.3))


async def time_to_first_step_here(url: str) -> None:
    """Have one run of the id `example` in a store, from which others can be made."""
    async with App(url) as app:
        await (await app.start(programs.tell_time(), id="example")).result()


@contextlib.contextmanager
def workers(url: str, number: int) -> Iterator[None]:
    """Have so many workers, each in a process of its own, that are killed at the end."""
    started: list[subprocess.Popen[str]] = []
    try:
        started.extend(processes.start(work, url=url) for _ in range(number))
        for process in started:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise processes.ChildFailed(f"a worker did not begin: {process.communicate()[1].strip()[-2000:]}")
        yield
    finally:
        for process in started:
            process.kill()
            process.communicate()
