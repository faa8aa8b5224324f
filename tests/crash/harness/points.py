"""The points at which a process can be made to die, to freeze, or to lose an answer.

`install()` wraps the store's verbs: each has a point before its transaction,
one inside (applied, not yet committed) and one after the commit, before anybody
has the answer. Steps call `point()` themselves. A point is named after what
happens there (`after Write step main/put#1 of errand-1`), never after a count of commits, so that
the same name means the same moment in every run of the test.
"""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

from outlast.core.errors import StoreUnavailable
from outlast.stores.sqlite import opening
from outlast.stores.sqlite.connections import Connections
from outlast.stores.sqlite.store import SqliteStore
from outlast.stores.verbs import Answer, Claimed, Finish, Park, Release, Started, StartRun, Stick, Verb, Write

CHILD_ID = re.compile(r"\.(\w+)\.[0-9a-f]{16}$")  # what is random in a child's run id


class Fault(msgspec.Struct, kw_only=True):
    """What happens to the process at a point.

    `do` is one of: `kill`; `stop`, which freezes until SIGCONT, outside of any commit if the point is;
    `unavailable`, the store cannot be reached (after the commit: its answer is lost); `break`, the driver fails in a
    way that nobody foresaw; `wait`. Before that it waits `pause_s`, or until the test opens the gate `until`.
    """

    at: str
    do: str = "kill"
    pause_s: float = 0.0
    until: str = ""
    times: int = 1


ILL_LUCK = (StoreUnavailable, StoreUnavailable, apsw.InternalError)
READS = ("change", "ended", "inbox", "load", "next_due", "owned", "survey")

_plan: list[Fault] = []
_tell: Callable[..., None] = print
_recording = False
_chaos = 0.0
_dice = random.Random()
_folder = ""
_counts: Counter[str] = Counter()
_run_ids: dict[int, str] = {}
_verbs = threading.local()
whole = threading.RLock()
"""Held over what a freeze does not cut in two: a commit, and what the bank does in one go."""


def install(
    plan: Sequence[Fault], tell: Callable[..., None], *, recording: bool, folder: str, chaos: float = 0.0
) -> None:
    """Make this process pass its points. `tell(event, **data)` reports to the test.

    `chaos` is the part of all commits that fail by chance, with or without having been made.
    """
    global _tell, _recording, _folder, _chaos
    _chaos = chaos
    _plan[:], _tell, _recording, _folder = plan, tell, recording, folder
    SqliteStore.transact = _watched_transact(SqliteStore.transact)  # type: ignore[method-assign]
    for name in READS:
        setattr(SqliteStore, name, _watched_read(name, getattr(SqliteStore, name)))
    opening.migrate = _watched_migrate(opening.migrate)
    Connections.write = _watched_write(Connections.write)  # type: ignore[method-assign, assignment]


def _watched_read(name: str, read: Callable[..., Any]) -> Callable[..., Any]:
    def watched(self: SqliteStore, *args: Any) -> Any:
        point(f"read {name}")
        return read(self, *args)

    return watched


def _watched_migrate(migrate: Callable[..., None]) -> Callable[..., None]:
    def watched(db: apsw.Connection, path: str) -> None:
        db.set_commit_hook(lambda: bool(point("inside migration")))
        try:
            migrate(db, path)
        finally:
            db.set_commit_hook(None)
        point("after migration")

    return watched


def point(name: str) -> None:
    """Pass a point. The second time that a process passes it, its name ends in `#2`."""
    if not (_plan or _recording):
        return
    _counts[name] += 1
    if _counts[name] > 1:
        name = f"{name}#{_counts[name]}"
    if _recording:
        _tell("point", name=name)
    for fault in _plan:
        if fault.at == name and fault.times:
            fault.times -= 1
            if fault.times:
                _counts[name] -= 1
            _strike(fault)


def _strike(fault: Fault) -> None:
    _linger(fault)
    match fault.do:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            with whole:
                _tell("stopped", point=fault.at)
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread first: it does nothing more
        case "unavailable":
            _tell("struck", point=fault.at)
            raise StoreUnavailable(f"injected {fault.at}")
        case "break":
            _tell("struck", point=fault.at)
            raise apsw.InternalError(f"injected {fault.at}")


def _linger(fault: Fault) -> None:
    if fault.pause_s:
        _tell("waiting", point=fault.at)
    ends = time.monotonic() + fault.pause_s
    while time.monotonic() < ends and not (fault.until and gate(_folder, fault.until).exists()):
        time.sleep(0.003)


def gate(folder: str, name: str) -> Path:
    """Return the file whose existence opens a gate."""
    return Path(folder) / f"gate-{name}"


# -- the store's verbs -----------------------------------------------------------


def _watched_transact(transact: Callable[..., list[Answer]]) -> Callable[..., list[Answer]]:
    def watched(self: SqliteStore, verbs: Sequence[Verb]) -> list[Answer]:
        names = [name for verb in verbs for name in _names(self, verb)]
        for name in names:
            point(f"before {name}")
        _verbs.names = names
        ill_luck = _dice.random() if _chaos and "Register" not in names else 1.0
        if ill_luck < _chaos / 2:
            raise _dice.choice(ILL_LUCK)("by chance, before the commit")
        try:
            with whole:
                answers = transact(self, verbs)
        finally:
            _verbs.names = ()
        if ill_luck < _chaos:
            raise _dice.choice(ILL_LUCK)("by chance, after the commit")
        for answer in answers:
            runs = answer.runs if isinstance(answer, Claimed) else (answer.run,) if isinstance(answer, Started) else ()
            _run_ids.update({run.pk: run.id for run in runs})
        for name in names:
            point(f"after {name}")
        return answers

    return watched


def _watched_write(write: Callable[..., Any]) -> Callable[..., Any]:
    def watched(self: Connections, action: Callable[[apsw.Connection], Any]) -> Any:
        def act(db: apsw.Connection) -> Any:
            answer = action(db)
            for name in getattr(_verbs, "names", ()):
                point(f"inside {name}")
            return answer

        return write(self, act)

    return watched


def _names(store: SqliteStore, verb: Verb) -> list[str]:
    match verb:
        case Write():
            run = _run_id(store, verb.run)
            items = [f"Write items of {run}"] if verb.emits and not verb.records else []
            return [f"Write {record.kind} {record.key} of {run}" for record in verb.records] + items
        case Park() | Release() | Stick() | Finish():
            return [f"{type(verb).__name__} {_run_id(store, verb.run)}"]
        case StartRun():
            return [f"StartRun {plain(verb.run.id)}"]
        case _:
            return [type(verb).__name__]


def _run_id(store: SqliteStore, pk: int) -> str:
    if pk not in _run_ids:
        row = store.run_by_pk(pk)
        _run_ids[pk] = row.id if row is not None else f"run {pk}"
    return plain(_run_ids[pk])


def plain(run_id: str) -> str:
    """Return a run id without what is random in it."""
    return CHILD_ID.sub(r".\1", run_id)
