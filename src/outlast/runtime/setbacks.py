"""Native runs whose own I/O fails while they come to where they were: taken up again in a while, a few times.

Their bodies connect to servers by themselves, and one that is down for a moment says nothing of the run's code. In a
run that has recorded nothing yet the error is the body's own, and ends the run as it would end the function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.core.telling import error_line
from outlast.runtime.awaited import Awaited, kept
from outlast.stores.verbs import Park

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution

DELAYS_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0, 60.0)
WHATEVER_ARRIVED = 2**62
"""It is seen when the run is taken up again: it shall not be taken up now because of that."""


class Setbacks:
    """How often each run of this worker was set back since it last recorded something."""

    def __init__(self) -> None:
        self._tries: dict[int, tuple[int, int]] = {}  # run -> the end of its journal, and how often there

    def may_follow(self, run: int, last_seq: int) -> bool:
        """Tell whether the run may be set back once more."""
        return self._count(run, last_seq) < len(DELAYS_S)

    def delay(self, run: int, last_seq: int) -> float:
        """Count one more; return after how many seconds the run is to be taken up again."""
        n = self._count(run, last_seq)
        self._tries[run] = last_seq, n + 1
        return DELAYS_S[min(n, len(DELAYS_S) - 1)]

    def forget(self, run: int) -> None:
        """The run has ended, or is stuck."""
        self._tries.pop(run, None)

    def _count(self, run: int, last_seq: int) -> int:
        at, n = self._tries.get(run, (last_seq, 0))
        return n if at == last_seq else 0


def set_back(execution: Execution, error: BaseException) -> tuple[Park, float, str]:
    """Return what puts a run to rest for a while, until when, and why, in words."""
    worker, row = execution.worker, execution.row
    due = worker.now() + worker.setbacks.delay(row.pk, execution.engine.last_seq)
    says = f"its body failed by itself and is tried again: {error_line(error)}"
    detail = kept([Awaited("retry", says, due=due)])
    verb = Park(worker=worker.id, run=row.pk, claim=row.claim, due=due, detail=detail, seen=WHATEVER_ARRIVED)
    return verb, due, says
