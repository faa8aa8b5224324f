"""The measures, by the name that `--only` takes: functions that yield rows of the table and lines of the plots."""

from __future__ import annotations

from benchmarks.bench import Measure
from benchmarks.measures.fleet import claims_in_a_crowd, dispatch, idle_fleet, workers_together
from benchmarks.measures.many_runs import many_runs
from benchmarks.measures.messages import messages
from benchmarks.measures.parallel_steps import parallel_steps
from benchmarks.measures.parked_runs import parked_runs
from benchmarks.measures.queued_runs import queued_runs
from benchmarks.measures.resuming import resuming
from benchmarks.measures.start_to_result import start_to_result
from benchmarks.measures.starting_up import starting_up
from benchmarks.measures.step_by_step import step_cost_along_a_run, steps_in_a_row, steps_per_run
from benchmarks.measures.streams import streams
from benchmarks.measures.takeover import takeover
from benchmarks.measures.timers import timers

ON_SQLITE: dict[str, Measure] = {
    "steps-in-a-row": steps_in_a_row,
    "many-runs": many_runs,
    "queued-runs": queued_runs,
    "start-to-result": start_to_result,
    "parallel-steps": parallel_steps,
    "step-cost-along-a-run": step_cost_along_a_run,
    "steps-per-run": steps_per_run,
    "streams": streams,
    "resuming": resuming,
    "takeover": takeover,
    "timers": timers,
    "messages": messages,
    "parked-runs": parked_runs,
    "starting-up": starting_up,
}

ON_POSTGRESQL: dict[str, Measure] = {
    "steps-in-a-row": steps_in_a_row,
    "many-runs": many_runs,
    "queued-runs": queued_runs,
    "workers-together": workers_together,
    "dispatch": dispatch,
    "streams": streams,
    "resuming": resuming,
    "takeover": takeover,
    "timers": timers,
    "messages": messages,
    "parked-runs": parked_runs,
    "idle-fleet": idle_fleet,
    "claims-in-a-crowd": claims_in_a_crowd,
}

MEASURES = {"sqlite": ON_SQLITE, "postgresql": ON_POSTGRESQL}
