"""What a worker says on stderr while it works: lines for people, or JSON lines for machines.

Notices of the runtime come as events, with their data; everything else that is logged (the
store's warnings, the user's own) comes through the same handler, so that one process speaks one language.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from outlast.cli.wording import counted, iso_time, lasted, visible_lines
from outlast.core.transitions import Status
from outlast.runtime.notices import Notice, took_nothing

_log = logging.getLogger("outlast")

Data = dict[str, Any]


def _run_ended(data: Data) -> str:
    error = f": {_error(data)}" if data["status"] == Status.FAILED else ""
    return f"run {data['run']} ({data['workflow']}) {data['status']}{error}"


def _error(data: Data) -> str:
    return f"{data['error']} ({data['where']})" if data.get("where") else str(data["error"])


def _step_failed(data: Data) -> str:
    retry = data["retry_in"]
    again = f"; tried again in {lasted(retry)}" if retry is not None else ""
    return f"run {data['run']}: attempt {data['attempt']} of step {data['step']} failed: {_error(data)}{again}"


def _step_ended(data: Data) -> str:
    how = f"failed: {_error(data)}" if data["error"] else "ended"
    return f"run {data['run']}: step {data['step']} {how}"


def _took_over(data: Data) -> str:
    if took_nothing("worker.took_over", data):
        return f"worker {data['dead']} has ended ({data['evidence']}); it held no runs"
    stuck = f", {data['stuck']} stuck" if data["stuck"] else ""
    return f"took over {counted(data['runs'], 'run')} of worker {data['dead']} ({data['evidence']}){stuck}"


# name -> (level, sentence); DEBUG is said with --verbose. A name that is not here is said as it is.
SENTENCES: dict[str, tuple[int, Callable[[Data], str]]] = {
    "worker.started": (logging.DEBUG, lambda d: f"worker {d['worker']} started"),
    "worker.stopped": (logging.INFO, lambda d: f"worker {d['worker']} stopped"),
    "worker.draining": (logging.INFO, lambda d: f"draining: handing back {counted(d['runs'], 'run')}"),
    "worker.lost_lease": (
        logging.WARNING,
        lambda d: f"the lease is lost ({d['why']}); {counted(d['runs'], 'run')} stopped here",
    ),
    "worker.took_over": (logging.WARNING, _took_over),
    "run.started": (logging.DEBUG, lambda d: f"run {d['run']} ({d['workflow']}) started"),
    "run.claimed": (
        logging.DEBUG,
        lambda d: f"run {d['run']} ({d['workflow']}) claimed, {counted(d['records'], 'record')}",
    ),
    "run.parked": (logging.DEBUG, lambda d: f"run {d['run']} parked: {d['detail']}"),
    "run.released": (logging.DEBUG, lambda d: f"run {d['run']} handed back"),
    "run.ended": (logging.INFO, _run_ended),
    "run.stuck": (logging.ERROR, lambda d: f"run {d['run']} is stuck: {d['reason']}: {d['detail']}"),
    "run.lost": (logging.WARNING, lambda d: f"run {d['run']} is no longer held here: {d['why']}"),
    "run.moved": (
        logging.WARNING,
        lambda d: (
            f"run {d['run']} was started as {d['started_as']}, and {d['workflow']} is {d['here']} here: if that is not "
            "the same function, moved, give one of them another name: @workflow(name=...)"
        ),
    ),
    "step.started": (logging.DEBUG, lambda d: f"run {d['run']}: step {d['step']} started, attempt {d['attempt']}"),
    "step.ended": (logging.DEBUG, _step_ended),
    "step.failed": (logging.WARNING, _step_failed),
    "step.in_doubt": (
        logging.WARNING,
        lambda d: f"run {d['run']}: attempt {d['attempt']} of step {d['step']} is in doubt: {d['why']}",
    ),
    "step.usage_unknown": (
        logging.WARNING,
        lambda d: f"run {d['run']}: step {d['step']} called a model and told nothing of what it used",
    ),
    "call.not_awaited": (
        logging.WARNING,
        lambda d: f"run {d['run']}: {d['call']} was called and never waited for, so it does not run",
    ),
    "loop.blocked": (
        logging.WARNING,
        lambda d: f"the event loop has not turned for {d['seconds']} s; it is at {d['where']}",
    ),
    "body.unhandled": (logging.WARNING, lambda d: f"run {d['run']}: {d['message']}: {_error(d)}"),
    "store.unavailable": (logging.ERROR, lambda d: f"the store cannot be written: {d['error']}"),
    "store.back": (logging.WARNING, lambda d: f"the store can be written again, after {d['seconds']:.1f} s"),
}


FOR_GOOD = frozenset({"step.ended", "run.ended"})
"""What is told as a warning, and with its traceback, where it has an error: nothing will try that again."""


MOST_TOLD = 1000
"""Of so many runs it is remembered at most which error of a step was told: those that go on are not heard of again."""


class Talker:
    """Sets up the process's logging, and is the App's `on_event`."""

    def __init__(self, *, as_json: bool, level: int = logging.INFO) -> None:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_JsonLines() if as_json else _HumanLines(colour=sys.stderr.isatty()))
        handler.addFilter(_is_no_notice)
        self._handler = handler
        self._once = not as_json
        self._told: OrderedDict[str, str] = OrderedDict()  # run -> its step's error, whose traceback was said last
        ours = logging.getLogger("outlast")
        ours.addHandler(handler)
        ours.propagate = False
        ours.setLevel(level)

    def adopt_root(self) -> None:
        """Say what the user's code logs, unless it has set up logging itself: from WARNING on, with -v from INFO on."""
        root = logging.getLogger()
        if not root.handlers:
            root.addHandler(self._handler)
            if _log.isEnabledFor(logging.DEBUG) and root.level == logging.WARNING:
                root.setLevel(logging.INFO)

    def __call__(self, notice: Notice) -> None:
        """Say a notice."""
        level, sentence = SENTENCES.get(notice.name, (logging.INFO, None))
        if took_nothing(notice.name, notice.data):
            level = logging.INFO
        for_good = notice.name in FOR_GOOD and notice.data["error"] and notice.data.get("status") != Status.CANCELLED
        if for_good:
            level = logging.WARNING
        if not _log.isEnabledFor(level):
            return
        try:
            text = sentence(notice.data) if sentence is not None else str(notice)
        except (KeyError, TypeError, ValueError):
            text = str(notice)
        data = notice.data
        if self._was_told(notice) or not (for_good or _log.isEnabledFor(logging.DEBUG)):
            data = {name: part for name, part in data.items() if name != "traceback"}
        self.say(text, level=level, event=notice.name, **data)

    def _was_told(self, notice: Notice) -> bool:
        """Tell whether a run ended by an error whose traceback people were given when its step ended."""
        data = notice.data
        if not self._once or notice.name not in FOR_GOOD or not data["error"]:
            return False
        if notice.name == "run.ended":
            return bool(self._told.pop(data["run"], None) == data["error"])
        self._told[data["run"]] = data["error"]
        if len(self._told) > MOST_TOLD:
            self._told.popitem(last=False)
        return False

    def say(self, text: str, *, level: int = logging.INFO, event: str = "", **data: Any) -> None:
        """Say something of the command's own."""
        _log.log(level, "%s", text, extra={"outlast_event": event, "outlast_data": data})


