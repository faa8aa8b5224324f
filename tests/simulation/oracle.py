"""Who watches: every verb that a store applies, every step that begins, every effect that arrives."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from outlast.core import invariants
from outlast.core.effects import InStep
from outlast.core.records import Effect, Record, RunRow
from outlast.core.transitions import ENDED, Status
from outlast.stores.memory import MemoryStore
from outlast.stores.verbs import (
    Answer,
    Beat,
    Beaten,
    Claim,
    Claimed,
    Finish,
    Leave,
    Park,
    Register,
    Release,
    StartRun,
    Stick,
    TakenOver,
    TakeOver,
    Verb,
    Write,
)
from tests.simulation.plans import must_fail

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.simulator import Simulator
    from tests.simulation.world import Request

OF_ONE_RUN = (Write, Park, Release, Stick, Finish)


class Oracle:
    """Collects what breaks a rule in `broken`; a schedule ends at the first."""

    def __init__(self, sim: Simulator, memory: MemoryStore) -> None:
        self.sim = sim
        self.memory = memory
        self.broken: list[str] = []
        self.known: dict[int, tuple[RunRow, list[Record]]] = {}
        self.results: dict[str, tuple[str, Any]] = {}
        self.started: set[str] = set()
        self.unwanted: set[str] = set()  # runs that somebody has cancelled
        self._leases: dict[str, float] = {}
        self._processes: dict[str, Process] = {}

    def refuse(self, *problems: str | None) -> None:
        """Note what is wrong."""
        for problem in problems:
            if problem is not None:
                self.sim.tell("oracle", "BROKEN", problem)
                self.broken.append(problem)

    # -- the store ---------------------------------------------------------------------

    def watch(self, process: Process, verb: Verb, memory: MemoryStore) -> Answer:
        """Have a verb applied, and compare what it changed with what it may change."""
        answer = memory.transact([verb])[0]
        if not isinstance(verb, Beat) or not isinstance(answer, Beaten):
            self.sim.tell(process.name, "  commits", verb, "->", answer)
        changed = False
        if isinstance(verb, OF_ONE_RUN):
            before = self.known.get(verb.run)
            if self._compare(verb.run) and before is not None:
                self.refuse(
                    invariants.not_the_owner(before[0], verb.worker, verb.claim),
                    self._without_lease(verb.worker, type(verb).__name__),
                    invariants.timer_before_doubt(self.known[verb.run][1], len(before[1]), verb.worker),
                )
                if before[0].parent is not None:
                    self._compare(before[0].parent)
        elif not isinstance(verb, (Beat, Register)):
            self._watch_starts(process, verb)
            for pk in list(memory._tables.runs):
                changed = self._compare(pk) or changed
        self._watch_leases(process, verb, answer, changed)
        return answer

    def _watch_starts(self, process: Process, verb: Verb) -> None:
        """I4: a child that was not there before rests on the records of its parent up to its call."""
        if not isinstance(verb, StartRun) or verb.run.parent is None or verb.parent_claim is None:
            return
        child, worker = self.memory.run(verb.run.id), process.app.worker
        if child is None or child.pk in self.known or worker is None or verb.run.parent not in worker.executions:
            return
        execution = worker.executions[verb.run.parent]
        if execution.row.claim == verb.parent_claim:
            pending, records = execution.engine.calls[verb.run.parent_key], self.memory.records(verb.run.parent)
            committed = records[-1].seq if records else 0
            self.refuse(invariants.left_too_early(execution.row.id, child.id, pending.cause, committed))

    def _compare(self, pk: int) -> bool:
        """Look at a run after a verb; tell whether it has changed."""
        row = self.memory.run_by_pk(pk)
        if row is None:
            self.refuse(f"I10: run {pk} is gone")
            return False
        known = self.known.get(pk)
        if known is None:
            self.known[pk] = (row, self.memory.records(pk))
            self.refuse(invariants.unsound(row))
            return True
        before, journal = known
        grown = len(self.memory._tables.runs[pk].records) != len(journal)
        if before == row and not grown:
            return False
        records = self.memory.records(pk)
        self.refuse(
            invariants.changed_unlawfully(before, row),
            invariants.unsound(row),
            invariants.rewritten(journal, records),
            invariants.ended_in_doubt(row, records),
        )
        self.known[pk] = (row, records)
        return True

    def _without_lease(self, worker: str, what: str) -> str | None:
        until = self._leases.get(worker, -inf)
        if self.sim.boot < until:
            return None
        return f"I3: {what} of worker {worker} was accepted after its lease had ended at {until}"

    def _watch_leases(self, process: Process, verb: Verb, answer: Answer, changed: bool) -> None:
        match verb, answer:
            case Register(worker=row), Beaten(lease_until=until):
                self._leases[row.id] = until
                self._processes[row.id] = process
            case Beat(worker=worker), Beaten(lease_until=until):
                if self._leases.get(worker) == -inf:
                    self.refuse(f"I3: the lease of {worker} was renewed after it had been taken")
                self._leases[worker] = until
            case Leave(worker=worker), TakenOver():
                self._leases[worker] = -inf
            case (TakeOver(worker=worker, dead=dead, gone=gone), TakenOver()) if (
                changed or self._leases.get(dead) != -inf
            ):
                self.refuse(self._without_lease(worker, "TakeOver"), self._lives(dead, gone))
                self._leases[dead] = -inf
            case (Claim(worker=worker), Claimed()) if changed:
                self.refuse(self._without_lease(worker, "Claim"))

    def _lives(self, dead: str, gone: bool) -> str | None:
        """A worker is taken over when its lease has ended, or when its process is gone and that is known."""
        process = self._processes.get(dead)
        worker = process.app.worker if process is not None else None
        if process is None or worker is None or worker.id != dead or process.gone:
            return None
        if gone:
            return f"I3: worker {dead} is said to be gone, and its process lives"
        if self.sim.boot < self._leases.get(dead, -inf):
            return f"I3: worker {dead} was taken over while its lease held"
        return None

    def machine_restarted(self) -> None:
        """No lease that was given before holds any more."""
        self._leases = dict.fromkeys(self._leases, -inf)

    # -- steps and effects -----------------------------------------------------------------

    def executes(self, process: Process, place: InStep) -> None:
        """The function of a step is called."""
        worker, lease = process.app.worker, process.app.writer.lease
        row = self.memory.run(place.run_id)
        assert worker is not None
        assert row is not None
        records = self.memory.records(row.pk)
        what, key = f"{place.step_id} of run {place.run_id}", place.step_id
        self.refuse(
            invariants.starts_without_lease(what, -inf if lease is None or lease.lost else lease.until, self.sim.boot),
            invariants.not_the_owner(row, worker.id, place.fence),
            invariants.executed_again(records, key),
            invariants.other_key(row.incarnation, key, place.idempotency_key),
        )
        execution = worker.executions.get(row.pk)
        if execution is None:
            self.refuse(f"I3: {what} begins, and nobody executes its run")
            return
        pending = execution.engine.calls[key]
        committed = records[-1].seq if records else 0
        if pending.effect is not Effect.PURE:
            rests_on = max(pending.cause, *(a.seq for a in pending.attempts), 0)
            self.refuse(invariants.left_too_early(row.id, key, rests_on, committed))
        if pending.effect is Effect.ONCE:
            self.refuse(invariants.without_intent(records, key, place.attempt))

    def booked(self, request: Request, bookings: list[Request]) -> None:
        """A `once` effect has reached the world."""
        if len(bookings) > 1:
            self.refuse(f"I5: {request.step} of run {request.run} reached the world {len(bookings)} times")

    # -- what people were told -----------------------------------------------------------------

    def acknowledged(self, run: str) -> None:
        """Somebody was told that their run is started."""
        self.started.add(run)
        if self.memory.run(run) is None:
            self.refuse(f"I10: the start of run {run} was acknowledged, and the store does not know it")

    def told(self, run: str, status: str, value: Any) -> None:
        """Somebody was told how their run ended."""
        row = self.memory.run(run)
        if row is None or row.status is not Status(status):
            self.refuse(f"I10: run {run} was said to have {status}, and it has {row and row.status}")
        if status == "failed" and not must_fail(value[0]):
            self.refuse(f"I7: run {run} was said to have failed: {value[1]}")
        if status == "cancelled" and run not in self.unwanted:
            self.refuse(f"I7: run {run} was cancelled, and nobody asked for it")
        if self.results.setdefault(run, (status, value)) != (status, value):
            self.refuse(f"I9: run {run} ended with {self.results[run]}, and then with {(status, value)}")

    def unfinished(self) -> list[RunRow]:
        """Return the runs that have not ended."""
        return [row for row, _ in self.known.values() if row.status not in ENDED]
