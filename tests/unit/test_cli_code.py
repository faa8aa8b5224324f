"""The code that a worker is given: how it is named and found, and how what is wrong with it is told."""

from __future__ import annotations

import json
import signal

import pytest

from outlast.cli.exits import ExitCode
from tests.unit.outlast_command import Outlast


def refused(command: Outlast, *code: str) -> str:
    result = command("worker", *code)
    assert result.returncode == ExitCode.WRONG_USE, result.stderr
    assert result.stdout == ""
    assert not command.store.exists()
    return result.stderr


def test_code_that_fails_is_shown_with_its_own_traceback(command: Outlast) -> None:
    name = command.write("broken.py", "def deep() -> None:\n    raise KeyError('PAYMENT_TOKEN')\n\n\ndeep()\n")
    stderr = refused(command, name)
    assert "error: broken.py cannot be imported:" in stderr
    assert "line 2, in deep" in stderr
    assert "KeyError: 'PAYMENT_TOKEN'" in stderr
    assert "importlib" not in stderr
    assert "outlast/cli" not in stderr


@pytest.mark.parametrize("name", [".", "..", ".shop", "shop.", "shop..agent", ""])
def test_what_can_be_no_module_is_refused_as_such(command: Outlast, name: str) -> None:
    assert f"error: {name!r} is no module" in refused(command, name)


def test_code_with_a_syntax_error_is_shown(command: Outlast) -> None:
    stderr = refused(command, command.write("typo.py", "def x(:\n"))
    assert "SyntaxError" in stderr
    assert "typo.py" in stderr


def test_a_missing_dependency_of_the_code_is_shown_as_such(command: Outlast) -> None:
    command.write("needs.py", "import no_such_thing\n")
    for name in ("needs.py", "needs"):
        stderr = refused(command, name)
        assert "ModuleNotFoundError: No module named 'no_such_thing'" in stderr
        assert 'needs.py", line 1' in stderr


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("nothing.py", "there is no file nothing.py"),
        ("nothing", "there is no module 'nothing'"),
        ("agent.nothing", "there is no module 'agent.nothing'"),
        ("two words.py", "there is no file"),
        ("marked.txt", "there is no file marked.txt"),
        ("letter.txt", "letter.txt is no Python file"),
        ("./letter.txt", "./letter.txt is no Python file"),
        ("letter", "there is no module 'letter'"),
        ("marked.deep.txt", "there is no file marked.deep.txt"),
    ],
)
def test_code_that_is_not_there_is_named_and_nothing_else_is_executed(command: Outlast, code: str, says: str) -> None:
    command.write("marked.py", "from pathlib import Path\nPath('executed').touch()\n")
    command.write("letter.txt", "to a friend\n")
    assert says in refused(command, code)
    assert not (command.folder / "executed").exists()


def test_a_name_without_py_for_a_file_is_understood_from_the_folder(command: Outlast) -> None:
    with command.process("worker", "agent") as worker:
        worker.wait_for("ready")


def test_code_in_a_package_is_imported_by_its_dotted_name(command: Outlast) -> None:
    command.write("shop/__init__.py", "")
    command.write("shop/parts.py", "import outlast\n\n\n@outlast.step\nasync def one() -> int:\n    return 1\n")
    name = command.write(
        "shop/flows.py",
        """
        import outlast
        from .parts import one

        @outlast.workflow
        async def flow() -> int:
            return await one()
        """,
    )
    assert "name it with dots" in refused(command, name)
    with command.process("worker", "shop.flows") as worker:
        assert "flow" in worker.wait_for("ready")


def test_code_without_a_workflow_is_refused(command: Outlast) -> None:
    stderr = refused(command, "agent.py", command.write("empty.py", "x = 1\n"))
    assert "empty.py defines no workflow" in stderr


def test_a_file_named_like_a_module_of_pythons_is_refused(command: Outlast) -> None:
    stderr = refused(command, command.write("shop/json.py", SAME_NAME))
    assert "rename the file" in stderr


