"""`outlast demo` shows what it promises, can fail, and leaves no process behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

DEADLINE_S = 50.0


def test_the_demo_charges_twice_without_outlast_and_once_with_it(tmp_path: Path) -> None:
    ended = _demo(tmp_path, "--fast", "--json")
    told = json.loads(ended.stdout)

    assert ended.returncode == 0, told["problems"] + [ended.stderr]
    acts = {act["name"]: act for act in told["acts"]}
    assert list(acts) == ["1", "2", "3", "4a", "4b", "4c"]
    assert {name: act["charges"] for name, act in acts.items()} == {"1": 2, "2": 1, "3": 1, "4a": 1, "4b": 1, "4c": 1}
    assert [name for name, act in acts.items() if not act["finished"]] == ["2"]
    assert acts["1"]["plans"] == 2
    assert all(acts[name]["plans"] == acts[name]["tickets"] == 1 for name in ("3", "4a", "4b", "4c"))
    assert acts["3"]["figures"]["noticed_by"] != acts["3"]["figures"]["killed"]
    assert acts["4a"]["figures"]["verdict"] == "confirmed: happened"
    assert (acts["4b"]["figures"]["status"], acts["4b"]["figures"]["reason"]) == ("stuck", "in_doubt")
    assert "outlast resolve order-59" in acts["4b"]["figures"]["detail"]
    assert acts["4c"]["figures"]["charged_ms"] >= acts["4c"]["figures"]["settle_s"] * 1000
    assert told["answers"]["noticed_ms"] >= 0
    assert not list(tmp_path.iterdir())


def test_the_demo_fails_when_its_charge_may_be_repeated(tmp_path: Path) -> None:
    ended = _demo(tmp_path, "--fast", "--json", "--sabotage")
    told = json.loads(ended.stdout)

    assert ended.returncode == 1
    assert not told["ok"]
    assert "act 4a: the ledger has 2 charges for order 58, not 1" in told["problems"]
    assert "act 4b: the ledger has 2 charges for order 59, not 1" in told["problems"]
    assert Path(told["folder"], "payments.jsonl").exists()  # a demo that failed leaves what it found


def test_the_demo_answers_the_three_questions_in_plain_lines(tmp_path: Path) -> None:
    ended = _demo(tmp_path, "--fast", "--keep")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert all(question in ended.stdout for question in ("who noticed?", "who resumed?", "who guarantees?"))
    assert "4 orders, 4 charges" in ended.stdout
    assert "\x1b" not in ended.stdout
    (folder,) = tmp_path.iterdir()
    assert str(folder) in ended.stdout
    assert (folder / "outlast.db").exists()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)], ids=["INT", "TERM", "KILL"]
)
def test_no_process_outlives_a_stopped_demo(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with _started(tmp_path, "--fast", "--json") as demo:
        _wait_until(lambda: _workers_of(tmp_path) == 2 or demo.poll() is not None)
        demo.send_signal(number)
        assert demo.wait(DEADLINE_S) == code
        _wait_until(lambda: not _children_of(tmp_path))

    left = list(tmp_path.iterdir())
    assert bool(left) == (number is signal.SIGKILL)


def _demo(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the demo with its files in `folder`."""
    command = [sys.executable, "-m", "outlast", "demo", *options]
    return subprocess.run(
        command, env=_environment(folder), capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


@contextlib.contextmanager
def _started(folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "outlast", "demo", *options]
    with subprocess.Popen(command, env=_environment(folder), stdout=subprocess.DEVNULL) as demo:
        try:
            yield demo
        finally:
            demo.kill()


def _environment(folder: Path) -> dict[str, Any]:
    return {**os.environ, "TMPDIR": str(folder)}


def _children_of(folder: Path) -> list[str]:
    """Return the command lines of the demo's children: they name a file in its folder."""
    listed = subprocess.run(["ps", "-e", "-ww", "-o", "args"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if "outlast.cli.demo." in line and str(folder) in line]


def _workers_of(folder: Path) -> int:
    return sum("outlast.cli.demo.worker" in line for line in _children_of(folder))


def _wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)
