"""What has arrived for a run: each row of its inbox becomes a record, and is deleted by the same commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from outlast.core.errors import OutlastError, RunCancelled
from outlast.core.records import InboxRow, Kind
from outlast.core.transitions import Reason
from outlast.runtime.children import outcome_of_child
from outlast.runtime.mail import Mail

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution


class Inbox:
    """See the top of this file. `consumes` are the rows that the next records deliver, `seen` is the last that came.

    `cancelled` says that a cancellation came too late for the body, which had asked to continue as another call.
    """

    def __init__(self, execution: Execution) -> None:
        self._run = execution
        self.consumes: tuple[int, ...] = ()
        self.mail = Mail(execution)
        self.cancelled = False
        self.seen = 0

    def receive(self, rows: Sequence[InboxRow]) -> None:
        """Take what has arrived."""
        run = self._run
        if run.parking:
            return  # if it stays they are fetched again; written now, they would let a rest that is sent again pass
        for item in rows:
            if item.id > self.seen:  # they come in this order
                self.seen = item.id
                run.calmly(self._take, item)

    def _take(self, item: InboxRow) -> None:
        run = self._run
        if run.stuck is not None or run.ending:
            return
        if item.kind is Kind.CANCEL:
            self._cancel(item)
        elif item.kind is Kind.MESSAGE:
            self.mail.arrived(item)
        else:
            self.child_over(item.key, item.ok, item.value, item.id)

    def _cancel(self, item: InboxRow) -> None:
        run = self._run
        if run.engine.outcome is not None:
            self.cancelled = True
            return  # its body has returned already: an event after that would be one that no replay can deliver
        self.consumes = (*self.consumes, item.id)
        by = (item.value or b"").decode("utf-8", "replace")
        run.engine.deliver(run.engine.event(Kind.CANCEL, run.worker.now(), key="", name="cancel", note=by))
        run.after_turn()

    def child_over(self, key: str, ok: bool, value: bytes | None, row_id: int | None = None) -> None:
        """Give the outcome of a child run to the body."""
        run = self._run
        engine = run.engine
        pending = engine.calls.get(key)
        late = pending is None or pending.done or pending.withdrawn or engine.outcome is not None
        if not ok and value is None:
            value = run.worker.codec.encode_error(RunCancelled(f"child {key} of run {run.row.id} was cancelled"))
        live, error = None, None
        if pending is not None and not late:
            try:
                live, error = outcome_of_child(run, pending, ok, value or b"null")
            except OutlastError as refused:
                run.stick(Reason.UNDECODABLE, f"the result of child {key}: {refused}")
                return
        if row_id is not None:
            self.consumes = (*self.consumes, row_id)
        event = engine.event(
            Kind.LATE if late else Kind.CHILD,
            run.worker.now(),
            key=key,
            name=pending.name if pending else "",
            ok=ok,
            args=pending.args if pending else None,
            value=value,
            cause=pending.cause if pending else 0,
        )
        if not late:
            engine.deliver(event, live, error)
        run.after_turn()
