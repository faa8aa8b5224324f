"""Budgets hold across deaths, and what a takeover saves is counted once for each that went on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from outlast import Tokens
from outlast.sync import App
from tests.crash.harness.spender import agent
from tests.support.postgres import empty_store_url

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


def killed_at(url: str, ledger: Path, line: str, times: int) -> None:
    """Have a worker work until this line stands in the ledger so often, and kill it."""
    command = [sys.executable, "-m", "tests.crash.harness.spender", url, str(ledger)]
    worker = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        until = time.monotonic() + PATIENCE_S
        while not (ledger.exists() and lines(ledger)[line] >= times):
            assert time.monotonic() < until, f"{line} never came: {lines(ledger) if ledger.exists() else 'no ledger'}"
            assert worker.poll() is None
            time.sleep(0.01)
    finally:
        worker.kill()
        worker.wait()


def lines(ledger: Path) -> Counter[str]:
    return Counter(line.split()[0] for line in ledger.read_text().splitlines())


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_budget_holds_and_takeovers_save(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/agent.db" if store == "sqlite" else empty_store_url()
    ledger = tmp_path / "ledger"
    with App(url, worker=False) as app:
        app.start(agent(2), id="agent")
        killed_at(url, ledger, "hang-first", 1)
        killed_at(url, ledger, "hang-first", 2)  # the second dies without a record of its own
        killed_at(url, ledger, "hang-second", 1)
        before = app.get("agent").usage()
    monkeypatch.setattr("tests.crash.harness.spender.ledger", ledger)
    with App(url) as app:
        run = app.get("agent")
        assert run.result(PATIENCE_S) == ["a", "b", "1000 of 1000"]
        usage = run.usage()
    assert lines(ledger) == {"ask-a": 2, "ask-b": 1, "hang-first": 3, "hang-second": 2}
    assert before.saved == Tokens(input=300, calls=1)
    assert usage.spent == Tokens(input=1000, calls=3)
    assert usage.again == Tokens(input=300, calls=1)
    assert usage.saved == Tokens(input=300 + 700, calls=1 + 2)
