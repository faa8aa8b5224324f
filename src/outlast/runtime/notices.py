"""The event hook: what the runtime tells about itself, by name and payload.

Every notice goes to each listener as `Notice(name, data)`. Logging is a listener like any
other (`log_notice`), so tracing and metrics can be built on the same names:

| name | when | data |
|---|---|---|
| `worker.started`, `worker.stopped` | | worker |
| `worker.draining` | it was told to stop | worker, runs |
| `worker.lost_lease` | its lease was taken; its runs stop here | worker, why, runs |
| `worker.took_over` | another worker was found dead | worker, dead, evidence, runs, stuck |
| `run.started` | a new run was committed | run, workflow |
| `run.claimed` | a worker loaded it | run, workflow, claim, records |
| `run.parked` | it left memory to wait | run, due, detail |
| `run.released` | it was handed back | run |
| `run.lost` | a write was refused, since another worker owns it now | run, why |
| `run.unserved` | a client waits for it, and nobody is there to execute it | run, workflow, why, do |
| `run.moved` | it was started as code of another module than here | run, workflow, started_as, here |
| `approval.reopened` | an answer did not fit the form that was asked for | run, approval, why |
| `run.continued` | its turn is over, and it goes on as another call | run, workflow, turn |
| `run.unread` | it ended, and messages for it were never taken | run, messages, names |
| `run.ended` | | run, workflow, status, error, where, traceback |
| `run.stuck` | a person is needed | run, reason, detail |
| `step.started` | an attempt began | run, step, attempt, effect |
| `step.ended` | a step has its outcome | run, step, attempt, error, where, traceback |
| `step.failed` | an attempt failed and is followed by another | run, step, attempt, error, where, traceback, retry_in |
| `step.in_doubt` | a `once` attempt has no certain outcome | run, step, attempt, why |
| `step.usage_unknown` | a call of a model told nothing of what it used; once in a run | run, step |
| `call.not_awaited` | a step or child was called, and never awaited | run, call, workflow |
| `loop.blocked` | code held the worker's event loop | seconds, where |
| `body.unhandled` | asyncio reported an error nobody looked at | run, message, error |
| `schedule.ticked` | slots of a schedule were used up | schedule, runs, missed |
| `store.unavailable`, `store.back` | writes fail, or work again | error; seconds |
| `store.failed` | a write failed in a way that nobody foresaw, and it alone | error |
| `outbox.refused` | a run noted in an outbox cannot be started | run, database, why |
| `outbox.unavailable`, `outbox.back` | an outbox cannot be read, or can again | database; error |

`docs/events.md` says more, and a test compares it with the calls in this folder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from outlast.core.errors import WrongUse
from outlast.core.frames import traceback_of, where_of
from outlast.core.functions import is_async
from outlast.core.telling import error_line
from outlast.stores.rules import keepable

log = logging.getLogger("outlast")

_LEVELS = {
    "worker.lost_lease": logging.WARNING,
    "worker.took_over": logging.WARNING,
    "run.stuck": logging.ERROR,
    "run.lost": logging.WARNING,
    "run.moved": logging.WARNING,
    "run.unserved": logging.WARNING,
    "run.unread": logging.WARNING,
    "approval.reopened": logging.WARNING,
    "step.failed": logging.WARNING,
    "step.in_doubt": logging.WARNING,
    "step.usage_unknown": logging.WARNING,
    "call.not_awaited": logging.WARNING,
    "loop.blocked": logging.WARNING,
    "body.unhandled": logging.WARNING,
    "store.unavailable": logging.ERROR,
    "store.failed": logging.ERROR,
    "store.back": logging.WARNING,
    "outbox.refused": logging.ERROR,
    "outbox.unavailable": logging.ERROR,
    "outbox.back": logging.WARNING,
    "schedule.ticked": logging.INFO,
    "worker.started": logging.INFO,
    "worker.stopped": logging.INFO,
    "worker.draining": logging.INFO,
}


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that happened in a worker: what `App(on_event=...)` is called with.

    `name` is one of the names in the documentation (`run.ended`, `step.failed`...), `data` what belongs to it: run
    and step as their ids, errors in one line (`CardDeclined: no funds`), lengths of time in seconds. As text it is one
    line, which leaves a `traceback` out.
    """

    name: str
    data: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        said = ((key, value) for key, value in self.data.items() if key != "traceback")
        return keepable(self.name + "".join(f" {key}={value}" for key, value in said))


Listener = Callable[[Notice], None]


class Notices:
    """Hands notices to listeners; a listener that raises is logged and does no harm."""

    def __init__(self, listeners: tuple[Listener, ...] = ()) -> None:
        if not all(map(callable, listeners)) or any(map(is_async, listeners)):
            raise WrongUse(
                f"App(on_event=...): must be a plain function of a Notice, or several in a list, not {listeners!r}"
            )
        self._listeners = (log_notice, *listeners)

    def add(self, listener: Listener) -> None:
        """Tell this one, too."""
        self._listeners = (*self._listeners, listener)

    @property
    def quiet(self) -> bool:
        """Whether nobody hears what is told at DEBUG."""
        return len(self._listeners) == 1 and not log.isEnabledFor(logging.DEBUG)

    def __call__(self, name: str, **data: Any) -> None:
        """Tell all listeners."""
        if len(self._listeners) == 1 and not log.isEnabledFor(_level(name, data)):
            return
        notice = Notice(name, data)
        for listener in self._listeners:
            try:
                listener(notice)
            except KeyboardInterrupt:
                raise
            except BaseException:  # it is told in threads that must not end by what a listener raises
                log.exception("a listener failed on %s", notice)


def log_notice(notice: Notice) -> None:
    """Write a notice to the logger `outlast`, with its traceback where DEBUG is logged."""
    level, told = _level(notice.name, notice.data), notice.data.get("traceback")
    if told and log.isEnabledFor(logging.DEBUG):
        log.log(level, "%s\n%s", notice, keepable(told))
    else:
        log.log(level, "%s", notice)


def of_error(error: BaseException | None) -> dict[str, Any]:
    """Return what a notice says of an error: its line, where it was raised, and the traceback."""
    if error is None:
        return {"error": None, "where": "", "traceback": ""}
    return {"error": error_line(error), "where": where_of(error), "traceback": traceback_of(error)}


def took_nothing(name: str, data: dict[str, Any]) -> bool:
    """Tell whether a notice is that of a worker which ended without runs: no reason to warn anybody."""
    return name == "worker.took_over" and not data["runs"] and not data["stuck"]


def _level(name: str, data: dict[str, Any]) -> int:
    return logging.INFO if took_nothing(name, data) else _LEVELS.get(name, logging.DEBUG)
