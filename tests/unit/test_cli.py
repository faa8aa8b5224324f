"""What holds for every verb: help, errors, exit codes, pipes, completion, and what is imported when."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import outlast
from outlast import App
from outlast.cli import app
from outlast.cli.exits import MEANINGS, ExitCode, exit_code_of
from outlast.cli.verbs import VERBS
from outlast.core.errors import OutlastError
from tests.unit.outlast_command import Outlast


@outlast.step(name="cli_noted", effect="pure")
async def noted(text: str) -> str:
    return text


@outlast.workflow(name="cli_noting")
async def noting(text: str) -> str:
    return await noted(text)


def fill(store: Path, number: int) -> None:
    async def main() -> None:
        async with App(store, worker=False) as opened:
            for n in range(number):
                await opened.start(noting("x"), id=f"order {n} " + "y" * 200)

    asyncio.run(main())


def test_help_names_every_verb_and_every_exit_code() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for verb in VERBS:
        assert f" {verb} " in result.stdout
    for code in MEANINGS:
        assert f" {code.value} " in result.stdout


def test_without_a_verb_help_is_shown_once() -> None:
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 0
    assert result.stdout.count("Usage:") == 1


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "demo"])
def test_every_verb_has_examples_and_its_line_in_the_table_fits_its_help(verb: str) -> None:
    result = CliRunner().invoke(app, [verb, "--help"])
    assert result.exit_code == 0
    assert f"  outlast {verb}" in result.stdout or f" outlast {verb}" in result.stdout.split("Usage:")[1][30:]
    assert "--json" in result.stdout


def test_version_is_an_option_and_a_verb() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"outlast {outlast.__version__}\n"
    found = json.loads(CliRunner().invoke(app, ["version", "--json"]).stdout)
    assert found["outlast"] == outlast.__version__
    assert {"python", "sqlite"} <= found.keys()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["shw"], "No such command 'shw'. Did you mean 'show'?"),
        (["runs", "--nothing"], "No such option: --nothing"),
        (["show"], "Missing argument"),
        (["runs", "--limit", "0"], "--limit"),
        (["result", "x", "--timeout", "soon"], "--timeout"),
    ],
)
def test_a_wrong_command_line_is_told_in_one_way(words: list[str], says: str) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == ExitCode.WRONG_USE
    assert "Usage: outlast" in result.stderr
    assert says in result.stderr
    assert "error: " in result.stderr
    assert result.stdout == ""
    as_json = CliRunner().invoke(app, [*words, "--json"])
    assert json.loads(as_json.stderr)["type"] == "WrongUse"


def test_an_error_is_one_line_and_a_traceback_only_with_debug(command: Outlast) -> None:
    fill(command.store, 1)
    quiet = command.here("show", "nobody")
    assert quiet.exit_code == ExitCode.NOT_FOUND
    assert quiet.stderr.startswith("error: no run has the id 'nobody'")
    assert "Traceback" not in quiet.stderr
    loud = command.here("show", "nobody", "--debug")
    assert loud.exit_code == ExitCode.NOT_FOUND
    assert "Traceback" in loud.stderr
    as_json = command.here("show", "nobody", "--json")
    assert as_json.exit_code == ExitCode.NOT_FOUND
    assert as_json.stdout == ""
    assert json.loads(as_json.stderr)["type"] == "RunNotFound"


READERS: list[tuple[str, ...]] = [
    ("runs",), ("doctor",), ("show", "x"), ("result", "x"), ("cancel", "x"), ("resume", "x"), ("fork", "x", "y"),
    ("resolve", "x", "y", "--fail"),
]  # fmt: skip


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
def test_looking_at_a_store_does_not_make_one(command: Outlast, words: tuple[str, ...]) -> None:
    result = command.here(*words)
    assert result.exit_code == ExitCode.UNAVAILABLE
    assert str(command.store) in result.stderr
    assert "OUTLAST_URL" in result.stderr
    assert not command.store.exists()


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
def test_a_file_that_is_no_store_is_named(command: Outlast, words: tuple[str, ...]) -> None:
    command.store.write_text("a letter to a friend, long enough to be looked at as a database\n" * 20)
    before = command.store.read_bytes()
    result = command.here(*words)
    assert result.exit_code == ExitCode.UNAVAILABLE
    assert str(command.store) in result.stderr
    assert command.store.read_bytes() == before


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
def test_a_store_in_memory_is_refused_where_no_other_process_sees_it(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*words, "--url", "memory://"])
    assert result.exit_code == ExitCode.WRONG_USE
    assert "memory://" in result.stderr


@pytest.mark.parametrize("words", [w for w in READERS if len(w) > 1], ids=lambda words: words[0])
def test_a_run_that_is_not_there_is_not_found(command: Outlast, words: tuple[str, ...]) -> None:
    fill(command.store, 1)
    assert command.here(*words).exit_code == ExitCode.NOT_FOUND


def test_the_store_comes_from_the_environment_too(command: Outlast) -> None:
    fill(command.folder / "else where.db", 1)
    result = command("runs", "--json", OUTLAST_URL="sqlite:///else%20where.db")
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)) == 1


def test_every_error_has_an_exit_code_of_the_table() -> None:
    def all_of(cls: type[OutlastError]) -> list[type[OutlastError]]:
        found = [cls]
        for below in cls.__subclasses__():
            found += all_of(below)
        return found

    for kind in all_of(OutlastError):
        assert exit_code_of(kind("text")) in MEANINGS


def test_a_pipe_gets_whole_ids_without_colour(command: Outlast) -> None:
    fill(command.store, 1)
    result = command("runs", COLUMNS="40", TERM="xterm-256color")
    assert result.returncode == 0
    assert "order 0 " + "y" * 200 in result.stdout
    assert "\x1b" not in result.stdout


def test_a_reader_that_goes_away_ends_the_command_quietly(command: Outlast) -> None:
    fill(command.store, 800)
    argv = [sys.executable, "-m", "outlast", "runs", "--limit", "800"]
    with subprocess.Popen(
        argv, cwd=command.folder, env=command.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None  # noqa: PT018 - for mypy
        assert process.stdout.readline().startswith(b"RUN")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == ExitCode.BROKEN_PIPE


def test_a_terminal_without_unicode_is_written_to_all_the_same(command: Outlast) -> None:
    async def main() -> None:
        async with App(command.store) as opened:
            await (await opened.start(noting("größer → ☃"), id="ü")).result()

    asyncio.run(main())
    result = command("show", "ü", PYTHONIOENCODING="ascii:strict", PYTHONUTF8="0")
    assert result.returncode == 0, result.stderr
    assert "\\u2603" in result.stdout
    assert result.stdout.isascii()


def test_control_characters_in_values_do_not_reach_the_terminal(command: Outlast) -> None:
    async def main() -> None:
        async with App(command.store) as opened:
            await (await opened.start(noting("\x1b[2Jcleared"), id="esc")).result()

    asyncio.run(main())
    assert "\x1b" not in command.here("show", "esc").stdout


def test_completion_knows_the_verbs_and_their_options(command: Outlast) -> None:
    def complete(words: str) -> str:
        env = {"_OUTLAST_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        argv = [str(Path(sys.executable).parent / "outlast")]
        return subprocess.run(argv, env=command.env | env, capture_output=True, text=True, check=False).stdout

    assert {"resume", "resolve", "result"} <= set(complete("outlast res").split())
    assert "--did-not-happen" in complete("outlast resolve --did")


def test_the_command_imports_no_verb_before_it_is_used() -> None:
    code = (
        "import sys, outlast; before = set(sys.modules); import outlast.cli; "
        "outlast.cli.app.__class__; print(*sorted(set(sys.modules) - before))"
    )
    env = {**os.environ, "COVERAGE_PROCESS_START": ""}
    new = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    ).stdout.split()
    ours = {name for name in new if name.startswith("outlast.cli.")}
    assert ours == {"outlast.cli." + name for name in ("exits", "failures", "hashseed", "streams", "verbs", "wording")}
    assert not {name for name in new if name.partition(".")[0] in ("rich", "pydantic", "psycopg", "click")}


def test_help_imports_no_verb(command: Outlast) -> None:
    argv = [sys.executable, "-X", "importtime", "-m", "outlast", "--help"]
    stderr = subprocess.run(argv, env=command.env, capture_output=True, text=True, check=True).stderr
    imported = {line.rpartition("|")[2].strip() for line in stderr.splitlines()}
    assert not {f"outlast.cli.{verb}" for verb in VERBS} & imported


@pytest.fixture
def interrupting(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def install() -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("outlast.cli.result.with_store", interrupted)

    return install


def test_ctrl_c_is_130(command: Outlast, interrupting: Callable[[], None]) -> None:
    command.here("result", "x")  # imports it
    interrupting()
    result = command.here("result", "x")
    assert result.exit_code == ExitCode.INTERRUPTED
    assert "Traceback" not in result.stderr
