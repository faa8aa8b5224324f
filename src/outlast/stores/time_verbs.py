"""The verbs of time, and what a store answers to them: deadlines of runs, and schedules.

As in `verbs.py`, each verb's docstring ends with the answers it can get.
"""

from __future__ import annotations

import msgspec

from outlast.core.records import RunRow
from outlast.core.schedule_rows import ScheduleRow
from outlast.stores.verbs import Answer, Verb


class Expire(Verb, frozen=True, kw_only=True):
    """End a run that nobody has begun by its deadline: `failed`, with this error; its parents are told.

    Legal only while it is `pending`, was never claimed, and its deadline has come by the store's clock. (Whoever has
    begun is cancelled by its worker instead, and cleans up.) So anybody may ask for it: a `worker`, or None, a client
    that waits. Sent again, it finds the same end. -> Done(woke) | Refused | Fenced
    """

    worker: str | None
    run: int
    error: bytes


class PutSchedule(Verb, frozen=True, kw_only=True):
    """Create a schedule, or change the one of this name. -> Scheduled | Failed

    `schedule` holds name, spec, the call, `next` and `anchor`. One that is there with the same spec and call stays as
    it is; else it gets the new ones and `next` (unless it is paused), and keeps its counters. With
    `paused` (None: as it is, and not paused when it is new) it is paused, or goes on from `next`.
    """

    schedule: ScheduleRow
    paused: bool | None = None


class PauseSchedule(Verb, frozen=True, kw_only=True):
    """Pause a schedule (`next` is None), or let it go on from `next`. -> Scheduled | Refused

    One that is paused already, or goes on already, stays as it is.
    """

    name: str
    next: float | None


class DropSchedule(Verb, frozen=True, kw_only=True):
    """Delete a schedule; its runs stay. One that is not there is deleted already. -> Done"""

    name: str


class Slot(msgspec.Struct, frozen=True, gc=False):
    """A slot that a tick uses up: when it is, and the run that it starts.

    `busy` says what becomes of it while the run that the schedule started last is open, or others wait before it:
    it is started all the same (`allow`), waits for its turn (`queue`) or is left out (`skip`).
    """

    at: float
    run: RunRow
    busy: str = "skip"


class Tick(Verb, frozen=True, kw_only=True):
    """Use up slots of a schedule, and say when its next one is. -> Ticked | Refused | Fenced | Failed

    Legal only while the schedule is not paused and at `revision`, which each change of it raises by one, so that of
    many workers that see the same slots one uses them up. `slots` are those of the backlog, which is empty before, and
    then those that came, in order; each is started, skipped, or put in the backlog. Where there is a run of the slot's
    id already, the slot was used before, and is no more than that. `missed` more were missed. `key` names this one
    tick: sent again, it gets the same answer.
    """

    worker: str
    name: str
    revision: int
    key: str
    next: float
    slots: tuple[Slot, ...] = ()
    missed: int = 0


class Scheduled(Answer, frozen=True):
    """The schedule as it stands after the verb."""

    schedule: ScheduleRow


class Ticked(Answer, frozen=True):
    """The slots are used up. `started` are the ids of the runs that were started, and are pending."""

    started: tuple[str, ...] = ()
