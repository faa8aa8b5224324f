"""Verbs that change a run's course: its next turn, its end by force, and who may claim it under which name."""

from __future__ import annotations

from outlast.core.records import RunRow
from outlast.stores.verbs import Answer, Verb

# -- answers ----------------------------------------------------------------


class Continued(Answer, frozen=True):
    """The run stands at the beginning of its next turn, under its worker's new claim."""

    run: RunRow


class Counted(Answer, frozen=True):
    """So many runs were changed this time."""

    runs: int


# -- of a worker ------------------------------------------------------------


class ContinueAs(Verb, frozen=True, kw_only=True):
    """End a run's turn and begin the next: same run, other call, empty journal. -> Continued | Fenced | Failed

    The run stays `running` under its owner, with `claim` + 1, `turn` + 1 and the new `incarnation`, from which all
    keys of the turn derive. Its records are deleted. What waits in its inbox stays (messages, a cancellation), as do
    the ids of messages that were taken; ends of children and answers of people do not: the run's children become runs
    without a parent, what it asks people is withdrawn. Its streams stay, each attempt that has no outcome dropped. Who
    waits for the run goes on waiting. `at` is the time at which the new turn begins. `last_seq` is as in Finish.
    Sent again, it is known by the incarnation. (A Write of the old turn that is sent again is Fenced.)
    """

    worker: str
    run: int
    claim: int
    last_seq: int
    incarnation: str
    workflow: str
    definition: str
    input: bytes
    options: str
    at: float


# -- of anybody ---------------------------------------------------------------


class Terminate(Verb, frozen=True, kw_only=True):
    """End a run as `cancelled` at once, whoever executes it. -> Done(woke parents) | Refused

    `worker` is who owned it when the caller looked (None: nobody): where another does by now, it is Refused with the
    run, and the caller looks again. (So a worker's row is always locked before its runs.) A run that is `cancelled`
    already is Done, any other that has ended Refused.
    """

    id: str
    worker: str | None
    by: str = ""


class Hold(Verb, frozen=True, kw_only=True):
    """Hold runs back, so that nobody claims them, or (`held=False`) give them free again. -> Counted

    Takes those that have not ended and fit all of `id`, `workflow` and `version` that are given, at most `limit`. A
    run that is `running` goes on until it rests or is handed back. Sent again, it counts what is left to change.
    """

    held: bool
    id: str | None = None
    workflow: str | None = None
    version: str | None = None
    limit: int = 1000


class Move(Verb, frozen=True, kw_only=True):
    """Give runs of one workflow the name of another, which executes them from now on. -> Counted

    Takes those that have not ended and that nobody owns; all of them, or those of one `version` and of this `id`; at
    most `limit`. Sent again, it counts what is left to change.
    """

    workflow: str
    to: str
    id: str | None = None
    version: str | None = None
    limit: int = 1000
