"""Runs under which workers keep dying are executed one at a time, so that the one to blame is found and no other.

A worker's death counts against every run that it held: nobody can tell which of them it was. Where it was one, all
others would become `stuck: crash_loop` with it. So a run that has got half-way there is put on trial: the others rest,
owned by nobody, until it has a new record, has left, or has lived for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from outlast.core.records import RunRow
from outlast.stores.verbs import Answer, Done, Park

if TYPE_CHECKING:
    from outlast.core.errors import StoreError
    from outlast.runtime.execution import Execution
    from outlast.runtime.worker import Worker

TRIAL_S = 30.0
"""So long a run on trial keeps the others waiting; what kills its worker later than that may be anything."""
AGAIN_S = 1.0
"""After so long a run that rests asks again."""


class Trials:
    """The run on trial in a worker, if there is one. All methods are called on the worker's loop."""

    def __init__(self, worker: Worker, max_crashes: int) -> None:
        self._worker = worker
        self._from = max(2, max_crashes // 2)
        self._pk = 0  # of the run on trial
        self._others_rest = True
        self._tried: Execution | None = None  # once it has begun
        self._until = 0.0

    def suspects(self, row: RunRow) -> bool:
        """Tell whether a run has to be tried alone."""
        return row.crashes >= self._from

    def keeps(self, pk: int) -> bool:
        """Tell whether a run is kept from beginning until the others rest."""
        return pk == self._pk and not self._others_rest

    def take(self, rows: Sequence[RunRow], load: Callable[[RunRow], None]) -> None:
        """Let one of these runs begin, as soon as the others rest; all rest while another is tried."""
        under_way = self._worker.clock.boot() < self._until and not self._is_over()
        chosen, resting = (None, rows) if under_way else (rows[0], rows[1:])
        left = len(resting)

        def rests() -> None:
            nonlocal left
            left -= 1
            if left == 0 and chosen is not None:
                self._others_rest = True
                load(chosen)

        if chosen is not None:
            self._pk, self._others_rest, self._tried = chosen.pk, not resting, None
            self._until = self._worker.clock.boot() + TRIAL_S
            if not resting:
                load(chosen)
        for row in resting:
            self._let_rest(row, rests)

    def begun(self, execution: Execution) -> None:
        """A run has begun."""
        if execution.row.pk == self._pk:
            self._tried = execution

    def _is_over(self) -> bool:
        tried = self._tried
        return tried is not None and (tried.closed or tried.committed > max(tried.replayed, 0))

    def _let_rest(self, row: RunRow, rests: Callable[[], None]) -> None:
        """Give a run back for a moment, so that it is not this worker's should that die."""
        worker = self._worker

        def done(answer: Answer | StoreError) -> None:
            if isinstance(answer, Done):
                worker.look_due()
            else:  # something has come for it meanwhile, or nobody can tell what became of it
                worker.claims.reconcile_soon()
            rests()

        why = f"{row.crashes} workers in a row died under it, so it is tried alone; another is being tried just now"
        due = worker.now() + AGAIN_S
        worker.writer.submit(Park(worker=worker.id, run=row.pk, claim=row.claim, due=due, detail=why), done)
