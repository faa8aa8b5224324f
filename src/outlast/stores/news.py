"""Which commits other processes want to hear of at once: a store that can give them a hint gives it of these alone."""

from __future__ import annotations

from outlast.stores.approval_verbs import AnswerApproval
from outlast.stores.course_verbs import Hold, Move, Terminate
from outlast.stores.queue_verbs import PauseQueue
from outlast.stores.time_verbs import DropSchedule, Expire, PauseSchedule, PutSchedule, Tick
from outlast.stores.verbs import (
    Answer,
    Cancel,
    Finish,
    ForkRun,
    Leave,
    Park,
    Register,
    Release,
    Resolve,
    Resume,
    Send,
    Started,
    StartRun,
    Stick,
    TakeOver,
    Verb,
)

# What gives others something to do, or ends what they wait for.
TELLING = frozenset(
    {
        AnswerApproval,
        Cancel,
        DropSchedule,
        Expire,
        Hold,
        Move,
        Terminate,
        Finish,
        ForkRun,
        Leave,
        PauseQueue,
        PauseSchedule,
        PutSchedule,
        Register,
        Release,
        Resolve,
        Resume,
        Send,
        Stick,
        TakeOver,
        Tick,
    }
)


def worth_telling(verb: Verb, answer: Answer) -> bool:
    """Tell whether other processes may want to know of a verb."""
    if type(verb) is StartRun:
        return isinstance(answer, Started) and answer.run.owner is None
    if type(verb) is Park:
        return verb.frees
    return type(verb) in TELLING
