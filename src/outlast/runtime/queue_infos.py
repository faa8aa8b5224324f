"""What a client sees of queues, and does to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from outlast.core.arguments import MAX_TEXT_BYTES, check_text
from outlast.core.errors import WrongUse
from outlast.core.queues import KEY_MAX_BYTES, Limits
from outlast.core.records import QueueState
from outlast.stores.queue_verbs import PauseQueue
from outlast.stores.verbs import Done, Refused

if TYPE_CHECKING:
    from outlast.runtime.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """What is on a queue just now.

    - `waiting`: runs that are due or will be, those that sleep among them; `running`: those in a worker's memory.
    - `oldest`: since when the first of those waits that could begin; None where there is none.
    - `keys`: (waiting, running) of each key; of many keys, those with the most runs.
    - `paused`: since when nothing of it is begun, and `paused_by` who asked for that; None where it is not paused.
    - `concurrency`, `per_worker`, `per_key`, `rate` (number of starts, seconds), `fair`: its limits as they were
      declared last; None is no limit.

    Times are seconds since the epoch.
    """

    name: str
    waiting: int
    running: int
    oldest: float | None
    keys: dict[str, tuple[int, int]]
    paused: float | None
    paused_by: str
    concurrency: int | None
    per_worker: int | None
    per_key: int | None
    rate: tuple[int, float] | None
    fair: bool


def queue_info(state: QueueState) -> QueueInfo:
    """Return what is shown of a queue."""
    row, limits = state.row, state.row.limits
    return QueueInfo(
        name=row.name,
        waiting=state.waiting,
        running=state.running,
        oldest=state.oldest,
        keys=state.keys,
        paused=row.paused,
        paused_by=row.paused_by,
        concurrency=limits.concurrency,
        per_worker=limits.per_worker,
        per_key=limits.per_key,
        rate=_rate(limits),
        fair=limits.fair,
    )


def _rate(limits: Limits) -> tuple[int, float] | None:
    return None if limits.rate is None else (limits.rate, limits.per)


async def change_queue(app: Client, name: str, *, paused: bool, by: str = "") -> None:
    """Pause a queue, or go on with it. Raises WrongUse where there is none of this name."""
    call = "app.pause_queue" if paused else "app.resume_queue"
    check_text(call, "name", name, KEY_MAX_BYTES, empty=False)
    check_text(call, "by", by, MAX_TEXT_BYTES)
    answer = await app.ask(PauseQueue(name=name, paused=paused, by=by))
    if isinstance(answer, Refused):
        raise WrongUse(f"{app.url}: {answer.why}; `outlast queues` lists them")
    app._wake(Done())
