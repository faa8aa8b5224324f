"""One run whose steps are all started together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks import processes
from benchmarks.bench import Bench
from benchmarks.figures import Row, Samples, at_most, interleaved
from benchmarks.measures.step_by_step import run_steps

LINEAR = 1.25  # what ten times as many steps may cost per step, before it is no longer called linear


def parallel_steps(bench: Bench) -> Iterator[Row]:
    """`asyncio.gather` over idempotent steps in one run: seconds from start to result, per step too.

    Per step, ten and fifty times as many may cost little more: the time grows with their number and nothing else.
    """
    few, some, many = bench.size(100, 20), bench.size(1_000, 200), bench.size(5_000, 500)

    def side(steps: int) -> Callable[[], float]:
        how = {"workflow": "in_parallel", "effect": "idempotent", "steps": steps}
        return lambda: float(processes.call(run_steps, url=bench.ground.store(), **how))

    a, b, c = interleaved(bench.repeats, side(few), side(some), side(many))
    yield Row(f"one run, {some:,} steps in parallel", Samples(b, "s"), None, at_most(0.3, "s"))
    for steps, taken in ((some, b), (many, c)):
        name = f"in parallel, per step: {steps:,} of them against {few}"
        cost = Samples([seconds / steps for seconds in taken], "s")
        yield Row(name, cost, Samples([seconds / few for seconds in a], "s", f"of {few}"), at_most(LINEAR))