def _is_no_notice(record: logging.LogRecord) -> bool:
    """Tell whether a record is anything but a notice: those come as events, and would be said twice."""
    return not (isinstance(record.args, tuple) and record.args and isinstance(record.args[0], Notice))


def _places(record: logging.LogRecord) -> dict[str, str]:
    """Return where a line of outlast.current.logger was logged, by the names that notices have for it."""
    found = {"run": "run_id", "step": "step_id", "workflow": "workflow"}
    if not hasattr(record, "run_id"):
        return {}
    return {noun: str(value) for noun, name in found.items() if (value := getattr(record, name, None)) is not None}


class _HumanLines(logging.Formatter):
    """`19:24:05 WARNING text`; INFO is not named."""

    _COLOURS = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31"}  # noqa: RUF012 - a table

    def __init__(self, *, colour: bool) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and a traceback where there is one."""
        name = "" if record.name.startswith("outlast") else f"{record.name}: "
        level = "" if record.levelno <= logging.INFO else f"{record.levelname} "
        places = _places(record)
        place = ", ".join(f"{noun} {places[noun]}" for noun in ("run", "step") if noun in places)
        text = f"{level}{name}{visible_lines(f'{place}: ' if place else '')}{visible_lines(record.getMessage())}"
        if self._colour and record.levelno in self._COLOURS:
            text = f"\x1b[{self._COLOURS[record.levelno]}m{text}\x1b[0m"
        line = f"{self.formatTime(record, self.datefmt)} {text}"
        if told := getattr(record, "outlast_data", {}).get("traceback"):
            line = f"{line}\n{visible_lines(told)}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonLines(logging.Formatter):
    """An object with time, level, message, and for a notice its event and data."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: Data = {"time": iso_time(record.created), "level": record.levelname.lower(), "logger": record.name}
        event = getattr(record, "outlast_event", "")
        if event:
            line |= {"event": event, **getattr(record, "outlast_data", {})}
        line |= _places(record)
        line["message"] = record.getMessage()
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)
