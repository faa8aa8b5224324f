"""How the command line tells of errors: the same line everywhere, where it was raised, and what is inside."""

from __future__ import annotations

import signal

import pytest

from outlast.stores.rules import crash_loop
from tests.unit.outlast_command import Outlast

SHOP = """\
import asyncio

from outlast import step, workflow


class Declined(Exception):
    pass


@step
async def look(name):
    return find(name)


def find(name):
    return {}[name]


@workflow
async def pricing(name: str) -> int:
    return await look(name)


@workflow
async def asking() -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.to_thread(print))


@workflow
async def declining() -> None:
    try:
        await look("card")
    except KeyError as error:
        raise Declined("no funds") from error


@workflow
async def above() -> None:
    await declining()
"""

EDITED = """\
from outlast import step, workflow


@step
async def look(name):
    return name


@workflow
async def pricing(name: str, currency: str) -> str:
    return await look(name)
"""


@pytest.fixture
def command(command: Outlast) -> Outlast:
    command.write("shop.py", SHOP)
    return command


def start(command: Outlast, workflow: str, *words: str) -> str:
    """Run a workflow that fails, in the command's process; return what it said."""
    result = command("start", f"shop.py:{workflow}", *words, "--here", "--id", workflow)
    assert result.returncode == 1, result.stderr
    return result.stderr


def test_the_file_and_the_line_are_in_the_log_and_in_every_listing(command: Outlast) -> None:
    said = start(command, "pricing", '["lamp"]')
    where = "KeyError: 'lamp' (shop.py:16 in find)"
    assert f"step main/look#1 failed: {where}" in said
    assert "in find\n    return {}[name]" in said
    assert "outlast/runtime" not in said
    assert f"error: run pricing (pricing) failed: {where}" in said
    assert where in command.here("show", "pricing").stdout
    assert where in command.here("show", "pricing", "--full").stdout
    assert where in command.here("runs").stdout
    shown = command.json("show", "pricing")
    assert shown["run"]["where"] == shown["steps"][0]["where"] == "shop.py:16 in find"


def test_a_worker_logs_the_traceback_where_nothing_is_tried_again(command: Outlast) -> None:
    command("start", "shop.py:pricing", '["lamp"]', "--id", "r")
    with command.process("worker", "shop.py") as worker:
        worker.wait_for("run r (pricing) failed: KeyError: 'lamp' (shop.py:16 in find)")
        worker.wait_for("return {}[name]")
        worker.signal(signal.SIGTERM)
        worker.wait_for("handing runs back")
        assert sum("return {}[name]" in line for line in worker.lines) == 1  # with the step, not with the run again


def test_a_group_is_told_by_what_is_in_it(command: Outlast) -> None:
    inside = "ExceptionGroup: NotDeterministic: threads and executors cannot be used in a workflow body"
    assert f"failed: {inside}" in start(command, "asking")
    assert inside in command.here("show", "asking").stdout
    assert inside[:80] in command.here("runs").stdout
    tree = [line.strip() for line in command.here("show", "asking", "--full").stdout.splitlines()]
    group = next(n for n, line in enumerate(tree) if "ExceptionGroup: unhandled errors in a TaskGroup" in line)
    assert tree[group + 1].startswith("NotDeterministic: threads")


def test_a_childs_error_is_told_the_same_way_by_show_and_runs(command: Outlast) -> None:
    start(command, "above")
    line = "Declined: no funds (from KeyError: 'card') (shop.py:35 in declining)"
    assert command.here("runs").stdout.count(line) == 2
    assert command.here("show", "above").stdout.count(line) == 2
    full = command.here("show", "above", "--full").stdout
    assert "from KeyError: 'card' (shop.py:16 in find)" in full


def test_code_that_raises_under_a_run_is_named_in_its_divergence(command: Outlast) -> None:
    command.write(
        "shop.py", EDITED.replace(", currency: str", "").replace("await look(name)", "await look(name) + str({}[1])")
    )
    start(command, "pricing", '["lamp"]')
    command.write("shop.py", EDITED)
    command.here("resume", "pricing")
    with command.process("worker", "shop.py") as worker:
        worker.wait_for(
            "the workflow pricing raised TypeError: pricing() missing 1 required positional argument: 'curr"
        )
    says = "raised TypeError: pricing() missing 1 required positional argument: 'currency' (shop.py:9 in pricing)"
    shown, doctor = command.here("show", "pricing").stdout, command.here("doctor").stdout
    for told in (shown, doctor):
        assert says in told
        assert "from before main/look#1, where the code does something else:" in told
        assert "outlast fork pricing 'main/look#1'" in told
        assert "code:    raised TypeError" in told
        assert "Bring the old code back" not in told  # the advice says it, once


PAYING = """\
import outlast


@outlast.step(effect="once")
async def pay():
    raise TimeoutError("slow")


@outlast.workflow
async def paying():
    await pay()
"""


def test_show_keeps_what_was_decided_before(command: Outlast) -> None:
    command.write("shop.py", PAYING)
    start(command, "paying")
    assert command.here("resolve", "paying", "pay", "--fail", "--by", "ann").exit_code == 0
    with command.process("worker", "shop.py") as worker:
        worker.wait_for("run paying (paying) failed: InDoubt")
        assert command.here("resume", "paying").exit_code == 0
        worker.wait_for("in doubt (it was decided to fail by ann, and then its run was resumed)")
    shown = command.here("show", "paying").stdout
    assert "(in doubt: it ended with TimeoutError: slow)  (decided: fail by ann)  (in doubt: it was decided to" in shown


def test_a_run_cancelled_in_doubt_waits_for_nothing(command: Outlast) -> None:
    command.write("shop.py", PAYING)
    start(command, "paying")
    assert command.here("cancel", "paying").exit_code == 0
    shown = command.here("show", "paying").stdout
    assert "waits for" not in shown
    assert "ended as  cancelled" in shown


def test_one_worker_that_died_is_one_worker() -> None:
    assert crash_loop(1) == "1 worker died under this run without a new record of it"
    assert crash_loop(3).startswith("3 workers in a row died under this run")
