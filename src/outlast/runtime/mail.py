"""The messages that have come for a run, and the waits for them.

A message is kept in the run's inbox until a wait for its name takes it: then it becomes an event, and the row goes with
the commit of its record. What no wait asks for stays where it is, also when the run rests, moves to another worker, or
ends.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, cast

from outlast.core.errors import DecodingError, EncodingError
from outlast.core.pending import Pending
from outlast.core.records import InboxRow, Kind
from outlast.core.waits import Taken, Wait, is_awaited
from outlast.runtime.approvals import ApprovalWait

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution

MOST_AT_ONCE = 100
"""So many messages a run takes before others have their turn."""


class Mail:
    """See the top of this file."""

    def __init__(self, execution: Execution) -> None:
        self._run = execution
        self._rows: dict[str, deque[InboxRow]] = {}
        self._waits: dict[str, list[Pending]] = {}
        self._look_at: deque[str] = deque()  # mailboxes where a wait and a message may have met
        self._under_way = False
        self.busy = False  # more is taken as soon as others had their turn

    def arrived(self, row: InboxRow) -> None:
        """Keep a message until somebody waits for it."""
        self._rows.setdefault(row.key, deque()).append(row)
        self._look(row.key)

    def wait(self, pending: Pending) -> None:
        """The body waits for a message."""
        mailbox = _wait_of(pending).mailbox
        self._waits.setdefault(mailbox, []).append(pending)
        self._look(mailbox)

    @property
    def keeps_any(self) -> bool:
        """Whether there are messages that nobody has taken."""
        return bool(self._rows)

    def unread(self) -> list[InboxRow]:
        """Return the messages that nobody has taken, oldest first."""
        return sorted((row for rows in self._rows.values() for row in rows), key=lambda row: row.id)

    def _look(self, mailbox: str) -> None:
        self._look_at.append(mailbox)
        if not self._under_way and not self.busy:
            self._take_all()

    def _take_all(self) -> None:
        """Take what is waited for. Each message is an event: the turn after it may wait for the next."""
        self.busy, self._under_way = False, True
        taken = 0
        try:
            while self._look_at:
                if not self._take(self._look_at[0]):
                    self._look_at.popleft()
                elif (taken := taken + 1) >= MOST_AT_ONCE:
                    self.busy = True
                    self._run.worker.loop.call_soon(self._run.calmly, self._take_all)
                    return
        finally:
            self._under_way = False

    def _take(self, mailbox: str) -> bool:
        """Let a wait take a message, if both are there."""
        run = self._run
        if run.closed or run.leaving or run.ending or run.engine.outcome is not None:
            return False
        rows = self._rows.get(mailbox)
        if not rows:
            return False
        if run.engine.busy:
            run.calmly(self._look, mailbox)
            return False
        pending = self._next_wait(mailbox)
        if pending is None:
            return False
        row = rows.popleft()
        if not rows:
            del self._rows[mailbox]
        self._deliver(row, pending)
        return True

    def _next_wait(self, mailbox: str) -> Pending | None:
        """Return the wait that takes the next message: the oldest of those that code awaits, or the oldest of all."""
        waits = [p for p in self._waits.get(mailbox, ()) if not p.done and not p.withdrawn]
        if not waits:
            self._waits.pop(mailbox, None)
            return None
        self._waits[mailbox] = waits
        return next((p for p in waits if is_awaited(p.future)), waits[0])

    def _deliver(self, row: InboxRow, pending: Pending) -> None:
        run = self._run
        codec, wait = run.worker.codec, _wait_of(pending)
        try:
            taken = wait.read(codec, row)
        except (DecodingError, EncodingError) as refused:
            if isinstance(wait, ApprovalWait):
                run.approvals.take_back(pending, row, refused)
                return
            which = f"run {run.row.id}: message {row.key!r} ({row.message_id})"  # the journal says what became of it
            told = codec.encode_error(DecodingError(f"{which} is not what is waited for: {refused}"))
            taken = Taken(told, None, codec.decode_error(told))
        run.inbox.consumes = (*run.inbox.consumes, row.id)
        event = run.engine.event(
            Kind.MESSAGE,
            run.worker.now(),
            key=pending.key,
            name=wait.label,
            ok=taken.error is None,
            value=taken.recorded,
            started=row.created,
            cause=pending.cause,
            note=row.message_id,
        )
        run.engine.deliver(event, taken.value, taken.error)
        run.after_turn()


def _wait_of(pending: Pending) -> Wait[Any]:
    return cast("Wait[Any]", pending.call.definition)
