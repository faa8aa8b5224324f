"""The command line and outboxes: `outlast worker --outbox` relays them, `outlast doctor` shows what was refused."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import outlast
from tests.databases.shop import Shop, close, new_shop
from tests.unit.outlast_command import Outlast, Process


@outlast.workflow
async def fulfil(order: str) -> str:
    """Named as the one of the agent that the worker has."""
    return order


@pytest.fixture
def command(tmp_path: Path) -> Outlast:
    """Return the command line, with a store and an agent of its own."""
    return Outlast(tmp_path)


def note(shop: Shop, **runs: str) -> None:
    """Note runs: what is ordered, by the run's id."""
    db: Any = psycopg.connect(shop.address) if shop.is_postgres else sqlite3.connect(shop.address)
    for run, item in runs.items():
        outlast.outbox(db).start(fulfil(item), id=run)
    db.commit()
    db.close()


@contextmanager
def relaying(command: Outlast, *options: str, **env: str) -> Iterator[Process]:
    """Have a worker that relays, for the block."""
    with command.process("worker", "agent.py", "--verbose", *options, **env) as worker:
        worker.wait_for("ready: ")
        yield worker
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == 0


def doctor(command: Outlast, *words: str) -> tuple[dict[str, Any], str]:
    """Return what doctor says, as JSON and as text."""
    return json.loads(command.here("doctor", *words, "--json").stdout), command.here("doctor", *words).stdout


def test_a_worker_relays_all_outboxes_that_it_is_given(command: Outlast, shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = new_shop(tmp_path / "other")
    with relaying(command, "--outbox", shop.address, "--outbox", other.address) as worker:
        note(shop, first="lamp")
        note(other, second="chair")
        worker.wait_for("run first (fulfil) succeeded")
        worker.wait_for("run second (fulfil) succeeded")
    close(other)


def test_the_environment_names_an_outbox_too(command: Outlast, shop: Shop) -> None:
    with relaying(command, OUTLAST_OUTBOX=shop.address) as worker:
        note(shop, first="lamp")
        worker.wait_for("run first (fulfil) succeeded")


def test_beside_an_app_of_the_program_the_option_is_refused(command: Outlast) -> None:
    command.write("settings.py", "from outlast import App\napp = App()\n")
    result = command("worker", "agent.py", "--app", "settings.py:app", "--outbox", "shop.db")
    assert result.returncode == 2
    assert "set it there: App(outbox=...)" in result.stderr


def test_doctor_lists_what_the_relay_refused_until_it_is_tried_again(command: Outlast, shop: Shop) -> None:
    with relaying(command, "--outbox", shop.address) as worker:
        note(shop, first="lamp")
        worker.wait_for("run first (fulfil) succeeded")
        note(shop, first="chair")
        worker.wait_for("exists already, with other arguments")
    found, text = doctor(command, "--outbox", shop.address)
    (outbox,) = found["outboxes"]
    (row,) = outbox["rows"]
    assert (outbox["waiting"], outbox["refused"], outbox["error"]) == (0, 1, None)
    assert row["run"] == "first"
    assert "exists already, with other arguments" in row["reason"]
    assert row["noted"] is not None
    (finding,) = [finding for finding in found["findings"] if "outbox" in finding["what"]]
    assert finding["needs_person"]
    assert finding["runs"] == ["first"]
    assert "0 waiting, 1 refused" in text
    assert row["reason"] in text
    shop.ask("DELETE FROM outlast_outbox")
    note(shop, first="lamp")
    retry = next(line for line in finding["do"] if "UPDATE" in line)
    shop.ask(retry.strip())
    found, text = doctor(command, "--outbox", shop.address)
    assert "1 waiting, 0 refused" in text
    assert not any("outbox" in finding["what"] for finding in found["findings"])
    with relaying(command, "--outbox", shop.address):
        while shop.ask("SELECT n FROM outlast_outbox"):
            pass


TABLES = {
    False: "SELECT name FROM sqlite_master WHERE name = 'outlast_outbox'",
    True: "SELECT 1 WHERE to_regclass('outlast_outbox') IS NOT NULL",
}


def test_doctor_shows_the_outbox_of_the_program_s_app(command: Outlast, shop: Shop) -> None:
    command("start", "agent.py:fulfil", '["lamp"]')  # so that there is a store
    command.write("settings.py", f"from outlast import App\napp = App(outbox={shop.address!r})\n")
    result = command("doctor", "--app", "settings.py:app")
    assert ": 0 waiting, 0 refused" in result.stdout
    assert shop.ask(TABLES[shop.is_postgres]) == []  # it has made none


@pytest.mark.parametrize("away", ["postgresql://ann:secret@127.0.0.1:1/shop", "nowhere/shop.db"])
def test_an_outbox_that_cannot_be_read_spoils_nothing_else(command: Outlast, away: str) -> None:
    command("start", "agent.py:fulfil", '["lamp"]')
    found, text = doctor(command, "--outbox", away)
    assert found["outboxes"][0]["error"]
    assert any("cannot be read" in finding["what"] for finding in found["findings"])
    assert "1 pending" in text
    assert "secret" not in text
    assert not (command.folder / "nowhere").exists()
