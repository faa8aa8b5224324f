"""A run's deadline, while a worker has the run, and when no worker has had it yet.

It is worked out anew from the run's row by whoever has the run; a record of it is made when it fires. A run
that has been asked to end in another way cleans up and ends, whatever its deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from outlast.core.deadlines import DEADLINE, run_timeout
from outlast.core.errors import RunTimeout, StoreError
from outlast.core.records import Kind, RunRow
from outlast.runtime.held_up import queue_states, why_not_begun
from outlast.runtime.notices import of_error
from outlast.runtime.seen import SeenWorker, seen_workers
from outlast.stores.protocol import MOST_OVERDUE, Store
from outlast.stores.time_verbs import Expire
from outlast.stores.verbs import Answer, Done

if TYPE_CHECKING:
    from outlast.runtime.client import Client
    from outlast.runtime.execution import Execution
    from outlast.runtime.worker import Worker

Overdue = tuple[RunRow, str]

CLIENT_EXPIRES_WITHIN_S = 5.0
"""So long a client goes on asking a store that is away; then it looks anew what is overdue."""


def deadline_ahead(execution: Execution) -> float | None:
    """Return when the body is to be cancelled, None where nothing of that kind is ahead."""
    engine = execution.engine
    over = engine.cancel_asked or engine.compensating or engine.outcome is not None
    return None if over else execution.row.deadline


def cancel_at_deadline(execution: Execution, now: float) -> None:
    """The deadline has come: cancel the body. It ends as failed."""
    engine = execution.engine
    event = engine.event(Kind.CANCEL, now, key="", name=DEADLINE, due=execution.row.deadline)
    engine.deliver(event)
    execution.after_turn()


def overdue_because(store: Store, rows: Sequence[RunRow], workers: Sequence[SeenWorker]) -> list[Overdue]:
    """Return runs that nobody has begun by their deadlines, each with why not. Blocking."""
    queues = queue_states(store, rows)
    return [(row, why_not_begun(row, queues, workers)) for row in rows]


def expire_unbegun(worker: Worker, rows: Sequence[Overdue]) -> None:
    """End runs that nobody has begun by their deadlines: whoever waits for them is told."""

    def ended(woke: Sequence[int]) -> None:
        worker.look_at_ends()
        worker.wake(woke)

    _expire(worker, worker.id, rows, ended)


async def expire_for_client(client: Client) -> None:
    """Do the same in a process that waits for results and has no worker: there may be none at all."""

    def look(store: Store) -> list[Overdue]:
        rows = store.overdue(MOST_OVERDUE)
        return overdue_because(store, rows, seen_workers(store)) if rows else []

    _expire(client, None, await client._read(look, client.store), lambda _: client.ends.look_soon())


def _expire(
    by: Worker | Client, worker: str | None, rows: Sequence[Overdue], ended: Callable[[Sequence[int]], None]
) -> None:
    for row, why in rows:
        error = run_timeout(row, row.deadline or 0.0, why_not_begun=why)

        def done(answer: Answer | StoreError, row: RunRow = row, error: RunTimeout = error) -> None:
            if isinstance(answer, Done):
                by.notices("run.ended", run=row.id, workflow=row.workflow, status="failed", **of_error(error))
                ended(answer.woke)

        verb = Expire(worker=worker, run=row.pk, error=by.codec.encode_error(error))
        by.writer.submit(verb, done, None if worker is not None else CLIENT_EXPIRES_WITHIN_S)
