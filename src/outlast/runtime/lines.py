"""`outlast.queue` and `outlast.rate`, and the queues that this process knows, by name."""

from __future__ import annotations

from collections.abc import Callable

from outlast.core.queues import Queue, Rate, queue_of
from outlast.runtime.writer import Writer
from outlast.stores.queue_verbs import DeclareQueue

_queues: dict[str, Queue] = {}


def queue(
    name: str,
    *,
    concurrency: int | None = None,
    per_worker: int | None = None,
    per_key: tuple[Callable[..., str], int] | int | None = None,
    rate: tuple[int, float] | None = None,
    fair: bool = True,
) -> Queue:
    """Declare a queue, on which runs wait for their turn: `@workflow(queue=...)` or `flow.options(queue=...)(...)`.

    - `name`: one queue in the whole fleet; the limits that were declared last hold for all workers.
    - `concurrency`: how many of its runs are in memory at once, in all workers together; `per_worker`: in each. A run
      that rests (it sleeps, or waits for a message) takes no place, and needs one again when it wakes.
    - `per_key`: the same for the runs of each key: `(function, count)`, where the function gets the arguments of the
      call and returns the key, a str; or the count alone, where `queue_key=` says the key.
    - `rate`: `(count, seconds)`: at most so many runs begin in any such stretch of time.
    - `fair`: keys take turns, so that one with thousands of waiting runs holds up no other. Without, runs begin in the
      order in which they were due.

    Runs of a higher `priority` go first in any case. Raises WrongUse for limits that make no sense.
    """
    made = queue_of(name, concurrency=concurrency, per_worker=per_worker, per_key=per_key, rate=rate, fair=fair)
    _queues[name] = made
    return made


def rate(name: str, limit: float, *, per: float = 60.0, weight: float | Callable[..., float] = 1) -> Rate:
    """Declare a rate for steps: `@step(rate=...)`. At most `limit` in any `per` seconds, in all workers together.

    Each attempt of such a step takes `weight` of it: a number, or a function that gets the step's arguments, such as
    the tokens of a prompt. An attempt that has to wait waits durably, in the order in which it came, and its run rests
    meanwhile. A step may have several: `rate=(requests, tokens)`. Rates of one name are one rate: give
    them the same limit; they may weigh differently. Raises WrongUse for what makes no sense.
    """
    return Rate(name, limit, per, weight)


def queue_names() -> tuple[str, ...]:
    """Return the names of the queues that this process knows."""
    return tuple(_queues)


def declared() -> tuple[Queue, ...]:
    """Return the queues that this process knows."""
    return tuple(_queues.values())


class Declared:
    """Has the limits of the queues that this process knows committed, each once."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._queues: set[Queue] = set()

    def all(self) -> None:
        """Declare all that are new."""
        for each in sorted(set(declared()) - self._queues, key=lambda queue: queue.name):
            self.one(each)

    def one(self, queue: Queue | None) -> None:
        """Declare this one before whatever is submitted next."""
        if queue is not None and queue not in self._queues:
            self._queues.add(queue)
            self._writer.submit(DeclareQueue(name=queue.name, limits=queue.limits), lambda _: None)
