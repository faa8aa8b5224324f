"""A schedule as its store keeps it."""

from __future__ import annotations

import msgspec


class ScheduleRow(msgspec.Struct, kw_only=True, gc=False):
    """What is started again and again, and when.

    `spec` is JSON: when its slots are and what becomes of those that are missed, or overlap. No store looks into it.
    `next` is the next slot; None while it is paused. `anchor` is when this spec began, from which intervals count.
    `revision` goes up by one with each change, and fences ticks. `backlog` are slots whose runs wait for the end of
    the one before; `last` is the id of the run that was started last, for the slot `last_slot`.
    """

    name: str
    spec: str
    workflow: str
    definition: str = ""
    is_step: bool = False
    input: bytes = b""
    next: float | None = None
    anchor: float = 0.0
    created: float = 0.0
    revision: int = 0
    backlog: tuple[float, ...] = ()
    last: str = ""
    last_slot: float | None = None
    started: int = 0  # slots whose runs were started
    skipped: int = 0  # slots that were skipped, since the run before them had not ended
    missed: int = 0  # slots that came while nobody was there to start them, and were not made up for

    @property
    def paused(self) -> bool:
        return self.next is None
