"""Outlast with one guard taken out. Each function does that to the process that calls it.

The tests must notice every one of these: what no test notices, nothing keeps in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from outlast.core.errors import DecodingError, StoreUnavailable
from outlast.core.records import Effect, RunRow
from outlast.runtime import execution, watcher
from outlast.runtime.evidence import Evidence, Silence
from outlast.runtime.execution import Execution
from outlast.runtime.liveness import Alive
from outlast.runtime.step_turns import next_number
from outlast.runtime.steps import Steps
from outlast.runtime.worker import Worker
from outlast.runtime.writer import Lease
from outlast.stores.rules import Hold
from outlast.stores.sqlite.batch import Batch


def no_fence() -> None:
    """Accept every write, whoever owns the run and whatever became of the writer's lease."""
    Batch.lease_lost = lambda *_: None  # type: ignore[method-assign, assignment]
    Batch.owned = lambda self, run, *_: self.fence(run)  # type: ignore[method-assign]
    Batch.hold = lambda *_: Hold.OWNED  # type: ignore[method-assign]


def no_barrier() -> None:
    """Let effects start before the records that they rest on are committed."""

    def at_once(_: Execution, act: Callable[..., None], *args: Any) -> None:
        act(*args)

    Execution.after_commit = at_once  # type: ignore[method-assign]


def no_intent() -> None:
    """Begin a `once` attempt without a word in the journal."""
    attempt = Steps._attempt

    def begin(self: Steps, pending: Any) -> None:
        if pending.effect is Effect.ONCE and not self._run.engine.busy and not self.not_now(pending):
            self._begin(pending, next_number(pending))
        else:
            attempt(self, pending)

    Steps._attempt = begin  # type: ignore[method-assign]


def single_pass() -> None:
    """Try each takeover once, and forget one that failed."""
    take_over = Worker.take_over
    tried: set[str] = set()

    def once(self: Worker, dead: str, gone: bool, evidence: str) -> None:
        if dead not in tried:
            tried.add(dead)
            take_over(self, dead, gone, evidence)

    Worker.take_over = once  # type: ignore[method-assign]


def no_local_look() -> None:
    """Start effects without a look at the lease."""
    Lease.holds = lambda _: True  # type: ignore[method-assign]


def believe_at_once() -> None:
    """Believe that it did not happen, though the attempt may still send something."""

    async def at_once(_: Evidence) -> Silence:
        return Silence(0.0, 0.0, "")

    Evidence.silence = at_once  # type: ignore[method-assign]


def doubt_cannot_read() -> None:
    """(Not a guard: a fault.) The first look at what became of an attempt's worker fails."""
    silence, failed = Evidence.silence, []

    async def fail_first(self: Evidence) -> Any:
        if not failed:
            failed.append(self)
            raise StoreUnavailable("injected")
        return await silence(self)

    Evidence.silence = fail_first  # type: ignore[method-assign]


def cannot_decode() -> None:
    """(Not a guard: a fault.) The arguments of letters cannot be rebuilt here."""
    engine_of = execution.engine_of

    def refuse(worker: Worker, row: RunRow, *rest: Any) -> Any:
        if row.workflow == "letter":
            raise DecodingError("its class is not imported here")
        return engine_of(worker, row, *rest)

    execution.engine_of = refuse  # type: ignore[assignment]


def lose_doubt() -> None:
    """Repeat a `once` attempt that has no outcome, as if it were any other."""
    start = Steps.start

    def forget(self: Steps, pending: Any) -> None:
        pending.intent = None
        start(self, pending)

    Steps.start = forget  # type: ignore[method-assign]


def blind() -> None:
    """Never ask the kernel whether a process lives: only its lease tells."""
    watcher.probe = lambda *_: Alive.UNKNOWN  # type: ignore[assignment]
