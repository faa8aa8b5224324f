"""What the tests of stores act with: a clock that they set, and a world of workers and runs on one store."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from outlast.core.records import Kind, Record, RunRow, WorkerRow
from outlast.core.transitions import Reason, Status
from outlast.stores.course_verbs import ContinueAs
from outlast.stores.protocol import RunFilter, Store
from outlast.stores.verbs import (
    Answer,
    Claim,
    Claimed,
    Done,
    Finish,
    Park,
    Register,
    Release,
    Send,
    Started,
    StartRun,
    Stick,
    TakeOver,
    Verb,
    Write,
)

LEASE_S = 30.0
_names = count(1)


@dataclass
class SetClock:
    """A clock that stands still until a test moves it."""

    wall_s: float = 1_700_000_000.0
    boot_s: float = 1_000.0
    boot_name: str = "boot-1"

    def wall(self) -> float:
        return self.wall_s

    def boot(self) -> float:
        return self.boot_s

    def boot_id(self) -> str:
        return self.boot_name

    def advance(self, seconds: float) -> None:
        self.wall_s += seconds
        self.boot_s += seconds


def memory_folder() -> str | None:
    """Return a folder whose files are in memory, None where the machine has none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def run_row(id: str, **fields: Any) -> RunRow:
    """Return a run to be started; its incarnation is new each time unless given."""
    return RunRow(**{"pk": 0, "id": id, "incarnation": f"inc-{next(_names)}", "workflow": "flow"} | fields)


def record(seq: int, kind: Kind = Kind.STEP, key: str = "", **fields: Any) -> Record:
    """Return a record, by default of a step."""
    return Record(**{"seq": seq, "kind": kind, "key": key or f"main/step#{seq}", "at": 100.0 + seq} | fields)


@dataclass
class World:
    """A store with a clock and shorthands for what most tests do first."""

    store: Store
    clock: SetClock
    workers: list[str] = field(default_factory=list)

    def do(self, verb: Verb) -> Answer:
        """Apply one verb."""
        (answer,) = self.store.transact([verb])
        return answer

    def worker(self, id: str = "w1") -> str:
        """Register a worker."""
        self.do(Register(worker=WorkerRow(id=id, pid=1), lease_s=LEASE_S))
        self.workers.append(id)
        return id

    def start(self, id: str = "run", **fields: Any) -> RunRow:
        """Start a run, pending."""
        answer = self.do(StartRun(run=run_row(id, **fields)))
        assert isinstance(answer, Started), answer
        return answer.run

    def claim(self, worker: str = "w1", *, limit: int = 1, workflow: str = "flow") -> tuple[RunRow, ...]:
        """Claim runs that are due."""
        answer = self.do(Claim(worker=worker, workflows=(workflow,), limit=limit))
        assert isinstance(answer, Claimed), answer
        return answer.runs

    def running(self, id: str = "run", worker: str = "w1", **fields: Any) -> RunRow:
        """Start a run that a worker owns from the start; the worker is registered where it is not."""
        if worker not in self.workers:
            self.worker(worker)
        answer = self.do(StartRun(run=run_row(id, **fields), claim_by=worker))
        assert isinstance(answer, Started), answer
        assert answer.run.owner == worker
        return answer.run

    def put_in(self, status: Status, id: str = "run", **fields: Any) -> RunRow:
        """Return a run in the given status, brought there by verbs."""
        if status is Status.PENDING:
            return self.start(id, **fields)
        run = self.running(id, **fields)
        match status:
            case Status.RUNNING:
                pass
            case Status.WAITING:
                assert self.do(park(run)) == Done()
            case Status.STUCK:
                assert self.do(stick(run)) == Done()
            case _:
                assert isinstance(self.do(finish(run, status)), Done)
        return self.get(run.pk)

    def get(self, pk: int) -> RunRow:
        """Return a run that must be there."""
        run = self.store.run_by_pk(pk)
        assert run is not None
        return run

    def inbox(self, pk: int) -> list[tuple[Kind, str, str]]:
        """Return (kind, key, message id) of what is in a run's inbox."""
        (loaded,) = self.store.load([pk])
        return [(row.kind, row.key, row.message_id) for row in loaded.inbox]

    def state(self) -> object:
        """Return all that reads can tell, to compare."""
        store = self.store
        runs = store.load([run.pk for run in store.runs(RunFilter(), limit=10_000)])
        return runs, store.workers(), store.orphans(), store.info().counts


def write(run: RunRow, *records: Record, worker: str | None = None, **fields: Any) -> Write:
    """Return a write by the run's owner."""
    return Write(**{**by_owner(run, worker), "records": records} | fields)


def park(run: RunRow, due: float | None = None, worker: str | None = None, **fields: Any) -> Park:
    """Return a park by the run's owner."""
    return Park(**{**by_owner(run, worker), "due": due} | fields)


def release(run: RunRow, worker: str | None = None, **fields: Any) -> Release:
    """Return a release by the run's owner."""
    return Release(**by_owner(run, worker) | fields)


def stick(run: RunRow, reason: Reason = Reason.DIVERGED, worker: str | None = None, **fields: Any) -> Stick:
    """Return a stick by the run's owner."""
    return Stick(**{**by_owner(run, worker), "reason": reason, "detail": "why"} | fields)


def finish(
    run: RunRow, status: Status = Status.SUCCEEDED, last_seq: int = 0, worker: str | None = None, **fields: Any
) -> Finish:
    """Return a finish by the run's owner."""
    ending: dict[str, Any] = {"result": b"42"} if status is Status.SUCCEEDED else {"error": b"boom"}
    return Finish(**{**by_owner(run, worker), "status": status, "last_seq": last_seq, **ending} | fields)


def next_turn(run: RunRow, last_seq: int = 0, worker: str | None = None, **fields: Any) -> ContinueAs:
    """Return the beginning of a run's next turn, by its owner."""
    new = {"incarnation": f"{run.incarnation}'", "workflow": "flow", "definition": "", "input": b"[]", "options": "{}"}
    return ContinueAs(**{**by_owner(run, worker), "last_seq": last_seq, "at": 200.0, **new} | fields)


def by_owner(run: RunRow, worker: str | None = None) -> dict[str, Any]:
    """Return the fields that every verb of a run's owner has."""
    return {"worker": worker or run.owner, "run": run.pk, "claim": run.claim}


def message(id: str = "run", message_id: str = "m1", key: str = "topic", value: bytes | None = b"hello") -> Send:
    """Return a message to a run."""
    return Send(id=id, kind=Kind.MESSAGE, key=key, message_id=message_id, value=value)


def take_over(dead: str = "w1", worker: str = "w2", *, gone: bool = True, **fields: Any) -> TakeOver:
    """Return a takeover, by default of a process that is known to be gone."""
    return TakeOver(worker=worker, dead=dead, gone=gone, **fields)


def twice(world: World, *verbs: Verb) -> list[Answer]:
    """Apply a batch, and again as if its answer had been lost: nothing must change. Return the answers."""
    first = world.store.transact(verbs)
    state = world.state()
    assert world.store.transact(verbs) == first
    assert world.state() == state
    return first