def test_code_that_ends_the_process_is_told(command: Outlast) -> None:
    assert "ends the process" in refused(command, command.write("quits.py", "raise SystemExit(3)\n"))


def test_an_error_of_the_code_as_json(command: Outlast) -> None:
    name = command.write("broken.py", "1 / 0\n")
    result = command("worker", name, "--json")
    assert result.returncode == ExitCode.WRONG_USE
    error = json.loads(result.stderr)
    assert error["type"] == "WrongUse"
    assert "ZeroDivisionError" in error["error"]


SAME_NAME = """
import asyncio
from outlast import workflow

@workflow
async def f(text: str) -> str:
    return f"{__name__} {text}"
"""


@pytest.fixture
def two_modules(command: Outlast) -> Outlast:
    for name in ("ma.py", "mb.py"):
        (command.folder / name).write_text(SAME_NAME)
    return command


def test_a_worker_refuses_two_workflows_of_one_name(two_modules: Outlast) -> None:
    result = two_modules("worker", "ma.py", "mb.py")
    assert result.returncode == ExitCode.WRONG_USE
    assert "ma:f and mb:f are two workflows named 'f'" in result.stderr
    assert "@outlast.workflow(name=...)" in result.stderr


def test_a_worker_says_once_that_it_executes_runs_of_another_module(two_modules: Outlast) -> None:
    for run in ("one", "two"):
        two_modules("start", "mb.py:f", '["x"]', "--id", run)
    with two_modules.process("worker", "ma.py") as worker:
        worker.wait_for("was started as mb:f, and f is ma:f here")  # whichever of the two begins first
        for run in ("one", "two"):
            assert two_modules.here("result", run, "--timeout", "60").stdout == '"ma x"\n'
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == 0
    assert sum("was started as" in line for line in worker.lines) == 1


def test_a_run_that_is_started_again_from_another_module_is_told(two_modules: Outlast) -> None:
    two_modules("start", "ma.py:f", '["x"]', "--id", "r")
    again = two_modules("start", "ma.py:f", '["x"]', "--id", "r")
    assert "WARNING" not in again.stderr
    other = two_modules("start", "mb.py:f", '["x"]', "--id", "r")
    assert "WARNING run r was started as ma:f, and f is mb:f here" in other.stderr


def test_a_module_is_the_same_within_its_package_and_as_a_script(command: Outlast) -> None:
    (command.folder / "shop").mkdir()
    (command.folder / "shop" / "orders.py").write_text(SAME_NAME)
    command("start", "shop/orders.py:f", '["x"]', "--id", "r")
    with command.process("worker", "shop.orders") as worker:
        assert command.here("result", "r", "--timeout", "60").stdout == '"shop.orders x"\n'
        assert not any("WARNING" in line for line in worker.lines)


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("print(outlast.App().run(f('x')))", "App.run()"),
        ("print(outlast.sync.App().run(f('x')))", "App.run()"),
        ("with outlast.sync.App() as app:\n    app.start(f('x'))", "`with App(...)`"),
        (
            "async def main():\n    async with outlast.App() as app: await app.start(f('x'))\n\nasyncio.run(main())",
            "`async with App(...)`",
        ),
    ],
)
def test_a_script_without_a_main_guard_starts_no_run_when_it_is_imported(
    command: Outlast, script: str, what: str
) -> None:
    (command.folder / "money.py").write_text(f"import outlast\n{SAME_NAME}\n\n{script}\n")
    for words in (("worker", "money.py"), ("worker", "money"), ("start", "money.py:f", '["y"]')):
        result = command(*words)
        assert result.returncode == ExitCode.WRONG_USE
        assert f"calls {what} while it is imported" in result.stderr
        assert 'put that under `if __name__ == "__main__":`' in result.stderr
        assert "never awaited" not in result.stderr
    assert not command.store.exists()
    assert "money x" not in command("runs").stdout
