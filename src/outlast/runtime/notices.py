"""The event hook: what the runtime tells about itself, by name and payload.

Every notice goes to each listener as `Notice(name, data)`. Logging is a listener like any
other (`log_notice`), so tracing and metrics can be built on the same names:

| name | when | data |
|---|---|---|
| `worker.started`, `worker.stopped` | | worker |
| `worker.lost_lease` | its lease was taken; its runs stop here | worker, why, runs |
| `worker.took_over` | another worker was found dead | worker, dead, evidence, runs, stuck |
| `worker.draining` | | worker, runs |
| `run.started` | a new run was committed | run, workflow |
| `run.claimed` | a worker loaded it | run, workflow, claim, records |
| `run.parked`, `run.released` | | run, due, detail |
| `run.lost` | a write was refused, since another worker owns it now | run, why |
| `run.ended` | | run, workflow, status, error |
| `run.stuck` | a person is needed | run, reason, detail |
| `step.started`, `step.ended`, `step.failed` | an attempt | run, step, attempt, effect, seconds, error, retry_in |
| `step.in_doubt` | a `once` attempt has no certain outcome | run, step, attempt, why |
| `loop.blocked` | code held the worker's event loop | seconds, where |
| `body.unhandled` | asyncio reported an error nobody looked at | run, message, error |
| `store.unavailable`, `store.back` | writes fail, or work again | error, seconds |
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger("outlast")

_LEVELS = {
    "worker.lost_lease": logging.WARNING,
    "worker.took_over": logging.WARNING,
    "run.stuck": logging.ERROR,
    "run.lost": logging.WARNING,
    "step.failed": logging.WARNING,
    "step.in_doubt": logging.WARNING,
    "loop.blocked": logging.WARNING,
    "body.unhandled": logging.WARNING,
    "store.unavailable": logging.ERROR,
    "store.back": logging.WARNING,
    "worker.started": logging.INFO,
    "worker.stopped": logging.INFO,
    "worker.draining": logging.INFO,
}


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that happened: a name from the table above, and what belongs to it."""

    name: str
    data: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name + "".join(f" {key}={value}" for key, value in self.data.items())


Listener = Callable[[Notice], None]


class Notices:
    """Hands notices to listeners; a listener that raises is logged and does no harm."""

    def __init__(self, listeners: tuple[Listener, ...] = ()) -> None:
        self._listeners = (log_notice, *listeners)
        self.quiet = not listeners

    def __call__(self, name: str, **data: Any) -> None:
        """Tell all listeners."""
        if self.quiet and not log.isEnabledFor(_LEVELS.get(name, logging.DEBUG)):
            return
        notice = Notice(name, data)
        for listener in self._listeners:
            try:
                listener(notice)
            except Exception:
                log.exception("a listener failed on %s", notice)


def log_notice(notice: Notice) -> None:
    """Write a notice to the logger `outlast`."""
    log.log(_LEVELS.get(notice.name, logging.DEBUG), "%s", notice)
