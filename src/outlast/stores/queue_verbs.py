"""The verbs of queues and rates, as `verbs` has the others, and what a store answers to them."""

from __future__ import annotations

from outlast.core.queues import Draw, Limits
from outlast.stores.verbs import Answer, Verb


class Drawn(Answer, frozen=True):
    """The attempt has its turn at `at`, in the store's time. Where that is over already, it has it now."""

    at: float


class DeclareQueue(Verb, frozen=True, kw_only=True):
    """Say the limits of a queue, which hold for all workers from now on. -> Done

    Runs that are running already stay so.
    """

    name: str
    limits: Limits


class PauseQueue(Verb, frozen=True, kw_only=True):
    """Begin nothing more of a queue, or go on with it (`paused` false). -> Done | Refused

    What is running is left alone; what rests stays at rest. Refused where there is no such queue.
    """

    name: str
    paused: bool
    by: str = ""


class DrawRate(Verb, frozen=True, kw_only=True):
    """Ask for the turn of a step's attempt under all these rates at once. -> Drawn | Fenced

    The turn is the first moment at which each rate has room for its amount, after the turns that were given before:
    whoever came first has the earlier one. `key` names the attempt. Asked again, the answer is the same, until the turn
    has come: then it is taken, once, if that is no longer ago than `slack` seconds; else a new one is given. A turn
    counts in its rate for as long as `Draw.window`, also when its run is gone.
    """

    worker: str
    run: int
    claim: int
    key: str
    draws: tuple[Draw, ...]
    slack: float
