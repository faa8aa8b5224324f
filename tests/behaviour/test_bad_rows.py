"""A row that makes no sense stops the run that it belongs to, by name, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

import outlast
from outlast import App, Run, step, workflow
from tests.behaviour.stage import eventually, reaches, stuck


@step(effect="pure")
async def count(number: int) -> int:
    return number


@workflow
async def counting(number: int) -> int:
    await count(number)
    await outlast.receive("go")
    return await count(number)


async def test_a_run_whose_journal_cannot_be_read_is_stuck_and_those_that_are_read_with_it_go_on(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "runs.db")
    ids = [f"run-{n}" for n in range(5)]
    async with App(path, park_after=0) as app:
        for n, name in enumerate(ids):
            await reaches(await app.start(counting(n), id=name), "waiting")
    with apsw.Connection(path) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute("UPDATE records SET kind = 'nonsense' WHERE run = (SELECT pk FROM runs WHERE id = 'run-2')")
    async with App(path, worker=False) as client:
        for name in ids:
            await client.send(name, "go")
    async with App(path, park_after=0) as app:
        runs = [await app.get(name) for name in ids]
        bad = await stuck(runs.pop(2))
        assert [await run.result() for run in runs] == [0, 1, 3, 4]
    assert (bad.id, bad.reason) == ("run-2", "undecodable")
    assert "does not know: 'nonsense'" in bad.detail


async def test_a_run_whose_mail_cannot_be_read_is_stuck_and_that_of_others_beside_it_arrives(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    async with App(path, park_after=30) as app:
        runs = [await app.start(counting(n), id=f"run-{n}") for n in range(3)]
        for run in runs:
            await eventually(lambda run=run: _has_counted(run))
        with apsw.Connection(path) as db:
            db.execute("PRAGMA ignore_check_constraints = ON")
            db.execute(
                "INSERT INTO inbox (run, kind, key, message_id, ok, created) "
                "SELECT pk, 'nonsense', '', 'm', 1, 0 FROM runs WHERE id = 'run-1'"
            )
        for run in (runs[0], runs[2]):
            await run.send("go")
        bad = await stuck(runs.pop(1))
        assert [await run.result() for run in runs] == [0, 2]
    assert (bad.id, bad.reason) == ("run-1", "undecodable")
    assert "does not know: 'nonsense'" in bad.detail


async def _has_counted(run: Run[Any]) -> bool:
    return len(await run.steps()) >= 1
