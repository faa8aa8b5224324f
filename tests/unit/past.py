"""A store for the tests of `outlast doctor` as workers would have left it, and what doctor finds there."""

from __future__ import annotations

import json
import os
from typing import Any

import apsw

from outlast.cli.exits import ExitCode
from outlast.core.queues import Limits
from outlast.core.records import Record, RunRow, WorkerRow
from outlast.core.transitions import Reason
from outlast.runtime.clock import SystemClock
from outlast.stores.queue_verbs import DeclareQueue, PauseQueue
from outlast.stores.sqlite import SqliteStore
from outlast.stores.verbs import Claim, Register, StartRun, Stick, Write
from tests.unit.outlast_command import Outlast


class Clock(SystemClock):
    """The machine's clocks, some seconds ago."""

    ago = 0.0

    def wall(self) -> float:
        return super().wall() - self.ago

    def boot(self) -> float:
        return super().boot() - self.ago


class Past:
    """Writes to a store what workers would have written."""

    def __init__(self, command: Outlast) -> None:
        self.clock = Clock()
        self.store = SqliteStore(str(command.store), self.clock)

    def start(self, id: str, workflow: str = "fulfil", module: str = "shop", queue: str = "") -> None:
        code = f"{module}:{workflow}"
        row = RunRow(pk=0, id=id, incarnation=id, workflow=workflow, definition=code, input=b"[[1],{}]", queue=queue)
        self.store.transact([StartRun(run=row)])

    def register(self, worker: str = "w", *serves: str, **fields: Any) -> None:
        known = {"pid": os.getpid(), "host": "host", "boot": self.clock.boot_id()}
        row = WorkerRow(id=worker, serves=serves, **known | fields)
        self.store.transact([Register(worker=row, lease_s=30.0)])

    def queue(self, name: str, *, paused_by: str = "", **limits: Any) -> None:
        self.store.transact([DeclareQueue(name=name, limits=Limits(**limits))])
        if paused_by:
            self.store.transact([PauseQueue(name=name, paused=True, by=paused_by)])

    def claim(self, worker: str = "w", workflow: str = "fulfil", queue: str = "") -> RunRow:
        verb = Claim(worker=worker, workflows=(workflow,), limit=1, queues=(queue,) if queue else ())
        answer: Any = self.store.transact([verb])[0]
        row: RunRow = answer.runs[0]
        return row

    def stick(self, id: str, reason: Reason, *records: Record) -> None:
        self.start(id)
        self.register()
        row = self.claim()
        ids: Any = {"worker": "w", "run": row.pk, "claim": row.claim}
        if records:
            self.store.transact([Write(records=records, **ids)])
        self.store.transact([Stick(reason=reason, detail="so it is", **ids)])


def change(command: Outlast, statement: str) -> None:
    """Change rows as no store would."""
    db = apsw.Connection(str(command.store))
    db.execute(statement)
    db.close()


def findings(command: Outlast, *words: str) -> list[dict[str, Any]]:
    result = command.here("doctor", *words, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == (ExitCode.OK if found["ok"] else ExitCode.FAILED)
    listed: list[dict[str, Any]] = found["findings"]
    assert found["ok"] is not any(finding["needs_person"] for finding in listed)
    text = command.here("doctor", *words)
    assert text.exit_code == result.exit_code
    for finding in listed:
        assert finding["what"].partition(" since ")[0] in text.stdout
    return listed
